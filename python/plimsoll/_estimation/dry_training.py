"""Two training steps of a copy of a model, and the storages that are live during them.

A dispatch mode sees every tensor that an operator returns and counts its storage once; a weak
reference notices when the storage is freed. The user's model is only read.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import random
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll._estimation.model_copy import Copy, tensors_in, wrong_argument
from plimsoll._estimation.recorded_peak import RecordedPeak
from plimsoll._process.program_errors import Suppressed, leave_to_program

# Optimizers ---------------------------------------------------------------------------------------


def optimizer_maker(torch: Any, model: Any, optimizer: Any) -> Callable[[Copy], Any] | None:
    """Return a function that creates the optimizer of the copy, from the user's argument."""
    if optimizer is None:
        return None
    if isinstance(optimizer, torch.optim.Optimizer):
        known = {id(parameter) for parameter in model.parameters()}
        if any(id(p) not in known for group in optimizer.param_groups for p in group["params"]):
            raise wrong_argument("optimizer has parameters that are not the model's")
        return lambda copied: _as_if_new(optimizer, copied.parameters)
    make = _by_name(torch, optimizer) if isinstance(optimizer, str) else optimizer
    if not callable(make):
        raise wrong_argument(
            f"optimizer is of type {type(optimizer).__name__}; "
            "it must be an optimizer, a class or a name"
        )
    needs_rate = _needs_learning_rate(make)

    def made(copied: Copy) -> Any:
        parameters = list(copied.parameters.values())
        return make(parameters, lr=1e-3) if needs_rate else make(parameters)

    return made


def _by_name(torch: Any, name: str) -> Any:
    kinds = {
        kind.__name__.lower(): kind
        for kind in vars(torch.optim).values()
        if inspect.isclass(kind)
        and issubclass(kind, torch.optim.Optimizer)
        and kind is not torch.optim.Optimizer
    }
    if name.lower() not in kinds:
        known = ", ".join(sorted(kind.__name__ for kind in kinds.values()))
        raise wrong_argument(f"optimizer '{name}' is not one of {known}")
    return kinds[name.lower()]


def _needs_learning_rate(make: Callable[..., Any]) -> bool:
    try:
        rate = inspect.signature(make).parameters.get("lr")
    except (TypeError, ValueError) as error:
        leave_to_program(error)
        return False
    return rate is not None and not isinstance(rate.default, int | float)


def _as_if_new(optimizer: Any, parameters: Mapping[int, Any]) -> Any:
    """Return an optimizer of the same class and settings, without state, for copied parameters."""
    groups = [
        {**group, "params": [parameters[id(parameter)] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    accepted = inspect.signature(type(optimizer)).parameters
    settings = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    return type(optimizer)(groups, **settings)


def _step_function(optimizer: Any) -> Callable[[Any], Any]:
    """Run the optimizer's step without hooks: a dry run calls neither the user's nor Plimsoll's."""
    step: Any = type(optimizer).step
    bare: Callable[[Any], Any] = step.__wrapped__ if getattr(step, "hooked", False) else step
    return bare


def _lbfgs_state_bytes(optimizer: Any) -> int:
    """Return the bytes of the state of `torch.optim.LBFGS` with a full history.

    L-BFGS reads values, so fake tensors cannot run its step. It keeps the direction, the last
    gradient, and two vectors and two scalars for each entry of the history.
    """
    history: int = optimizer.param_groups[0]["history_size"]
    parameters = optimizer.param_groups[0]["params"]
    elements: int = sum(parameter.numel() for parameter in parameters)
    item_size: int = max((parameter.element_size() for parameter in parameters), default=0)
    return item_size * ((2 * history + 2) * elements + 2 * history)


# Storages -----------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Live:
    size_bytes: int
    layer: str
    reference: weakref.ref[Any]


class Meter:
    """Tracks live storages and the peak of their bytes."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._counted: dict[int, _Live] = {}
        # Storages freed since the last `_forget_dead`. The callback of a weak reference must not
        # run Python code: Python drops exceptions in it, including one that a signal handler
        # raises there, such as KeyboardInterrupt.
        self._dead: dict[int, weakref.ref[Any]] = {}
        self.live_bytes = 0
        self.peak_bytes = 0
        self.peak_phase = ""
        self.phase = ""
        self._layers = [""]

    def count(self, tensors: object) -> None:
        for tensor in tensors_in(self._torch, tensors):
            for storage in _storages(tensor):
                self._count_storage(storage)

    def _count_storage(self, storage: Any) -> None:
        self._forget_dead()
        key = storage._cdata
        if key in self._counted:
            return
        size_bytes = storage.nbytes()
        died = functools.partial(self._dead.__setitem__, key)
        reference = weakref.ref(storage, died)
        self._counted[key] = _Live(size_bytes, self._layers[-1], reference)
        self.live_bytes += size_bytes
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_phase = self.live_bytes, self.phase

    def _forget_dead(self) -> None:
        while self._dead:
            key, _ = self._dead.popitem()
            self.live_bytes -= self._counted.pop(key).size_bytes

    def live(self) -> list[_Live]:
        """Return the storages that are counted and still live."""
        self._forget_dead()
        return list(self._counted.values())

    def begin_peak(self) -> None:
        self.peak_bytes = 0

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """Counts the storages that operators return, by the layer whose forward runs."""

        def dispatch(
            mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            if function.name() in _MATRIX_PRODUCTS:
                _check_dtypes(self._torch, function, args)
            self.count(result)
            return result

        base = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
        watch_operators = type("Watch", (base,), {"__torch_dispatch__": dispatch})
        for name, module in model.named_modules():
            if isinstance(module, self._torch.jit.ScriptModule):
                continue
            module.register_forward_pre_hook(functools.partial(self._enter, name))
            module.register_forward_hook(self._leave, always_call=True)
        with watch_operators():
            yield

    def _enter(self, name: str, module: Any, arguments: Any) -> None:
        self._layers.append(name)

    def _leave(self, module: Any, arguments: Any, output: Any) -> None:
        self._layers.pop()

    def bytes_of(self, tensors: object) -> int:
        """Return the bytes of the tensors, counting each storage once."""
        storages = {
            storage._cdata: storage.nbytes()
            for tensor in tensors_in(self._torch, tensors)
            for storage in _storages(tensor)
        }
        return sum(storages.values())


# With fake tensors, these operators accept matrices of different dtypes, which real tensors refuse.
# All other operators refuse the same arguments in both cases.
_MATRIX_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv"}


def _check_dtypes(torch: Any, function: Any, args: Any) -> None:
    dtypes = [each.dtype for each in args if isinstance(each, torch.Tensor)]
    if len(set(dtypes)) > 1:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise RuntimeError(f"{function.name()} needs tensors of one dtype, but gets {names}")


_SPARSE_PARTS = {
    "torch.sparse_coo": ("_indices", "_values"),
    "torch.sparse_csr": ("crow_indices", "col_indices", "values"),
    "torch.sparse_bsr": ("crow_indices", "col_indices", "values"),
    "torch.sparse_csc": ("ccol_indices", "row_indices", "values"),
    "torch.sparse_bsc": ("ccol_indices", "row_indices", "values"),
}


def _storages(tensor: Any) -> Iterator[Any]:
    parts = _SPARSE_PARTS.get(str(tensor.layout))
    if parts is not None:
        if type(tensor).__name__ == "FakeTensor":
            raise NotImplementedError("how many elements a sparse tensor has is in its values")
        for part in parts:
            yield getattr(tensor, part)().untyped_storage()
        return
    with Suppressed(NotImplementedError, RuntimeError):  # a tensor without a storage
        yield tensor.untyped_storage()


# Training -----------------------------------------------------------------------------------------


class Training:
    """The memory of two training steps. In the second one, optimizer state exists.

    Attributes:
        activations: Bytes that the forward pass allocated and that are live at its end, by layer.
    """

    def __init__(
        self,
        torch: Any,
        copied: Copy,
        make_optimizer: Callable[[Copy], Any] | None,
        loss: Callable[[Any], Any] | None,
        recorded: RecordedPeak | None = None,
    ) -> None:
        self._torch = torch
        self._copied = copied
        self._optimizer = make_optimizer(copied) if make_optimizer is not None else None
        self._recorded_bytes = 0
        self._loss = loss
        self.meter = Meter(torch)
        self.activations: Counter[str] = Counter()
        self.gradients_bytes = 0
        self._output: Any = None
        self.has_loss = False
        model = copied.model
        for parameter in model.parameters():
            parameter.grad = None
        self.meter.count([list(model.parameters()), list(model.buffers()), copied.sample_input])
        inference = torch.inference_mode(False)
        with inference, torch.enable_grad(), copied.mode, self.meter.watching(model):
            self._step()
            self.meter.begin_peak()
            if recorded is not None:
                recorded.begin()
            self._step()
            self._recorded_bytes = recorded.peak_bytes() if recorded is not None else 0

    def _step(self) -> None:
        meter, parameters = self.meter, self._copied.parameters.values()
        for parameter in parameters:
            parameter.grad = None
        meter.phase = "forward"
        before = set(meter.live())  # not the keys: they are reused
        # In a loop, the variable keeps the output until the next forward pass has made a new one.
        self._output = self._forward()
        losses = self._losses(self._output)
        self._torch.clear_autocast_cache()
        self.activations = Counter()
        for live in meter.live():
            if live not in before:
                self.activations[live.layer] += live.size_bytes
        meter.phase = "backward"
        with self._without_autocast():
            reached = [each for each in losses if each.requires_grad]
            # The gradient of a sum would be a single element; real gradients are as large as the
            # outputs.
            self._torch.autograd.backward(
                reached, [self._torch.ones_like(each) for each in reached]
            )
            del losses, reached
            self.gradients_bytes = meter.bytes_of([p.grad for p in parameters])
            meter.phase = "optimizer"
            if self._optimizer is not None and not self._is_lbfgs():
                _step_function(self._optimizer)(self._optimizer)

    def _forward(self) -> Any:
        given = self._copied.sample_input
        if isinstance(given, Mapping):
            return self._copied.model(**given)
        if isinstance(given, tuple | list):
            return self._copied.model(*given)
        return self._copied.model(given)

    def _losses(self, output: Any) -> list[Any]:
        """Return the tensors at which backward begins: the loss, or else the outputs."""
        result = self._loss(output) if self._loss else getattr(output, "loss", None)
        self.has_loss = self._loss is not None or isinstance(result, self._torch.Tensor)
        if not self.has_loss:
            found = [t for t in tensors_in(self._torch, output) if t.is_floating_point()]
            if not found:
                raise wrong_argument("the model's output has no floating-point tensor: give a loss")
            return found
        if not isinstance(result, self._torch.Tensor) or result.numel() != 1:
            raise wrong_argument("the loss is not a tensor with one element")
        return [result]

    @contextlib.contextmanager
    def _without_autocast(self) -> Iterator[None]:
        """Run backward outside autocast, as PyTorch recommends."""
        device = next(iter(self._copied.parameters.values())).device.type
        if not self._torch.is_autocast_enabled():
            yield
            return
        with self._torch.autocast(device, enabled=False):
            yield

    def _is_lbfgs(self) -> bool:
        return isinstance(self._optimizer, self._torch.optim.LBFGS)

    def optimizer_state_bytes(self) -> int:
        if self._optimizer is None:
            return 0
        if self._is_lbfgs():
            return _lbfgs_state_bytes(self._optimizer)
        return self.meter.bytes_of([list(self._optimizer.state.values())])

    def peak_bytes(self) -> int:
        # A dry run makes no step of L-BFGS, so its state has not been measured.
        metered = max(self.meter.peak_bytes, self._recorded_bytes)
        return metered + (self.optimizer_state_bytes() if self._is_lbfgs() else 0)

    def weights_by_layer(self) -> Counter[str]:
        """Assign each storage to the first module that uses it."""
        seen: set[int] = set()
        weights: Counter[str] = Counter()
        for name, module in self._copied.model.named_modules():
            for parameter in module.parameters(recurse=False):
                for storage in _storages(parameter):
                    if storage._cdata not in seen:
                        seen.add(storage._cdata)
                        weights[name] += storage.nbytes()
        return weights

    def buffers_bytes(self) -> int:
        return self.meter.bytes_of(list(self._copied.model.buffers()))

    def inputs_bytes(self) -> int:
        return self.meter.bytes_of(self._copied.sample_input)


def has_workspaces_on_the_cpu(torch: Any, model: Any) -> bool:
    """Return whether the model has layers or dtypes whose CPU kernels allocate workspaces."""
    kinds = (torch.nn.RNNBase, torch.nn.modules.conv._ConvNd)
    half = (torch.bfloat16, torch.float16)
    if any(parameter.is_cpu and parameter.dtype in half for parameter in model.parameters()):
        return True
    return torch.is_autocast_enabled("cpu") or any(
        isinstance(module, kinds) and all(parameter.is_cpu for parameter in module.parameters())
        for module in model.modules()
    )


@contextlib.contextmanager
def random_state_kept(torch: Any) -> Iterator[None]:
    """Restore the random states of torch (all devices), Python and NumPy after the block."""
    numpy = sys.modules.get("numpy")
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    state = torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        if numpy is not None:
            numpy.random.set_state(state[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
