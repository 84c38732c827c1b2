"""The fallback: recording without a compiler, through a dispatch mode.

The mode sees the storages that operators return, not the allocator. It misses memory that is
allocated and freed inside one operator, takes layers from module hooks, and costs microseconds per
operator. It covers the thread that started the recording, and the backward passes of that thread.

Names take memory. If there is none left, a block is recorded without names.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
import weakref
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from plimsoll import _record
from plimsoll._cuda import cuda_history
from plimsoll._process.messages import print_notice
from plimsoll._process.names import text_of
from plimsoll._process.program_errors import without_errors, without_memory
from plimsoll._torch.autograd_state import AUTOGRAD_UNKNOWN, autograd_state
from plimsoll._torch.dispatch_stack import push_beneath, take_out
from plimsoll._torch.forward_layers import ForwardLayers
from plimsoll._torch.hooks import Adapter, Survey
from plimsoll._torch.module_tree import (
    buffers_of,
    children_of,
    modules_of,
    parameter_bytes,
    parameters_of,
    tensors_of,
)
from plimsoll._torch.python_stacks import PythonStacks
from plimsoll._torch.stepping_optimizer import SteppingOptimizer
from plimsoll._torch.tensor_memory import gradient_of, is_computed, kind_of, memory_of
from plimsoll._torch.watched_storages import HeldStorage, WatchedStorages

_PHASE_OTHER, _PHASE_FORWARD, _PHASE_BACKWARD, _PHASE_OPTIMIZER = 0, 1, 2, 3
_KNOWN, _PARAMETER, _GRADIENT, _OPTIMIZER_STATE, _BUFFER, _INPUT = 0, 1, 2, 3, 4, 5
_ACTIVATION = 7
_TORCH = str(importlib.import_module("torch").__path__[0])
# The adapter counts its operators from 1. A block of the fallback that the adapter sees freed must
# not seem to be freed in the operator that allocated it.
_FIRST_INSTANCE = 1 << 31


def _never() -> bool:
    return False


_reported: set[str] = set()


def _report_error(error: Exception) -> None:
    """Report each kind of error once; not a MemoryError, which only costs names."""
    kind = type(error).__name__
    if not isinstance(error, MemoryError) and kind not in _reported:
        _reported.add(kind)
        print_notice(
            f"a tensor, module or optimizer cannot be described ({kind}: {text_of(error)}); its "
            "memory may lack names"
        )


# True while torch.compile or torch.export reads the hooks as part of the model.
_is_compiling: Any = getattr(getattr(torch, "compiler", None), "is_compiling", _never)


class PythonAttachment(TorchDispatchMode):
    """A dispatch mode that records without a compiler."""

    kind: Adapter = "python"

    def __init__(self) -> None:
        super().__init__()
        self._storages = WatchedStorages()
        self._layers: list[str] = []
        self._forward_layers = ForwardLayers()
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}  # by the module's id
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._search_due = 0.0  # when, by time.monotonic()
        self._promoted: list[weakref.ref[Any]] = []  # since the search, to the oldest generation
        self._in_optimizer = 0
        self._stepping = SteppingOptimizer()
        self._running = 0  # operators, on all threads
        self._instances = 0
        self.steps = 0
        self.has_user_steps = False
        self._is_over = False
        self._stacks = PythonStacks()
        self._handles: list[Any] = []

    def install(self) -> None:
        modules = importlib.import_module("torch.nn.modules.module")
        optimizers = importlib.import_module("torch.optim.optimizer")
        add = self._handles.append
        add(modules.register_module_forward_pre_hook(self._enter_module))
        add(modules.register_module_forward_hook(self._leave_module, always_call=True))
        add(optimizers.register_optimizer_step_pre_hook(self._step_begins))
        add(optimizers.register_optimizer_step_post_hook(self._step_ends))
        self.survey()
        gc.callbacks.append(self._collection)
        push_beneath(self)
        _record.set_describer(self.describe)

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Allow compiled code to stay compiled under this mode."""
        return True

    def is_idle(self) -> bool:
        """Return whether no forward, backward, optimizer step or operator runs."""
        in_backward = torch._C._current_graph_task_id() >= 0
        return not (self._layers or self._in_optimizer or self._running or in_backward)

    def hand_over(self) -> list[HeldStorage]:
        """Detach, and return the storages that are recorded, for another attachment."""
        held = self._storages.take()
        self.detach()
        return held

    def take_back(self, held: list[HeldStorage]) -> None:
        """Undo `hand_over`."""
        self._storages.take_back(held)
        self._is_over = False
        self.install()

    def is_on(self) -> bool:
        return _record.is_recording()

    def detach(self) -> None:
        self._is_over = True  # take_out() fails on another thread or in an operator
        take_out(self)
        if self._collection in gc.callbacks:
            gc.callbacks.remove(self._collection)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        _record.set_describer(None)
        self._storages.clear()
        _record.set_context("", "", 0, 0, _PHASE_OTHER)

    def user_marks_steps(self) -> None:
        if not self.has_user_steps and self.steps > 0:
            _record.mark_own_steps()
        self.has_user_steps = True

    def find_holders(self, milliseconds: int, error: BaseException | None = None) -> bool:
        return False

    def survey(self, what: Survey = "all") -> None:
        self._promoted.clear()
        self._report_objects(gc.get_objects())

    @without_errors(_report_error)
    def _collection(self, phase: str, info: dict[str, int]) -> None:
        """Note the young modules and optimizers, which a garbage collection makes old."""
        if phase != "start" or info["generation"] == 0 or self._is_over:
            return
        for generation in (0, 1):
            for each in gc.get_objects(generation):
                if issubclass(type(each), torch.nn.Module | torch.optim.Optimizer):
                    self._promoted.append(weakref.ref(each))

    def _report_objects(self, objects: Sequence[Any]) -> None:
        modules, optimizers = [], []
        for each in objects:
            if issubclass(type(each), torch.Tensor):
                self._report(each, _KNOWN, "")
                if is_computed(each):
                    self._report(each, _ACTIVATION, "")
            elif issubclass(type(each), torch.nn.Module):
                modules.append(each)
            elif issubclass(type(each), torch.optim.Optimizer):
                optimizers.append(each)
        inner = {id(child) for each in modules for _, child in children_of(each)}
        for module in sorted(modules, key=lambda each: id(each) in inner):  # root modules first
            self._report_module(module)
        for optimizer in optimizers:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
        self._report_known()

    @without_errors(_report_error)
    def describe(self) -> None:
        """Record what no hook has reported, right before a sample.

        Young objects are always searched, all objects only if that takes at most 1 % of the time.
        """
        began = time.monotonic()
        if began < self._search_due:
            promoted = [each() for each in self._promoted]
            self._promoted.clear()
            objects = [*promoted, *gc.get_objects(0), *gc.get_objects(1)]
            self._report_objects(objects)
            objects.clear()  # it contains itself, and would retain all tensors
            return
        self.survey()
        ended = time.monotonic()
        self._search_due = ended + 100 * (ended - began)

    def _report_known(self) -> None:
        """Report the current tensors of modules and optimizers, which may have been replaced."""
        seen = set()
        for reference, name in list(self._names.values()):
            module = reference()
            if module is None:
                continue
            for key, parameter in tensors_of(module, "_parameters"):
                if id(parameter) not in seen:  # a tensor shared by modules keeps its first name
                    seen.add(id(parameter))
                    self._report(parameter, _PARAMETER, f"{name}.{key}")
                    self._report_gradient(parameter, f"{name}.{key}")
            for key, buffer in tensors_of(module, "_buffers"):
                self._report(buffer, _BUFFER, f"{name}.{key}")
        for number, reference in list(self._optimizers.items()):
            optimizer = reference()
            if optimizer is None:
                del self._optimizers[number]
            else:
                self._report_state(optimizer)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._is_over:
            return func(*args, **(kwargs or {}))
        self._instances = _FIRST_INSTANCE | (self._instances + 1) % _FIRST_INSTANCE
        self._running += 1
        try:
            self._activity(func._schema.name)
            result = func(*args, **(kwargs or {}))
            self._report_result(func, result, sys._getframe(1))
        finally:
            self._running -= 1
            self._activity("")
        return result

    @without_errors(_report_error)
    def _report_result(self, func: Any, result: Any, caller: FrameType) -> None:
        layer = self._layer()
        reported = False
        try:
            for tensor in tree_leaves(result):
                memory = memory_of(tensor) if isinstance(tensor, torch.Tensor) else None
                if memory is None or memory[0] in self._storages:
                    continue
                if not reported:
                    stack = self._stacks.id_of(caller)
                    autograd = autograd_state(caller)
                    self._set_context(layer, func._schema.name, stack, self._instances, autograd)
                    reported = True
                _record.alloc(self._storages.watch(*memory[:2]), *memory[1:])
                self._report(tensor, _KNOWN, "")
        finally:
            self._set_context(layer, "", 0, 0)

    @without_memory(None)
    def _set_context(
        self, layer: str, op: str, stack: int, instance: int, autograd: int = AUTOGRAD_UNKNOWN
    ) -> None:
        _record.set_context(layer, op, stack, instance, self._phase(), autograd)

    @without_memory(None)
    def _activity(self, op: str) -> None:
        """Mark this thread's context, for CUDA allocations of which only the time is known."""
        if cuda_history.is_on():
            self._set_context(self._layer(), op, 0, self._instances if op else 0)
            _record.mark_activity()

    # ---- storages ------------------------------------------------------------------------------

    @without_errors(_report_error)
    def _report(self, tensor: torch.Tensor, role: int, name: str) -> None:
        memory = memory_of(tensor)
        if memory is not None:
            known = self._known(tensor, role, name)
            _record.adopt(self._storages.watch(*memory[:2]), *memory[1:], known)

    @without_memory(0)
    def _known(self, tensor: torch.Tensor, role: int, name: str) -> int:
        return _record.tensor(role, name, *kind_of(tensor))

    def _layer(self) -> str:
        if self._layers:  # also in forward code that backward runs again
            return self._layers[-1]
        in_backward = torch._C._current_graph_task_id() >= 0
        return self._forward_layers.of_running_node() if in_backward else ""

    def _phase(self) -> int:
        if torch._C._current_graph_task_id() >= 0:
            return _PHASE_BACKWARD
        if self._in_optimizer:
            return _PHASE_OPTIMIZER
        return _PHASE_FORWARD if self._layers else _PHASE_OTHER

    # ---- modules and optimizers ----------------------------------------------------------------

    @without_errors(_report_error)
    def _report_module(self, module: torch.nn.Module) -> None:
        if id(module) in self._names:
            return
        root = type(module).__name__
        for path, each in modules_of(module):
            if id(each) not in self._names:
                died = partial(self._names.pop, id(each))
                name = f"{root}.{path}" if path else root
                self._names[id(each)] = weakref.ref(each, died), name
                _record.module(
                    name,
                    type(each).__name__,
                    parameter_bytes(each),
                    (1 if vars(each).get("training") is False else 0)
                    + (2 if vars(each).get("gradient_checkpointing") is True else 0)
                    + (4 if type(each).forward is torch.nn.Module.forward else 0),
                )
        for path, parameter in parameters_of(module):
            self._report(parameter, _PARAMETER, f"{root}.{path}")
            self._report_gradient(parameter, f"{root}.{path}")
        for path, buffer in buffers_of(module):
            self._report(buffer, _BUFFER, f"{root}.{path}")

    def _report_gradient(self, parameter: torch.Tensor, name: str) -> None:
        gradient = gradient_of(parameter)
        if gradient is not None:
            self._report(gradient, _GRADIENT, name)

    @without_errors(_report_error)
    def _report_state(self, optimizer: Any) -> None:
        for tensor in tree_leaves(list(optimizer.state.values())):
            if isinstance(tensor, torch.Tensor):
                self._report(tensor, _OPTIMIZER_STATE, "")

    def layer_of(self, module: torch.nn.Module) -> str:
        self._report_module(module)
        return self._name_of(module)

    def _name_of(self, module: torch.nn.Module) -> str:
        known = self._names.get(id(module))
        return known[1] if known is not None else type(module).__name__

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        if _is_compiling():
            return
        if not self._layers:
            self._report_module(module)
            self._report_inputs(args)
        self._layers.append(self._name_of(module))
        self._forward_layers.changed(self._layers[-1])
        self._activity("")
        self._begin_layer(self._layers[-1])

    @without_errors(_report_error)
    def _report_inputs(self, args: Any) -> None:
        for tensor in tree_leaves(args):
            if isinstance(tensor, torch.Tensor) and not is_computed(tensor):
                self._report(tensor, _INPUT, "")

    @without_memory(None)
    def _begin_layer(self, path: str) -> None:
        _record.begin_layer(path)

    @without_memory(None)
    def _end_layer(self, path: str) -> None:
        _record.end_layer(path)

    def _leave_module(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if _is_compiling():
            return
        if self._layers:
            self._end_layer(self._layers.pop())
            self._forward_layers.changed(self._layers[-1] if self._layers else "")
        self._activity("")

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if _is_compiling():
            return
        self._in_optimizer += 1
        self._activity("")
        self._report_parameters(optimizer)

    @without_errors(_report_error)
    def _report_parameters(self, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._report(parameter, _PARAMETER, "")
                self._report_gradient(parameter, "")

    def _step_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if _is_compiling():
            return
        self._in_optimizer = max(0, self._in_optimizer - 1)
        self._activity("")
        self._report_state(optimizer)
        if self._stepping.ends_step(optimizer) and not self.has_user_steps:
            self.steps += 1
            _record.mark_step(self.steps)
