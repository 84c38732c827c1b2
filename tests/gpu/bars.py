"""The case device_bar: what uses the first device, compared with the figures of torch and CUDA."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator

import torch

from plimsoll import _record

MIB = 1 << 20


@contextlib.contextmanager
def other_process() -> Iterator[None]:
    """Another process that uses 256 MiB of the first device."""
    program = (
        "import sys, torch\n"
        "kept = torch.ones(256 << 20, dtype=torch.uint8, device='cuda')\n"
        "torch.cuda.synchronize()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            other.communicate()


def restless(instants: int, train: Callable[[], None]) -> Iterator[int]:
    """Yield `instants` times, between allocations, frees, training steps and empty_cache()."""
    dice, kept = random.Random(1), []
    for turn in range(instants):
        if turn % 20 == 0:
            train()
        if turn % 50 == 49:
            torch.cuda.empty_cache()
        kept.append(torch.empty(dice.randrange(1, 8 * MIB), dtype=torch.uint8, device="cuda"))
        if len(kept) > 10:
            del kept[dice.randrange(len(kept))]
        torch.cuda.synchronize()
        yield turn


class DeviceReadings:
    """Readings of the device, compared with torch: what differs, and by how much."""

    def __init__(self) -> None:
        self.count = 0
        self.wrong: list[str] = []
        self.kinds: set[str] = set()
        self.worst = 0.0
        self._base: int | None = None  # the unidentified bytes at the first time

    def read(self) -> None:
        """Query the driver now."""
        bar = _record.device_bar(0, 5.0)
        if bar is None:
            self.wrong.append("no bar")
            return
        self.count += 1
        sizes: dict[str, int] = {}
        for part in bar.parts:
            sizes[part.kind] = sizes.get(part.kind, 0) + part.size_bytes
        self.kinds |= set(sizes)
        allowed = max(bar.used_bytes // 100, 64 * MIB)
        rest = bar.parts[-1].size_bytes
        if bar.parts[-1].kind != "unexplained" and rest >= 0:
            # The bytes of unidentified users of the device must never change.
            self._base = rest if self._base is None else self._base
            rest -= self._base
        self.worst = max(self.worst, abs(rest) / allowed)
        tensors, cached = sizes.get("tensors", 0), sizes.get("cached", 0)
        free, _ = torch.cuda.mem_get_info(0)
        for what, off, most in (
            ("the sum", sum(sizes.values()) - bar.used_bytes, 0),
            ("tensors", tensors - torch.cuda.memory_allocated(0), 0),
            ("reserved", tensors + cached - torch.cuda.memory_reserved(0), 0),
            ("free", bar.total_bytes - bar.used_bytes - free, allowed),
            ("the rest", rest, allowed),
        ):
            if abs(off) > most:
                self.wrong.append(f"{what} is off by {off} at reading {self.count}")
