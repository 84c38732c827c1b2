"""CUDA: the CUDA adapter, or torch's own allocator history."""
