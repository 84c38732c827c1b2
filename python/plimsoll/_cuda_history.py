"""CUDA without the adapter's half: torch's own history of its allocator, driven by us.

It knows every block, segment and line, but no layers, categories or steps, and keeps the newest
events alone. Its snapshot is written beside the trace, as ``TRACE.cuda-history.pickle``, when the
recording ends and when memory runs out; `plimsoll report` reads it.
"""

from __future__ import annotations

import inspect
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

_ENTRIES = 200_000  # a few hundred bytes each, as long as stacks are Python's alone

_is_on = False
_observes = False


def begin() -> None:
    """Switches the history on, unless the program itself has done so."""
    global _is_on, _observes
    torch: Any = sys.modules["torch"]
    if _is_on or _is_programs_own(torch):
        return
    try:
        torch.cuda.memory._record_memory_history(**arguments(torch.cuda.memory))
    except (AttributeError, RuntimeError, TypeError) as error:
        _say(f"torch's own history is not to be had either ({error}): CUDA memory is not recorded")
        return
    _is_on = True
    observe: Callable[[Any], None] | None
    observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if not _observes and observe is not None:
        _observes = True  # torch takes no observer back
        observe(_ran_out)


def end() -> None:
    """Switches it off again."""
    global _is_on
    if _is_on:
        _is_on = False
        sys.modules["torch"].cuda.memory._record_memory_history(enabled=None)


def is_on() -> bool:
    """Whether there is a history of ours."""
    return _is_on


def arguments(memory: Any) -> dict[str, Any]:
    """What `_record_memory_history` of this torch is to be called with."""
    known = inspect.signature(memory._record_memory_history).parameters
    if "trace_alloc_max_entries" in known:  # up to torch 2.0
        return {
            "enabled": True,
            "trace_alloc_max_entries": _ENTRIES,
            "trace_alloc_record_context": True,
        }
    wanted = {"enabled": "all", "context": "all", "stacks": "python", "max_entries": _ENTRIES}
    has_more = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
    return {key: value for key, value in wanted.items() if has_more or key in known}


def write(trace_path: str) -> str | None:
    """Writes the snapshot beside a trace; returns where, or None if there is none to write."""
    if not _is_on:
        return None
    path = f"{os.path.splitext(trace_path)[0]}.cuda-history.pickle"
    partial = f"{path}.{os.getpid()}"
    try:
        snapshot = sys.modules["torch"].cuda.memory._snapshot()
        with open(partial, "wb") as file:
            pickle.dump(snapshot, file, protocol=4)
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:
        _say(f"{path}: {error}")
        return None
    return path


def _is_programs_own(torch: Any) -> bool:
    is_enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return is_enabled is not None and bool(is_enabled())


def _ran_out(device: int, requested: int, limit: int, free: int) -> None:
    if _is_on:
        from plimsoll import _flight

        _flight.out_of_memory(device, requested, free, limit)


def _say(message: str) -> None:
    print(f"plimsoll: {message}", file=sys.stderr, flush=True)
