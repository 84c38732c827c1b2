"""The names of devices that `MemoryTracer` accepts: ``cpu``, ``cuda``, ``cuda:1``."""

from __future__ import annotations

import sys
from typing import Any

from plimsoll.errors import InvalidArgumentError


def problem_of(device: str) -> str | None:
    """Return why the device cannot be traced; None if it can."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return None
    if kind != "cuda":
        return f"the model is on {device}, whose memory Plimsoll does not record"
    cuda: Any = sys.modules["torch"].cuda
    count = cuda.device_count() if cuda.is_available() else 0
    if count == 0:
        return f"{device} is unavailable: torch finds no CUDA device"
    number = int(device.partition(":")[2] or 0)
    return None if number < count else f"{device} is unavailable: torch finds {count} CUDA devices"


def device_name(device: Any) -> str | None:
    if device is None:
        return None
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise InvalidArgumentError("invalid_argument", f"no device '{name}': cpu, cuda or cuda:1")
    return name if kind == "cuda" else kind
