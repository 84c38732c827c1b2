"""A torch of the CPU that believes to be built for CUDA, over the fake allocator.

What torch.cuda does in Python (lazy initialisation, its queue of calls) is torch's own.
"""

import torch


class Devices:
    """What the C++ half of torch.cuda says."""

    def __init__(self, fake, count=2):
        self.fake = fake
        self.count = count
        self.initialized = 0

    def init(self):
        self.initialized += 1

    def stats(self, device=None):
        index = device or 0
        return {
            "allocated_bytes.all.current": self.fake.fake_allocated(index),
            "allocated_bytes.all.peak": self.fake.fake_allocated(index),
            "reserved_bytes.all.current": self.fake.fake_reserved(index),
            "reserved_bytes.all.peak": self.fake.fake_reserved(index),
        }


def pretend(fake):
    """From now on torch.version.cuda is set, and CUDA can be initialised."""
    devices = Devices(fake)
    torch.version.cuda = "13.0"
    torch._C._cuda_getDeviceCount = lambda: devices.count
    torch._C._cuda_init = devices.init
    torch._C._cuda_isInBadFork = False
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    torch.cuda._cudart = object()
    torch.cuda._is_in_bad_fork = lambda: False
    torch.cuda._queued_calls.clear()  # checks of real devices
    torch.cuda.device_count = lambda: devices.count
    torch.cuda.memory_stats = torch.cuda.memory.memory_stats = devices.stats
    torch.cuda.memory_snapshot = list
    torch.cuda.manual_seed_all = lambda seed: None
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.empty_cache = fake.fake_empty_cache
    torch.cuda.mem_get_info = lambda device=None: (3 << 30, 4 << 30)
    torch.cuda.current_device = lambda: 0
    return devices
