"""Hooks in torch: the compiled adapter, its cache, and what is used where there is no compiler."""
