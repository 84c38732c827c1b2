"""Adds blocks, regions and steps to a recording `torch.profiler`, as ranges with their bytes.

Without a profiler, each call costs one lookup in ``sys.modules``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from plimsoll import _record
from plimsoll._process.messages import print_notice
from plimsoll._process.names import name_of
from plimsoll._process.program_errors import leave_to_program, without_memory
from plimsoll.errors import Error

_MB = 1024 * 1024
_PREFIX = "PLIMSOLL_MONITOR_"
_UNKNOWN: tuple[str, int | None] = ("tensors", None)

_reported: set[str] = set()  # variables


@contextlib.contextmanager
def profiled_range(name: str) -> Iterator[None]:
    """Open a range for a block, which ends in a `profiled_mark` with the bytes at its end."""
    profiler = _recording_profiler()
    if profiler is None:
        yield
        return
    _, before = _tensor_bytes()
    with profiler.record_function(f"plimsoll: {name}"):
        try:
            yield
        finally:
            _mark(profiler, name, before)


def profiled_mark(name: str) -> None:
    """Add an empty range whose name contains the current bytes."""
    profiler = _recording_profiler()
    if profiler is not None:
        _mark(profiler, name, None)


def _mark(profiler: Any, name: str, before: int | None) -> None:
    place, now = _tensor_bytes()
    reported = f"{place} unknown" if now is None else f"{place} {now / _MB:.1f} MB"
    if now is not None and before is not None:
        reported += f" ({(now - before) / _MB:+.1f} MB)"
    with profiler.record_function(f"plimsoll: {name}: {reported}"):
        pass


def _recording_profiler() -> Any:
    profiler: Any = sys.modules.get("torch.autograd.profiler")
    return profiler if getattr(profiler, "_is_profiler_enabled", False) else None


@without_memory(_UNKNOWN)
def _tensor_bytes() -> tuple[str, int | None]:
    """Return the label of the counted memory, and its bytes if they are known."""
    usage = _record.current_usage()
    if usage.gpu is None:
        return "CPU tensors", usage.cpu.allocated_bytes
    return "GPU", usage.gpu.allocated_bytes


def _report_misspelled() -> None:
    """Report unknown variables, which do not stop a recording."""
    for variable in os.environ:
        if not variable.startswith(_PREFIX) or variable in _reported:
            continue
        name = name_of(variable.removeprefix(_PREFIX).lower())
        try:
            _record.MonitorOptions().set(name, "")
        except Error as error:
            leave_to_program(error)
            if error.message.startswith("no option"):
                _reported.add(variable)
                print_notice(f"{variable} is ignored: {error}")


def nvtx_is_asked_for() -> bool:
    """Return whether the environment asks recordings to show their ranges."""
    value = os.environ.get("PLIMSOLL_MONITOR_NVTX", "false")
    _report_misspelled()
    said = _record.MonitorOptions()
    try:
        said.set("nvtx", name_of(value))
    except Error as error:
        leave_to_program(error)
        print_notice(f"PLIMSOLL_MONITOR_NVTX={value!r} is ignored: it must be true or false")
        return False
    return said.nvtx
