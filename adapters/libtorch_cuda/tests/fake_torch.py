"""Makes a CPU build of torch report that it is built for CUDA, with the fake allocator.

The Python part of torch.cuda (lazy initialization, its queue of calls) is torch's own.
"""

import contextlib
import ctypes
import itertools

import torch

CUDA_VERSION = "13.0"


class Devices:
    """Replaces the C++ part of torch.cuda."""

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


class Properties:
    name, major, minor, total_memory = "a fake of host memory", 9, 0, 4 << 30


class Stream:
    """The part of torch.cuda.Stream that programs call; it affects only memory."""

    numbers = itertools.count(1)

    def __init__(self):
        self.number = next(Stream.numbers)

    def wait_stream(self, other):
        pass


def lend_devices(fake):
    """Plain Python functions, because torch keeps them in sets."""

    def current_device():
        return fake.fake_get_device()

    def exchange_device(device):
        return fake.fake_exchange_device(device)

    torch._C._cuda_getDevice = torch.cuda.current_device = current_device
    torch.cuda._exchange_device = torch.cuda._maybe_exchange_device = exchange_device


def address_of(tensor):
    """Read the third word of torch's StorageImpl. After data_ptr(), the last use is unknown."""
    return ctypes.c_uint64.from_address(tensor.untyped_storage()._cdata + 16).value


def lend_streams(fake):
    """Blocks belong to the stream in whose `with` they are allocated; those used on others wait."""
    fake.fake_set_stream.restype = ctypes.c_uint64
    fake.fake_set_stream.argtypes = [ctypes.c_uint64]

    @contextlib.contextmanager
    def stream(chosen):
        before = fake.fake_set_stream(chosen.number)
        try:
            yield
        finally:
            fake.fake_set_stream(before)

    def record_stream(tensor, used_on):
        fake.fake_record_stream(tensor.get_device(), address_of(tensor))

    def synchronize(device=None):
        for index in range(torch.cuda.device_count()):
            fake.fake_complete_all(index)

    torch.cuda.Stream, torch.cuda.stream = Stream, stream
    torch.Tensor.record_stream = record_stream
    torch.cuda.synchronize = synchronize


def pretend(fake):
    """Set torch.version.cuda, so that CUDA can be initialized."""
    devices = Devices(fake)
    torch.version.cuda = CUDA_VERSION
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
    torch.cuda.reset_peak_memory_stats = lambda device=None: None
    torch.cuda.get_allocator_backend = lambda: "native"
    torch.cuda.manual_seed_all = lambda seed: None
    lend_streams(fake)
    torch.cuda.empty_cache = fake.fake_empty_cache
    torch.cuda.mem_get_info = lambda device=None: (
        fake.fake_total(device or 0) - fake.fake_reserved(device or 0),
        fake.fake_total(device or 0),
    )
    torch.cuda.set_per_process_memory_fraction = lambda fraction, device=None: (
        fake.fake_set_fraction(device or 0, ctypes.c_double(fraction))
    )
    lend_devices(fake)
    torch.cuda.default_generators = (torch.default_generator,) * devices.count
    torch.cuda.get_device_properties = lambda device=None: Properties()
    return devices


def snapshot():
    """The result of torch.cuda.memory._snapshot() for a program with one block of 1000 bytes."""
    frames = [{"filename": "train.py", "line": 7, "name": "step"}]
    base = 0x7F0000000000
    common = {"stream": 0, "compile_context": "N/A", "user_metadata": "", "frames": frames}
    times = iter(range(1_700_000_000_000_000, 1_700_000_000_000_100))
    events = [
        {"action": "segment_alloc", "addr": base, "size": 2 << 20},
        {"action": "alloc", "addr": base, "size": 1000},
        {"action": "alloc", "addr": base + 1024, "size": 300},
        {"action": "free_requested", "addr": base + 1024, "size": 300},
        {"action": "free_completed", "addr": base + 1024, "size": 300},
        {"action": "oom", "device_free": 4096, "size": 8 << 20},
    ]
    block = {"size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": frames}
    rest = {"size": (2 << 20) - 1024, "requested_size": 0, "state": "inactive", "frames": []}
    segment = {
        "device": 0,
        "address": base,
        "total_size": 2 << 20,
        "allocated_size": 1024,
        "active_size": 1024,
        "requested_size": 1000,
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": frames,
        "blocks": [block | {"address": base}, rest | {"address": base + 1024}],
    }
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False}
    return {
        "segments": [segment],
        "device_traces": [[event | common | {"time_us": next(times)} for event in events]],
        "allocator_settings": settings,
        "external_annotations": [],
    }
