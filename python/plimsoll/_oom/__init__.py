"""The report that is printed when a CUDA device runs out of memory."""
