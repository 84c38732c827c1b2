"""Out-of-memory messages as PyTorch prints them, with numbers of a test's choice."""

TORCH_2 = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/home/me/project/train.py", line 30, in step\n'
    "[rank0]:     attention(x)\n"
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU 0 has "
    "a total capacity of 80.00 GiB of which {free} is free. {processes}Including non-PyTorch "
    "memory, this process has {process} memory in use. Of the allocated memory {allocated} is "
    "allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.  See documentation for Memory Management\n"
)
TORCH_1 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total "
    "capacity; 6.31 GiB already allocated; 12.06 MiB free; 6.36 GiB reserved in total by PyTorch)"
)


def message(**numbers):
    usual = {"requested": "2.00 GiB", "free": "1.00 GiB", "processes": "", "process": "78.50 GiB"}
    return TORCH_2.format(**(usual | {"allocated": "76.50 GiB", "unused": "1.20 GiB"} | numbers))
