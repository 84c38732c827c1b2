"""Recording on CUDA: through the CUDA adapter, or from torch's own allocator history."""
