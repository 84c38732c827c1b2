"""The hooks of the compiled adapter in torch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plimsoll import _record
from plimsoll._cuda import cuda_hooks
from plimsoll._process import notebook
from plimsoll._process.program_errors import leave_to_program
from plimsoll._torch.hooks import Adapter, Attribution, Mode, Survey, Uses
from plimsoll._torch.watched_storages import HeldStorage
from plimsoll.errors import AdapterError

MODES = ("full", "lite", "watch")
"""The numbers that the adapter uses."""
USES = ("auto", "always", "sampled", "never")
"""The same, of the ways to record last uses."""

_CPU = 0  # the recorder's number
_PACKAGE = str(Path(__file__).resolve().parent.parent)


class LibtorchAttachment:
    """The compiled adapter, and torch's registries of hooks, which call it."""

    kind: Adapter = "libtorch"

    def __init__(
        self,
        mode: Mode,
        stacks: bool,
        api_address: int | None = None,
        *,
        uses: Uses = "auto",
        attribution: Attribution = "observer",
    ) -> None:
        from plimsoll._torch.adapter import load

        self._mode, self._stacks, self._api_address = mode, stacks, api_address
        self.uses: Uses = uses
        self.attribution: Attribution = attribution
        self._has_user_steps = False
        # For samples: whether operators are observed now, and whether the next sample needs them.
        self._is_observing, self.needs_operators = False, True
        self._adapter = load(lambda _: None)
        self._handles: list[Any] = []

    def install(self, held: Sequence[HeldStorage] = (), steps: int = 0) -> None:
        """Install the hooks.

        Args:
            held: Storages that the fallback has recorded. On the CPU, they keep their descriptions,
                and the adapter reports their frees. On other devices, the allocator's blocks take
                their place.
            steps: Number of steps that have ended.
        """
        import torch

        api_address = self._api_address
        try:
            self._adapter.attach(
                _record.api_address() if api_address is None else api_address,
                MODES.index(self._mode),
                int(self._stacks and self._mode == "full"),
                torch.nn.Module,
                torch.optim.Optimizer,
                _PACKAGE,
                notebook.cells(),
                USES.index(self.uses),
                self.attribution == "native",
            )
        except RuntimeError as error:
            leave_to_program(error)
            raise AdapterError(str(error)) from error
        for storage, device, address in held:
            if device == _CPU:
                self._adapter.take_over(storage, address)
            else:
                _record.free(device, address)
        self._adapter.continue_steps(steps)
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

    @property
    def module(self) -> Any:
        """The adapter's extension module."""
        return self._adapter

    def survey(self, what: Survey = "all") -> None:
        cuda_hooks.renew()
        self._adapter.survey(what)

    def find_holders(self, milliseconds: int, error: BaseException | None = None) -> bool:
        return bool(self._adapter.find_holders(0, 0, milliseconds, error))

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
        has_less = MODES.index(mode) < MODES.index(self._mode)
        return has_less or (mode == "full" and stacks and not self._stacks)

    def use_fuller_mode(self, mode: Mode, stacks: bool) -> None:
        """Observe more. Detaches the hooks, and attaches them again."""
        self.detach()
        self._mode, self._stacks = mode, stacks
        self.install()

    def begin_uses(self, uses: Uses) -> None:
        """Begin recording last uses anew, for a new recording or one that wants another mode."""
        self.uses = uses
        self._adapter.begin_uses(USES.index(uses))

    def use_cheaper_mode(self, mode: Mode) -> None:
        """Return to a cheaper mode, without a gap."""
        if MODES.index(mode) > MODES.index(self._mode):
            self._adapter.use_cheaper_mode(MODES.index(mode))
            self._mode = mode

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        _record.set_describer(None)
        self._adapter.detach()
