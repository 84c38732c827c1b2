"""A fake of torch's allocator history, with the interface of torch.cuda.memory."""

import ctypes
import sys

import torch

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
)
STATES = ("inactive", "active_pending_free", "active_allocated")


class Remembered(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("action", "address", "size", "stream")] + [
        ("time_us", ctypes.c_int64)
    ]


Row = ctypes.c_uint64 * 5
Observer = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)


class History:
    """Replaces functions of torch.cuda.memory; counts the calls."""

    def __init__(self, fake, devices=2):
        self.fake = fake
        self.devices = devices
        self.enabled = None
        self.calls = []
        self.snapshots = 0
        self.observers = []
        for name in ("fake_history", "fake_heap"):
            getattr(fake, name).restype = ctypes.c_uint64
        memory = torch.cuda.memory
        memory._record_memory_history = self.record
        memory._snapshot = self.snapshot
        torch._C._cuda_record_memory_history = self.switch
        torch._C._cuda_isHistoryEnabled = lambda: self.enabled is not None
        torch._C._cuda_attach_out_of_memory_observer = self.observe

    def record(self, enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
        torch._C._cuda_record_memory_history(enabled, context, stacks, max_entries)

    def switch(self, enabled, *words):
        self.calls.append((enabled, *words))
        self.enabled = enabled
        self.fake.fake_remember(int(enabled is not None))

    def observe(self, observer):
        kept = Observer(observer)
        self.observers.append(kept)
        self.fake.fake_observe(kept)

    def snapshot(self, device=None, augment_with_fx_traces=False):
        self.snapshots += 1
        return {
            "segments": [each for device in range(self.devices) for each in self._heap(device)],
            "device_traces": [self._events(device) for device in range(self.devices)],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
            "external_annotations": [],
        }

    def _events(self, device):
        count = self.fake.fake_history(device, None, 0)
        rows = (Remembered * count)()
        self.fake.fake_history(device, rows, ctypes.c_uint64(count))
        return [self._event(row) for row in rows]

    def _event(self, row):
        action = ACTIONS[row.action]
        address = "device_free" if action == "oom" else "addr"
        return {
            "action": action,
            address: row.address,
            "size": row.size,
            "stream": row.stream,
            "time_us": row.time_us,
            "frames": [],
        }

    def _heap(self, device):
        count = self.fake.fake_heap(device, None, 0)
        rows = (Row * count)()
        self.fake.fake_heap(device, rows, ctypes.c_uint64(count))
        segments = []
        for _, address, size, requested, state in rows:
            if state == 3:
                segments.append(
                    {
                        "device": device,
                        "address": address,
                        "total_size": size,
                        "stream": 0,
                        "segment_type": "small" if requested else "large",
                        "segment_pool_id": (0, 0),
                        "is_expandable": False,
                        "frames": [],
                        "blocks": [],
                    }
                )
            else:
                segments[-1]["blocks"].append(
                    {
                        "address": address,
                        "size": size,
                        "requested_size": requested,
                        "state": STATES[state],
                        "frames": [],
                    }
                )
        for segment in segments:
            blocks = segment["blocks"]
            used = [each for each in blocks if each["state"] == "active_allocated"]
            active = [each for each in blocks if each["state"] != "inactive"]
            segment["allocated_size"] = sum(each["size"] for each in used)
            segment["active_size"] = sum(each["size"] for each in active)
            segment["requested_size"] = sum(each["requested_size"] for each in active)
        return segments
