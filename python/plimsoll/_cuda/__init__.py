"""CUDA: the second half of the adapter, or torch's own history of its allocator."""
