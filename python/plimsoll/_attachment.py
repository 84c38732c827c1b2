"""Which hooks are installed in torch, for how many recordings.

The first recording attaches, the last one detaches: while none runs there is not one hook.
"""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from plimsoll import _record
from plimsoll.errors import AdapterError

Adapter = Literal["auto", "libtorch", "python", "none"]
Mode = Literal["full", "lite"]

_PACKAGE = str(Path(__file__).resolve().parent)


class Attached(Protocol):
    """Hooks that are installed."""

    kind: Adapter

    def survey(self) -> None:
        """Tells the recorder of everything that can be found: modules, optimizers, tensors."""

    def user_marks_steps(self) -> None:
        """From now on no optimizer marks steps."""

    def detach(self) -> None:
        """Takes all hooks out."""


class LibtorchAttachment:
    """The compiled adapter, and torch's own registries of hooks, which call into it."""

    kind: Adapter = "libtorch"

    def __init__(self, mode: Mode, stacks: bool, api_address: int | None = None) -> None:
        import torch

        from plimsoll._adapter import load

        self._adapter = load(lambda _: None)
        self._adapter.attach(
            _record.api_address() if api_address is None else api_address,
            0 if mode == "full" else 1,
            int(stacks and mode == "full"),
            torch.nn.Module,
            torch.optim.Optimizer,
            _PACKAGE,
        )
        self._adapter.set_survey(self.survey)
        self._handles: list[Any] = []
        self._register()
        self.survey()

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

    def survey(self) -> None:
        self._adapter.adopt(gc.get_objects())

    def user_marks_steps(self) -> None:
        self._adapter.user_marks_steps()

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._adapter.detach()


_lock = threading.RLock()
_attached: Attached | None = None
_users = 0


def prepare(
    wanted: Adapter, say: Callable[[str], object], complain: Callable[[str], object]
) -> Adapter:
    """Which adapter there will be: "libtorch", "python" or "none". Compiles it if need be.

    Raises:
        AdapterError: `wanted` is "libtorch", which is not to be had.
    """
    with _lock:
        if _attached is not None:
            return _attached.kind
    if wanted in ("none", "python"):
        return wanted
    from plimsoll._adapter import load

    try:
        load(say)
        return "libtorch"
    except (AdapterError, ImportError, OSError) as error:
        if wanted == "libtorch":
            raise AdapterError(str(error)) from error
        if isinstance(error, ImportError):
            complain("torch is not installed here, so nothing of it is recorded")
            return "none"
        complain(f"{error}: recording from Python instead, which is slower and sees less")
        return "python"


def attach(kind: Adapter, mode: Mode, stacks: bool) -> None:
    """Installs the hooks for one more recording."""
    global _attached, _users
    with _lock:
        if _attached is None and kind == "libtorch":
            _attached = LibtorchAttachment(mode, stacks)
        elif _attached is None and kind == "python":
            from plimsoll._fallback import PythonAttachment

            _attached = PythonAttachment()
        _users += 1


def detach() -> None:
    """One recording less; with the last one the hooks go."""
    global _attached, _users
    with _lock:
        _users -= 1
        if _users == 0 and _attached is not None:
            _attached.detach()
            _attached = None


def attached() -> Attached | None:
    """What is installed now."""
    return _attached
