"""The CUDA half of the torch adapter: it is attached when torch initialises CUDA, and not before.

With a torch that was not built for CUDA nothing here does anything. Where the half cannot be had
(no compiler, no headers, another allocator than torch's own), torch's own history of its allocator
takes its place: see `plimsoll._cuda.cuda_history`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from plimsoll import _record
from plimsoll._process.messages import print_notice
from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll.errors import AdapterError

_lock = threading.RLock()
_users = 0
_half: Any = None  # the module, while it is attached
_main: Any = None  # the adapter's main half, which knows what an allocation belongs to
_survey: Callable[[], object] | None = None  # see begin()
_waits = False  # torch will call us when it initialises CUDA
_is_prepared = False  # compiled, or found compiled: looking again would read and hash its sources
_problem: str | None = None  # why the CUDA adapter is unavailable, reported once


def is_cuda_build() -> bool:
    """Whether torch is imported, and was built for CUDA. Initialises nothing."""
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "version", None), "cuda", None) is not None


def prepare(say: Callable[[str], object]) -> None:
    """Compiles the half ahead of time where there is a device, so that its first use waits less."""
    global _is_prepared
    if _is_prepared or not is_cuda_build() or not _has_device_file():
        return
    from plimsoll._cuda import cuda_half
    from plimsoll._torch import adapter

    try:
        adapter.compiled(cuda_half.HALF, say)
        _is_prepared = True
    except (AdapterError, OSError) as error:
        leave_to_program(error)
        _fail(str(error))


def begin(main: Any, survey: Callable[[], object]) -> None:
    """Attaches, now or as soon as torch initialises CUDA, until `end`. Counted.

    Args:
        main: The adapter's main half; None where there is none, and torch's own history is all.
        survey: Called when memory runs out: records what no hook has reported.
    """
    global _users, _main, _survey, _waits
    if not is_cuda_build():
        return
    cuda: Any = sys.modules["torch"].cuda
    with _lock:
        _users += 1
        if _users > 1:
            return
        _main, _survey = main, survey
        _record.start_device_watch()  # before CUDA is there: what it takes for itself is the rest
        if cuda.is_initialized():
            _attach_or_say()
        elif not _waits:
            _waits = True
            cuda._lazy_call(_initialized)


def end() -> None:
    """As many of these as there were of `begin` detach it."""
    global _users, _half
    with _lock:
        if _users == 0:
            return
        if _users == 1:
            if _half is not None:
                _half.detach()
                _main.renew_cuda_by(0)
                _main.tell_cuda_tensors(False)
                _half = None
            _history_end()
            _record.stop_device_watch()
        _users -= 1  # last: an interrupted call is made again


def forget() -> None:
    """In the child of a fork, where no CUDA works."""
    global _users, _half
    _users, _half = 0, None
    history = sys.modules.get("plimsoll._cuda.cuda_history")
    if history is not None:
        history.forget()


def renew() -> None:
    """Compare a device with torch's own snapshot if its figures are in doubt."""
    if _half is not None:
        _half.renew()


def state() -> list[dict[str, int]]:
    """The counts of each device, and the sums of Plimsoll and of torch; [] if not attached."""
    return list(_half.state()) if _half is not None else []


def attach_history(recording: _record.Recording) -> None:
    """Attach torch's own history to the trace, if it replaces the CUDA adapter."""
    history = sys.modules.get("plimsoll._cuda.cuda_history")
    if history is not None:
        history.attach([recording])


def problem() -> str | None:
    """Why the CUDA adapter is not used; None if there is no reason."""
    return _problem


def _initialized() -> None:
    """Called by torch once CUDA works, before the first allocation."""
    with _lock:
        if _users > 0:
            _attach_or_say()


def _attach_or_say() -> None:
    """Raise nothing: torch would treat an exception as a failure to initialize CUDA."""
    try:
        _attach()
    except Exception as error:
        leave_to_program(error)
        print_notice(f"CUDA memory is not recorded: {error or type(error).__name__}")


def _attach() -> None:
    global _half
    if _half is not None:
        return
    if _main is None:
        problem = _history_begin("recorded without the compiled adapter")
        if problem is not None:
            print_notice(f"torch has no allocator history ({problem}): CUDA memory is not recorded")
        return
    from plimsoll._cuda import cuda_half
    from plimsoll._torch import adapter

    try:
        half = adapter.load_half(cuda_half.HALF, print_notice, lambda module: module.problem())
        torch = sys.modules["torch"]
        half.attach(
            _record.api_address(), _main.describe_address(), torch.cuda.device_count(), _ran_out
        )
        half.renew()  # other threads may have allocated meanwhile
        device = half.differs()
        if device is not None:
            half.detach()
            raise AdapterError(f"the allocator of cuda:{device} has another layout in this torch")
        _half = half
        _main.renew_cuda_by(half.renew_address())
        _main.tell_cuda_tensors(True)
    except (AdapterError, RuntimeError, OSError) as error:
        leave_to_program(error)
        _fail(str(error), _history_begin(str(error)))


def _ran_out(device: int, *sizes: int) -> None:
    from plimsoll._oom import oom_report
    from plimsoll._oom.request_lines import Failure

    with Suppressed(Exception):
        _half.tell_settings()  # a program may change them while it runs
    oom_report.out_of_memory(Failure(device, *sizes), _survey)


def _history_begin(why: str) -> str | None:
    from plimsoll._cuda import cuda_history

    return cuda_history.begin(why, _main is not None, _survey)


def _history_end() -> None:
    history = sys.modules.get("plimsoll._cuda.cuda_history")
    if history is not None:
        history.end()


def _has_device_file() -> bool:
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"))


def _fail(message: str, no_history: str | None = None) -> None:
    """Report once why the CUDA adapter is not used, and what is recorded instead."""
    global _problem
    if _problem is not None:
        return
    _problem = message
    if no_history is None:
        print_notice(f"{message}: CUDA memory is recorded from torch's own history instead")
    else:
        print_notice(f"{message}, and torch has no allocator history: CUDA memory is not recorded")


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
