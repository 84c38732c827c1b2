"""Keeps track of the hooks in torch, and of the recordings and monitors that use them.

The first user attaches the hooks, and the last one detaches them. The hooks observe as much as the
most demanding user needs.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plimsoll import _record
from plimsoll._cuda import cuda_hooks
from plimsoll._process import notebook
from plimsoll._process.program_errors import leave_to_program
from plimsoll._torch.hooks import Adapter, Attached, Mode, Survey
from plimsoll.errors import AdapterError

_MODES = ("full", "lite", "watch")  # the numbers that the adapter uses

_PACKAGE = str(Path(__file__).resolve().parent.parent)


class LibtorchAttachment:
    """The compiled adapter, and torch's registries of hooks, which call it."""

    kind: Adapter = "libtorch"

    def __init__(self, mode: Mode, stacks: bool, api_address: int | None = None) -> None:
        from plimsoll._torch.adapter import load

        self._mode, self._stacks, self._api_address = mode, stacks, api_address
        self._has_user_steps = False
        # For samples: whether operators are observed now, and whether the next sample needs them.
        self._is_observing, self.needs_operators = False, True
        self._adapter = load(lambda _: None)
        self._handles: list[Any] = []

    def install(self) -> None:
        import torch

        api_address = self._api_address
        try:
            self._adapter.attach(
                _record.api_address() if api_address is None else api_address,
                _MODES.index(self._mode),
                int(self._stacks and self._mode == "full"),
                torch.nn.Module,
                torch.optim.Optimizer,
                _PACKAGE,
                notebook.cells(),
            )
        except RuntimeError as error:
            leave_to_program(error)
            raise AdapterError(str(error)) from error
        self._register()
        if self._has_user_steps:
            self._adapter.user_marks_steps()
        self.survey()
        # A C++ function: in a Python function, a signal handler could raise an exception.
        _record.set_describer(self._adapter.describe)

    def _register(self) -> None:
        modules = importlib.import_module("torch.nn.modules.module")
        optimizers = importlib.import_module("torch.optim.optimizer")
        adapter = self._adapter
        for register, hook in (
            (modules.register_module_module_registration_hook, adapter.module_registered),
            (modules.register_module_parameter_registration_hook, adapter.tensor_registered),
            (modules.register_module_buffer_registration_hook, adapter.tensor_registered),
            (optimizers.register_optimizer_step_pre_hook, adapter.step_begins),
            (optimizers.register_optimizer_step_post_hook, adapter.step_ends),
        ):
            self._handles.append(register(hook))

    def survey(self, what: Survey = "all") -> None:
        cuda_hooks.renew()
        self._adapter.survey(what)

    def describe(self) -> None:
        self._adapter.describe()

    def layer_of(self, module: Any) -> str:
        path: str = self._adapter.layer_of(module)
        return path

    def observe(self, is_wanted: bool) -> None:
        """Observe operators or stop observing them, in the mode `watch`."""
        self._is_observing = is_wanted
        self._adapter.observe(is_wanted)

    def learn(self, has_activations: bool) -> None:
        """Note whether a sample had activations; if so, later samples need operators."""
        unsure = self.needs_operators and not self._is_observing
        self.needs_operators = has_activations or unsure

    def user_marks_steps(self) -> None:
        self._has_user_steps = True
        self._adapter.user_marks_steps()

    def is_on(self) -> bool:
        return bool(self._adapter.is_attached())

    def records_less(self, mode: Mode, stacks: bool) -> bool:
        has_less = _MODES.index(mode) < _MODES.index(self._mode)
        return has_less or (mode == "full" and stacks and not self._stacks)

    def use_fuller_mode(self, mode: Mode, stacks: bool) -> None:
        """Observe more. Detaches the hooks, and attaches them again."""
        self.detach()
        self._mode, self._stacks = mode, stacks
        self.install()

    def use_cheaper_mode(self, mode: Mode) -> None:
        """Return to a cheaper mode, without a gap."""
        if _MODES.index(mode) > _MODES.index(self._mode):
            self._adapter.use_cheaper_mode(_MODES.index(mode))
            self._mode = mode

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        _record.set_describer(None)
        self._adapter.detach()


_lock = threading.RLock()
_attached: Attached | None = None
_wanted: dict[object, tuple[Mode, bool]] = {}  # mode and stacks of each recording and of the watch
_complaints: set[str] = set()  # problems that have been printed
_pid = os.getpid()


def prepare(
    wanted: Adapter, say: Callable[[str], object], complain: Callable[[str], object]
) -> Adapter:
    """Return the adapter to use: "libtorch", "python" or "none". Compiles it if necessary.

    Raises:
        AdapterError: `wanted` is "libtorch", and it is unavailable.
    """
    with _lock:
        _drop_parents()
        if _attached is not None:
            return _attached.kind
    if wanted in ("none", "python"):
        return wanted
    from plimsoll._torch.adapter import load

    try:
        load(say)
        cuda_hooks.prepare(say)
        return "libtorch"
    except (AdapterError, ImportError, OSError) as error:
        leave_to_program(error)
        if wanted == "libtorch":
            raise AdapterError(str(error)) from error
        kind: Adapter = "none" if isinstance(error, ImportError) else "python"
        problem = "torch is not installed here, so its tensors are not recorded"
        if kind == "python":
            problem = f"{error}: recording from Python instead, which is slower and sees less"
        if problem not in _complaints:
            _complaints.add(problem)
            complain(problem)
        return kind


def attach(owner: object, kind: Adapter, mode: Mode, stacks: bool) -> None:
    """Install the hooks for another user, until `detach` is called with it."""
    with _lock:
        _drop_parents()
        try:
            _wanted[owner] = mode, stacks
            _install(kind, mode, stacks)
        except BaseException:
            _leave(owner)
            raise


def _install(kind: Adapter, mode: Mode, stacks: bool) -> None:
    global _attached
    if _attached is not None:
        _see_more(mode, stacks)
    elif kind == "libtorch":
        from plimsoll._torch.adapter import load

        # CUDA first: its blocks must be known before their tensors are described.
        cuda_hooks.begin(load(lambda _: None), _survey)
        _attached = LibtorchAttachment(mode, stacks)
        _attached.install()
    elif kind == "python":
        from plimsoll._torch.fallback import PythonAttachment

        _attached = PythonAttachment()
        _attached.install()
        cuda_hooks.begin(None, _survey)


def _survey() -> None:
    if _attached is not None:
        _attached.survey()


def _drop_parents() -> None:
    """In a forked child: remove the hooks that the parent installed and nothing uses."""
    global _attached, _pid
    if _pid == os.getpid():
        return
    _pid = os.getpid()
    cuda_hooks.forget()
    if _attached is not None and not _attached.is_on():
        _attached.detach()
        _attached = None
        _wanted.clear()


def _see_more(mode: Mode, stacks: bool) -> None:
    if isinstance(_attached, LibtorchAttachment) and _attached.records_less(mode, stacks):
        try:
            _attached.use_fuller_mode(mode, stacks)
        except BaseException:  # from a signal handler: the other users keep their hooks
            _attached.use_fuller_mode(mode, stacks)
            raise


def request_mode(owner: object, mode: Mode) -> None:
    """Change the mode of a user, without stacks; the hooks observe more if it needs more."""
    with _lock:
        _wanted[owner] = mode, False
        _see_more(mode, stacks=False)


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
    global _attached
    _wanted.pop(owner, None)
    if not _wanted:
        if _attached is not None:
            _attached.detach()
            _attached = None
        cuda_hooks.end()
    elif isinstance(_attached, LibtorchAttachment):
        _attached.use_cheaper_mode(min((each for each, _ in _wanted.values()), key=_MODES.index))


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
