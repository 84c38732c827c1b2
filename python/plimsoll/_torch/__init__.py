"""Hooks in torch: the compiled adapter, its cache, and the fallback without a compiler."""
