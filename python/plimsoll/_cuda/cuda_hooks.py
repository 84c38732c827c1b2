"""The CUDA adapter: attached when torch initializes CUDA, not before.

With a torch that was not built for CUDA, nothing here has any effect. If the CUDA adapter is
unavailable (no compiler, no headers, an allocator other than torch's own), torch's own allocator
history replaces it: see `plimsoll._cuda.cuda_history`.
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
_adapter: Any = None  # the module, while it is attached
_cpu_adapter: Any = None  # the CPU adapter, which provides the context of an allocation
_survey: Callable[[], object] | None = None  # see begin()
_waits = False  # torch calls `_initialized` when it initializes CUDA
_is_deferred = False  # until `attach`
_is_prepared = False  # already compiled: checking again would read and hash its sources
_problem: str | None = None  # why the CUDA adapter is unavailable, reported once


def is_cuda_build() -> bool:
    """Return whether torch is imported and was built for CUDA. Initializes nothing."""
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "version", None), "cuda", None) is not None


def prepare(say: Callable[[str], object], elsewhere_since_ns: int | None = None) -> None:
    """Compile the CUDA adapter ahead of its first use, if there is a device.

    Args:
        say: Called with a line before work that takes a while.
        elsewhere_since_ns: See `plimsoll._torch.adapter.compiled`.

    Raises:
        NotCompiledError: See `plimsoll._torch.adapter.compiled`.
    """
    global _is_prepared
    if _is_prepared or not is_cuda_build() or not _has_device_file():
        return
    from plimsoll._cuda import cuda_adapter
    from plimsoll._torch import adapter

    try:
        adapter.compiled(cuda_adapter.CUDA, say, elsewhere_since_ns)
        _is_prepared = True
    except (AdapterError, OSError) as error:
        leave_to_program(error)
        _fail(str(error))


def begin(main: Any, survey: Callable[[], object], *, is_deferred: bool = False) -> None:
    """Attach now or when torch initializes CUDA, until `end`. Calls are counted.

    Args:
        main: The CPU adapter, or None if it is unavailable; torch's own history is then used.
        survey: Called when memory runs out; records what no hook has reported.
        is_deferred: Attach nothing before `attach` is called.
    """
    global _users, _cpu_adapter, _survey, _is_deferred
    if not is_cuda_build():
        return
    with _lock:
        _users += 1
        if _users > 1:
            return
        _cpu_adapter, _survey, _is_deferred = main, survey, is_deferred
        _record.start_device_watch()  # before CUDA starts, to measure its own memory
        if not is_deferred:
            _attach_when_initialized()


def attach(main: Any) -> None:
    """Attach after a deferred `begin`; `main` as there."""
    global _cpu_adapter, _is_deferred
    with _lock:
        if _users > 0 and _is_deferred:
            _cpu_adapter, _is_deferred = main, False
            _attach_when_initialized()


def _attach_when_initialized() -> None:
    global _waits
    cuda: Any = sys.modules["torch"].cuda
    if cuda.is_initialized():
        _attach_or_say()
    elif not _waits:
        _waits = True
        cuda._lazy_call(_initialized)


def end() -> None:
    """Detach when `end` has been called once for each `begin`."""
    global _users, _adapter
    with _lock:
        if _users == 0:
            return
        if _users == 1:
            if _adapter is not None:
                _adapter.detach()
                _cpu_adapter.renew_cuda_by(0)
                _cpu_adapter.report_cuda_tensors(False)
                _adapter = None
            _history_end()
            _record.stop_device_watch()
        _users -= 1  # last, because an interrupted call is repeated


def forget() -> None:
    """Reset the state in a forked child, where CUDA does not work."""
    global _users, _adapter
    _users, _adapter = 0, None
    history = sys.modules.get("plimsoll._cuda.cuda_history")
    if history is not None:
        history.forget()


def renew() -> None:
    """Compare the figures of a device with torch's snapshot if they are in doubt."""
    if _adapter is not None:
        _adapter.renew()


def state() -> list[dict[str, int]]:
    """Return, for each device, event counts and the sums of Plimsoll and torch; [] if detached."""
    return list(_adapter.state()) if _adapter is not None else []


def attach_history(recording: _record.Recording) -> None:
    """Attach torch's own history to the trace, if it replaces the CUDA adapter."""
    history = sys.modules.get("plimsoll._cuda.cuda_history")
    if history is not None:
        history.attach([recording])


def problem() -> str | None:
    """Return why the CUDA adapter is not used; None if there is no reason."""
    return _problem


def _initialized() -> None:
    """Attach; torch calls this when CUDA has been initialized, before the first allocation."""
    with _lock:
        if _users > 0 and not _is_deferred:
            _attach_or_say()


def _attach_or_say() -> None:
    """Attach without raising: torch would take an exception for a failure to initialize CUDA."""
    try:
        _attach()
    except Exception as error:
        leave_to_program(error)
        print_notice(f"CUDA memory is not recorded: {error or type(error).__name__}")


def _attach() -> None:
    global _adapter
    if _adapter is not None:
        return
    if _cpu_adapter is None:
        problem = _history_begin("recorded without the compiled adapter")
        if problem is not None:
            print_notice(f"torch has no allocator history ({problem}): CUDA memory is not recorded")
        return
    from plimsoll._cuda import cuda_adapter
    from plimsoll._torch import adapter

    try:
        loaded = adapter.load_adapter(
            cuda_adapter.CUDA, print_notice, lambda module: module.problem()
        )
        torch = sys.modules["torch"]
        loaded.attach(
            _record.api_address(),
            _cpu_adapter.describe_address(),
            torch.cuda.device_count(),
            _ran_out,
        )
        loaded.renew()  # other threads may have allocated in the meantime
        device = loaded.differs()
        if device is not None:
            loaded.detach()
            raise AdapterError(f"the allocator of cuda:{device} has another layout in this torch")
        _adapter = loaded
        _cpu_adapter.renew_cuda_by(loaded.renew_address())
        _cpu_adapter.report_cuda_tensors(True)
    except (AdapterError, RuntimeError, OSError) as error:
        leave_to_program(error)
        _fail(str(error), _history_begin(str(error)))


def _ran_out(device: int, *sizes: int) -> None:
    from plimsoll._oom import oom_report
    from plimsoll._oom.request_lines import Failure

    with Suppressed(Exception):
        _adapter.report_settings()  # the program may change the settings while it runs
    oom_report.out_of_memory(Failure(device, *sizes), _survey)


def _history_begin(why: str) -> str | None:
    from plimsoll._cuda import cuda_history

    return cuda_history.begin(why, _cpu_adapter is not None, _survey)


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
