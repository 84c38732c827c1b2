"""Runs the programs: python -m tests.recording.sacred_programs MODE FOLDER [NAME...].

Prints one line of JSON: the observations of each program. MODE is the kind of recording.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tests.recording import (
    sacred_autograd,
    sacred_modules,
    sacred_processes,
    sacred_tensors,
)
from tests.recording.sacred import PROGRAMS, boundaries_call, observe

import plimsoll

__all__ = ["sacred_modules", "sacred_processes", "sacred_tensors"]


@contextlib.contextmanager
def recorded(folder: Path, **options: Any) -> Iterator[None]:
    with plimsoll.record(folder / "run.plim", **options), boundaries_call(plimsoll.step):
        yield


@contextlib.contextmanager
def monitored(folder: Path, adapter: Any) -> Iterator[None]:
    """Runs the program with a sample at each boundary."""
    options = {"interval": 1, "output_dir": str(folder), "profile_tensors": True}
    monitor = plimsoll.TrainingMonitor(**options, adapter=adapter, alert_above=["1B"])
    with monitor, boundaries_call(lambda: monitor.step(loss=1.0)):
        yield


@contextlib.contextmanager
def traced(folder: Path) -> Iterator[None]:
    tracer = plimsoll.MemoryTracer(max_events=10_000)
    with tracer.trace(sacred_autograd.EARLY):
        yield


MODES: dict[str, Callable[[Path], Any]] = {
    "none": lambda folder: contextlib.nullcontext(),
    "full": lambda folder: recorded(folder, adapter="libtorch", mode="full"),
    "lite": lambda folder: recorded(folder, adapter="libtorch", mode="lite"),
    "fallback": lambda folder: recorded(folder, adapter="python"),
    "monitor": lambda folder: monitored(folder, "libtorch"),
    "monitor-fallback": lambda folder: monitored(folder, "python"),
    "tracer": traced,
}


def main() -> None:
    mode, folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    seen = {}
    with MODES[mode](Path(folder)):
        for name in names or PROGRAMS:
            began = time.monotonic()
            seen[name] = observe(name)
            print(f"{time.monotonic() - began:7.3f} s {name}", file=sys.stderr)
    print()
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
