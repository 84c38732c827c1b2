"""CUDA without the adapter's half: torch's own history of its allocator, driven by us.

It knows every block, segment and line of its newest events. Its snapshot is put into the trace,
whole, when the recording ends, when memory runs out, and now and then; `plimsoll report` joins it
to what the recording knows of the program (`src/engine/torch_history.h`). A history that the
program itself has switched on is read and otherwise left as it is.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from plimsoll import _record
from plimsoll._process.messages import print_notice
from plimsoll._process.program_errors import leave_to_program
from plimsoll._process.recordings import running

_ENTRIES = 200_000  # a few hundred bytes each, as long as stacks are Python's alone
_SOONEST_S = 60.0  # after the last one; twice as late each time, so that the file grows no faster
_COST = 1000  # and no more than a thousandth of the time

_is_on = False
_is_ours = False  # we have switched it on, and nobody since
_observes = False
_hook: Any = None
_torchs_record: Any = None  # what the program calls to change it, while it is ours
_tells_tensors = False  # nobody else tells the recorder of CUDA's tensors
_begun_s = 0.0
_next_s = 0.0
_survey: Callable[[], object] | None = None  # see begin()


def begin(why: str, has_main_half: bool, survey: Callable[[], object] | None) -> str | None:
    """Switches the history on, unless the program itself has done so.

    Args:
        why: Why the half is not there: every report says it.
        has_main_half: The adapter's other half is there: it knows layers and phases, and tells
            nothing of CUDA's tensors.
        survey: Called when memory runs out: records what no hook has reported.

    Returns:
        Why there is none: torch's other allocators keep no history. None where there is one.
    """
    global _is_on, _is_ours, _observes, _hook, _tells_tensors, _begun_s, _next_s, _survey
    if _is_on:
        return None
    torch: Any = sys.modules["torch"]
    try:
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1":
            raise RuntimeError("the allocator's cache is disabled")
        is_programs_own = _is_enabled(torch)  # throws where the allocator knows of no history
        if not is_programs_own:
            memory = torch.cuda.memory
            memory._record_memory_history(**arguments(memory))
            _notice_others(torch)
    except (AttributeError, RuntimeError, TypeError) as error:
        leave_to_program(error)
        reason = (str(error) or type(error).__name__).splitlines()[0]
        _record.notice("device_unseen", 0, 1, f"{why}; and of torch's own history: {reason}")
        return reason
    _record.notice("history_stands_in", 0, 1, why)
    _is_on, _is_ours, _tells_tensors = True, not is_programs_own, has_main_half
    _survey = survey
    _begun_s = time.monotonic()
    _next_s = _begun_s + _SOONEST_S
    if has_main_half:
        _record.mark_ranges(True)
    optimizers = importlib.import_module("torch.optim.optimizer")
    _hook = optimizers.register_optimizer_step_post_hook(_step_ended)
    observe: Callable[[Any], None] | None
    observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if not _observes and observe is not None:
        _observes = True  # torch takes no observer back
        observe(_ran_out)
    return None


def end() -> None:
    """Switches it off again, if it is ours."""
    global _is_on, _is_ours, _hook
    if not _is_on:
        return
    _is_on = False
    torch: Any = sys.modules["torch"]
    if _tells_tensors:
        _record.mark_ranges(False)
    if _hook is not None:
        _hook.remove()
        _hook = None
    was_ours, _is_ours = _is_ours, False
    _leave_others(torch)
    if was_ours:
        torch.cuda.memory._record_memory_history(enabled=None)


def is_on() -> bool:
    """Whether there is a history to be read."""
    return _is_on


def forget() -> None:
    """In the child of a fork, where no CUDA works."""
    global _is_on
    _is_on = False


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


def attach(recordings: Sequence[_record.Recording]) -> None:
    """Puts the history as it is now into each of these recordings. Raises nothing."""
    if not _is_on or not recordings:
        return
    try:
        if _tells_tensors:
            from plimsoll._cuda.held_tensors import tell_cuda_tensors

            tell_cuda_tensors()
        snapshot = sys.modules["torch"].cuda.memory._snapshot()
        packed = gzip.compress(pickle.dumps(snapshot, protocol=4), compresslevel=1)
    except Exception as error:
        leave_to_program(error)
        print_notice(f"torch's own history cannot be read: {error}")
        return
    for each in recordings:
        if each.attach("torch_snapshot", packed) != 0:
            print_notice(
                f"torch's own history ({len(packed):,} bytes) could not be added to the trace"
            )


def _step_ended(optimizer: Any, args: Any, kwargs: Any) -> None:
    """A process that is killed leaves what was attached last."""
    global _next_s
    began = time.monotonic()
    if not _is_on or began < _next_s:
        return
    attach([each._recording for each in running() if each._recording is not None])
    now = time.monotonic()
    _next_s = now + max(_SOONEST_S, _COST * (now - began), now - _begun_s)


# ---- whose it is ---------------------------------------------------------------------------------


def _is_enabled(torch: Any) -> bool:
    is_enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return is_enabled is not None and bool(is_enabled())


def _notice_others(torch: Any) -> None:
    """Whoever switches the history on or off while it is ours: it is theirs from then on."""
    global _torchs_record
    _torchs_record = getattr(torch._C, "_cuda_record_memory_history", None)
    if _torchs_record is not None:
        torch._C._cuda_record_memory_history = _theirs


def _leave_others(torch: Any) -> None:
    if getattr(torch._C, "_cuda_record_memory_history", None) is _theirs:
        torch._C._cuda_record_memory_history = _torchs_record


def _theirs(*words: Any, **named: Any) -> Any:
    global _is_ours
    _is_ours = False
    return _torchs_record(*words, **named)


def _ran_out(device: int, requested: int, limit: int, free: int) -> None:
    if _is_on:
        from plimsoll._oom import oom_report
        from plimsoll._oom.request_lines import Failure

        failure = Failure(device, 0, requested, free, limit, 0)
        oom_report.out_of_memory(failure, _survey)
