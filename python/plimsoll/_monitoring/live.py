"""Publishes the live memory of this process for `plimsoll top`."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from plimsoll import _record
from plimsoll._record import DeviceMemory

_lock = threading.Lock()
_users: set[object] = set()
_pid = 0


def begin(user: object) -> None:
    """Add a user. The first one starts publishing, and querying torch for CUDA devices."""
    global _pid
    with _lock:
        if _pid != os.getpid():
            _pid = os.getpid()  # the child of a fork
            _users.clear()
        _users.add(user)
        if len(_users) == 1:
            _record.set_device_source(_cuda_devices)
            _record.start_showing()


def end(user: object) -> None:
    """Remove a user; the last one stops publishing. Do nothing for an unknown user."""
    with _lock:
        if _pid != os.getpid() or user not in _users:
            return
        if len(_users) == 1:
            _record.stop_showing()
            _record.set_device_source(None)
        _users.discard(user)  # last, because an interrupted call is repeated


def _cuda_devices() -> list[DeviceMemory]:
    """Return figures of torch's caching allocator and of the driver, if this process uses CUDA."""
    torch = sys.modules.get("torch")
    cuda: Any = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    devices = []
    for index in range(cuda.device_count()):
        stats = cuda.memory_stats(index)
        # Querying the driver for a device that this process does not use would open the device,
        # which takes hundreds of MB on it.
        if not stats.get("reserved_bytes.all.peak") and index != cuda.current_device():
            continue
        free_bytes, total_bytes = cuda.mem_get_info(index)
        device = DeviceMemory()
        device.name = f"cuda:{index}"
        device.allocated_bytes = stats.get("allocated_bytes.all.current")
        device.reserved_bytes = stats.get("reserved_bytes.all.current")
        device.peak_bytes = stats.get("allocated_bytes.all.peak")
        device.used_bytes = total_bytes - free_bytes
        device.total_bytes = total_bytes
        devices.append(device)
    return devices


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
