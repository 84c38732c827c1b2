"""Keeps track of the hooks in torch, and of the recordings and monitors that use them.

The first user attaches the hooks, and the last one detaches them. The hooks observe as much as the
most demanding user needs.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from plimsoll import _record
from plimsoll._cuda import cuda_hooks
from plimsoll._process import notebook
from plimsoll._process.program_errors import leave_to_program
from plimsoll._torch.background import Compilation
from plimsoll._torch.hooks import Adapter, Attached, Attribution, Mode, Uses
from plimsoll._torch.libtorch_attachment import MODES, LibtorchAttachment
from plimsoll.errors import AdapterError

_lock = threading.RLock()
_attached: Attached | None = None
# Mode, stacks and uses of each recording and of the watch.
_wanted: dict[object, tuple[Mode, bool, Uses]] = {}
_USES_BY_EXTENT: tuple[Uses, ...] = ("never", "sampled", "auto", "always")
# Monitors whose next sample needs all uses.
_observers: weakref.WeakSet[Any] = weakref.WeakSet()
_complaints: set[str] = set()  # problems that have been printed
# Monitors use the fallback until the adapter is compiled; then `switch_if_ready` replaces it.
_is_interim = False
_compilation: Compilation | None = None  # in the background; the last one of this process
_pid = os.getpid()


def prepare(wanted: Adapter, say: Callable[[str], object], *, waits: bool = True) -> Adapter:
    """Return the adapter to use: "libtorch", "python" or "none". Compiles it if necessary.

    Args:
        wanted: The user's choice.
        say: Called with a line before work that takes a while, and once with each problem.
        waits: Whether to wait for the compiler. If not, the adapter is compiled in the background,
            and the result is "python" until `switch_if_ready`.

    Raises:
        AdapterError: `wanted` is "libtorch", and it is unavailable.
    """
    with _lock:
        _drop_parents()
        if _attached is not None and not (waits and _is_interim):
            return _attached.kind
    if wanted in ("none", "python"):
        return wanted
    try:
        if waits:
            _load(say)
        elif not _load_if_compiled(say):
            return "python"
        _switch(say)
        return "libtorch"
    except (AdapterError, ImportError, OSError) as error:
        leave_to_program(error)
        if wanted == "libtorch":
            raise AdapterError(str(error)) from error
        if isinstance(error, ImportError):
            _say_once("torch is not installed here, so its tensors are not recorded", say)
            return "none"
        _keep_fallback(error, say)
        return "python"


def _say_once(problem: str, say: Callable[[str], object]) -> None:
    if problem not in _complaints:
        _complaints.add(problem)
        say(problem)


def _load(say: Callable[[str], object], elsewhere_since_ns: int | None = None) -> None:
    from plimsoll._torch.adapter import load

    load(say, elsewhere_since_ns)
    cuda_hooks.prepare(say, elsewhere_since_ns)


def _load_if_compiled(say: Callable[[str], object]) -> bool:
    """Load the adapter if it is compiled; otherwise compile it in the background.

    Raises:
        AdapterError: It is unavailable; or the background process ended without it.
    """
    global _compilation, _is_interim
    from plimsoll._torch.adapter import NotCompiledError

    with _lock:
        before = _compilation
        has_ended = before is not None and before.has_ended()
        try:
            _load(say, time.time_ns() if before is None else before.since_ns)
            return True
        except NotCompiledError as error:
            if before is not None and has_ended:
                problem = f"the compilation of the adapter ended without a result; see {before.log}"
                raise AdapterError(problem) from None
            if before is None:
                _compilation = Compilation(error.args[0])
            if not _is_interim:
                _is_interim = True
                say(
                    "compiling the adapter in the background (once; `plimsoll prepare` does it "
                    "beforehand); until then, memory is recorded from Python, which sees less"
                )
            return False


def switch_if_ready(say: Callable[[str], object]) -> None:
    """Replace the fallback of monitors by the adapter once it is compiled.

    Call it between two steps. Does nothing while a forward, a backward or an optimizer runs.
    """
    if not _is_interim:
        return
    with _lock:
        _drop_parents()
        fallback: Any = _attached
        # A recording that was started with the fallback keeps it.
        if not _is_interim or fallback is None or len(_wanted) > 1 or not fallback.is_idle():
            return
        if _compilation is None or not _compilation.has_ended():
            return
        try:
            if _load_if_compiled(say):
                _switch(say)
        except (AdapterError, OSError) as error:
            leave_to_program(error)
            _keep_fallback(error, say)


def _switch(say: Callable[[str], object]) -> None:
    """Replace the fallback of monitors by the adapter. Recorded memory keeps its descriptions."""
    global _attached, _is_interim
    with _lock:
        fallback: Any = _attached
        if not _is_interim or fallback is None:
            return
        modes = [mode for mode, _, _ in _wanted.values()]
        has_stacks = any(stacks for _, stacks, _ in _wanted.values())
        adapter = LibtorchAttachment(min(modes, key=MODES.index), has_stacks, uses=_uses_of_all())
        if fallback.has_user_steps:
            adapter.user_marks_steps()
        held = fallback.hand_over()
        try:
            adapter.install(held, 0 if fallback.has_user_steps else fallback.steps)
        except BaseException:
            adapter.detach()
            fallback.take_back(held)
            raise
        _attached, _is_interim = adapter, False
        if cuda_hooks.is_cuda_build():
            cuda_hooks.attach(adapter.module)
            adapter.survey()  # its CUDA tensors, now that their blocks are known
        say("the adapter is compiled; it now replaces the recording from Python")


def _keep_fallback(error: Exception, say: Callable[[str], object]) -> None:
    """Use the fallback from now on, because the adapter is unavailable."""
    global _is_interim
    _say_once(f"{error}: recording from Python instead, which is slower and sees less", say)
    if _is_interim:
        _is_interim = False
        cuda_hooks.attach(None)


def attribution_of(
    kind: Adapter, mode: Mode, wanted: Attribution, say: Callable[[str], object]
) -> Attribution:
    """Return how operators will be attributed; hooks that are installed keep their way."""
    with _lock:
        if _attached is not None:
            return getattr(_attached, "attribution", "observer")
        if kind != "libtorch" or mode != "full" or wanted == "observer":
            return "observer"
        from plimsoll._torch.adapter import load

        problem = load(lambda _: None).native_problem(_record.api_address(), notebook.cells())
        if problem is None:
            return "native"
        _say_once(f"{problem}: operators are observed instead, which is slower", say)
        return "observer"


def attach(
    owner: object,
    kind: Adapter,
    mode: Mode,
    stacks: bool,
    uses: Uses = "never",
    *,
    attribution: Attribution = "observer",
) -> None:
    """Install the hooks for another user, until `detach` is called with it."""
    with _lock:
        _drop_parents()
        try:
            _wanted[owner] = mode, stacks, uses
            _install(kind, mode, stacks, attribution)
        except BaseException:
            _leave(owner)
            raise


def _install(kind: Adapter, mode: Mode, stacks: bool, attribution: Attribution) -> None:
    global _attached
    if _attached is not None:
        _see_more(mode, stacks)
        _renew_uses()
    elif kind == "libtorch":
        from plimsoll._torch.adapter import load

        # CUDA first: its blocks must be known before their tensors are described.
        cuda_hooks.begin(load(lambda _: None), _survey)
        _attached = LibtorchAttachment(mode, stacks, uses=_uses_of_all(), attribution=attribution)
        _attached.install()
    elif kind == "python":
        from plimsoll._torch.fallback import PythonAttachment

        _attached = PythonAttachment()
        _attached.install()
        cuda_hooks.begin(None, _survey, is_deferred=_is_interim)


def _uses_of_all() -> Uses:
    """Return the most that a user in the full mode wants."""
    wanted = [uses for mode, _, uses in _wanted.values() if mode == "full"]
    most: Uses = max(wanted, key=_USES_BY_EXTENT.index, default="never")
    if _observers and most != "never":
        return "always"
    return most


def _renew_uses() -> None:
    if isinstance(_attached, LibtorchAttachment):
        _attached.begin_uses(_uses_of_all())


def _follow_uses() -> None:
    """Change how last uses are recorded, if the owners now need that."""
    if isinstance(_attached, LibtorchAttachment) and _attached.uses != _uses_of_all():
        _renew_uses()


def _survey() -> None:
    if _attached is not None:
        _attached.survey()


def _drop_parents() -> None:
    """In a forked child: remove the hooks that the parent installed and nothing uses."""
    global _attached, _compilation, _is_interim, _pid
    if _pid == os.getpid():
        return
    _pid = os.getpid()
    cuda_hooks.forget()
    if _attached is not None and not _attached.is_on():
        _attached.detach()
        _attached, _compilation, _is_interim = None, None, False
        _wanted.clear()


def _see_more(mode: Mode, stacks: bool) -> None:
    if isinstance(_attached, LibtorchAttachment) and _attached.records_less(mode, stacks):
        try:
            _attached.use_fuller_mode(mode, stacks)
        except BaseException:  # from a signal handler: the other users keep their hooks
            _attached.use_fuller_mode(mode, stacks)
            raise


def request_mode(owner: object, mode: Mode, uses: Uses = "never") -> None:
    """Change the mode of a user, without stacks; the hooks observe more if it needs more."""
    with _lock:
        most = max(uses, _wanted[owner][2], key=_USES_BY_EXTENT.index)
        _wanted[owner] = mode, False, most
        _see_more(mode, stacks=False)
        _follow_uses()


def detach(owner: object) -> None:
    """Remove a user: the hooks then observe what the others need; the last one removes them.

    Does nothing for a user that is not attached.
    """
    with _lock:
        try:
            _leave(owner)
        except BaseException:  # from a signal handler: raised once the hooks are removed
            _leave(owner)
            raise


def _leave(owner: object) -> None:
    global _attached, _is_interim
    _wanted.pop(owner, None)
    if not _wanted:
        if _attached is not None:
            _attached.detach()
            _attached = None
        _is_interim = False
        _observers.clear()
        cuda_hooks.end()
    elif isinstance(_attached, LibtorchAttachment):
        _attached.use_cheaper_mode(min((each for each, _, _ in _wanted.values()), key=MODES.index))
        _follow_uses()


def observe_uses(owner: object, is_wanted: bool) -> None:
    """Start or stop observing all uses for a sample, if an owner wants uses at all.

    Call it between two steps.
    """
    if (owner in _observers) == is_wanted:
        return
    with _lock:
        if is_wanted:
            _observers.add(owner)
        else:
            _observers.discard(owner)
        _follow_uses()


def observe(is_wanted: bool) -> None:
    """Start or stop observing operators, if the hooks describe tensors only for samples."""
    if isinstance(_attached, LibtorchAttachment):
        _attached.observe(is_wanted)


def observe_if_needed(is_due: bool) -> None:
    """Observe operators if a sample ends the next iteration and earlier samples needed it."""
    if isinstance(_attached, LibtorchAttachment):
        _attached.observe(is_due and _attached.needs_operators)


def learn(has_activations: bool) -> None:
    """Note whether a sample had activations, for `observe_if_needed`."""
    if isinstance(_attached, LibtorchAttachment):
        _attached.learn(has_activations)


def describe() -> None:
    """Record what no hook has reported. Call it right before a sample that C++ code takes.

    `_record.take_sample` does this itself.
    """
    if _attached is not None:
        _attached.describe()


def _renew_lock() -> None:
    """Renew the lock in a forked child: a thread that does not exist there may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def attached() -> Attached | None:
    """Return the installed hooks."""
    return _attached
