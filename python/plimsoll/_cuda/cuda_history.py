"""CUDA without the CUDA adapter: torch's own allocator history, enabled by Plimsoll.

The history has every block, segment and line of its newest events. Its snapshot is attached to the
trace when the recording ends, when memory runs out, and at intervals. `plimsoll report` joins it to
the recording (`src/attribution/torch_history.h`). A history that the program itself has enabled is
read and left unchanged.
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

_ENTRIES = 200_000  # a few hundred bytes each, with Python stacks only
_SOONEST_S = 60.0  # minimum wait after an attachment; doubles each time, to limit the file's growth
_COST = 1000  # attachments take at most 1/1000 of the time

_is_on = False
_is_ours = False  # Plimsoll enabled the history, and nothing has changed it since
_observes = False
_hook: Any = None
_torchs_record: Any = None  # torch's function that changes the history, while Plimsoll wraps it
_reports_tensors = False  # nothing else reports CUDA tensors to the recorder
_begun_s = 0.0
_next_s = 0.0
_survey: Callable[[], object] | None = None  # see begin()


def begin(why: str, has_cpu_adapter: bool, survey: Callable[[], object] | None) -> str | None:
    """Enable the history, unless the program has enabled it.

    Args:
        why: Why the CUDA adapter is unavailable; every report states it.
        has_cpu_adapter: Whether the CPU adapter is attached. It records layers and phases, but no
            CUDA tensors.
        survey: Called when memory runs out; records what no hook has reported.

    Returns:
        Why there is no history (torch's other allocators keep none), or None if there is one.
    """
    global _is_on, _is_ours, _observes, _hook, _reports_tensors, _begun_s, _next_s, _survey
    if _is_on:
        return None
    torch: Any = sys.modules["torch"]
    try:
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1":
            raise RuntimeError("the allocator's cache is disabled")
        is_programs_own = _is_enabled(torch)  # raises if the allocator has no history
        if not is_programs_own:
            memory = torch.cuda.memory
            memory._record_memory_history(**arguments(memory))
            _notice_others(torch)
    except (AttributeError, RuntimeError, TypeError) as error:
        leave_to_program(error)
        reason = (str(error) or type(error).__name__).splitlines()[0]
        _record.notice("device_not_recorded", 0, 1, f"{why}; and of torch's own history: {reason}")
        return reason
    _record.notice("cuda_adapter_unavailable", 0, 1, why)
    _is_on, _is_ours, _reports_tensors = True, not is_programs_own, has_cpu_adapter
    _survey = survey
    _begun_s = time.monotonic()
    _next_s = _begun_s + _SOONEST_S
    if has_cpu_adapter:
        _record.mark_ranges(True)
    optimizers = importlib.import_module("torch.optim.optimizer")
    _hook = optimizers.register_optimizer_step_post_hook(_step_ended)
    observe: Callable[[Any], None] | None
    observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if not _observes and observe is not None:
        _observes = True  # torch cannot remove an observer
        observe(_ran_out)
    return None


def end() -> None:
    """Disable the history, if Plimsoll enabled it."""
    global _is_on, _is_ours, _hook
    if not _is_on:
        return
    _is_on = False
    torch: Any = sys.modules["torch"]
    if _reports_tensors:
        _record.mark_ranges(False)
    if _hook is not None:
        _hook.remove()
        _hook = None
    was_ours, _is_ours = _is_ours, False
    _leave_others(torch)
    if was_ours:
        torch.cuda.memory._record_memory_history(enabled=None)


def is_on() -> bool:
    """Return whether there is a history to read."""
    return _is_on


def forget() -> None:
    """Reset the state in a forked child, where CUDA does not work."""
    global _is_on
    _is_on = False


def arguments(memory: Any) -> dict[str, Any]:
    """Return the arguments for `_record_memory_history` of the installed torch."""
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
    """Attach the current history to each of these recordings. Raises nothing."""
    if not _is_on or not recordings:
        return
    try:
        if _reports_tensors:
            from plimsoll._cuda.live_tensors import report_cuda_tensors

            report_cuda_tensors()
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
    """Attach the history at intervals, so that a killed process leaves the last attachment."""
    global _next_s
    began = time.monotonic()
    if not _is_on or began < _next_s:
        return
    attach([each._recording for each in running() if each._recording is not None])
    now = time.monotonic()
    _next_s = now + max(_SOONEST_S, _COST * (now - began), now - _begun_s)


# ---- whether Plimsoll or the program enabled the history -----------------------------------------


def _is_enabled(torch: Any) -> bool:
    is_enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return is_enabled is not None and bool(is_enabled())


def _notice_others(torch: Any) -> None:
    """Notice when the program enables or disables the history, which is then the program's."""
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
