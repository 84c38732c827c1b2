"""Copies a model and a batch, so that a dry run never touches the user's objects."""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.errors import InvalidArgumentError, UnsupportedError


@dataclass
class Copy:
    """A model and a batch to train it on.

    Attributes:
        mode: The context to train it in.
        parameters: The copied parameters, by the ``id`` of the user's parameter.
    """

    model: Any
    sample_input: Any
    mode: contextlib.AbstractContextManager[Any]
    parameters: dict[int, Any]


def fake_copy(torch: Any, model: Any, sample_input: Any) -> Copy:
    """Copy to fake tensors, which have shapes, dtypes, devices and storages, but no memory."""
    fakes = importlib.import_module("torch._subclasses.fake_tensor")
    mode = fakes.FakeTensorMode(allow_non_fake_inputs=True)
    device = next(
        (each.device for each in tensors_in(torch, sample_input) if not each.is_meta), None
    )

    def fake(tensor: Any) -> Any:
        if device is None or not tensor.is_meta:
            return mode.from_tensor(tensor)
        # A model without memory is estimated on the batch's device: operators of the meta device
        # may allocate what those of a real one do not, such as the weights of attention.
        with mode:
            size, stride = tensor.size(), tensor.stride()
            placed = torch.empty_strided(size, stride, dtype=tensor.dtype, device=device)
            if isinstance(tensor, torch.nn.Parameter):
                return torch.nn.Parameter(placed, requires_grad=tensor.requires_grad)
        return placed.requires_grad_(tensor.requires_grad)

    with fakes.FakeCopyMode(mode):  # for tensors that _copy does not find
        return _copy(torch, model, sample_input, mode, fake)


def cpu_copy(torch: Any, model: Any, sample_input: Any) -> Copy:
    """Copy to real tensors."""

    def to_cpu(tensor: Any) -> Any:
        copied = tensor.detach().to("cpu", copy=True)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(copied, requires_grad=tensor.requires_grad)
        return copied.requires_grad_(tensor.requires_grad)

    return _copy(torch, model, sample_input, contextlib.nullcontext(), to_cpu)


def _copy(
    torch: Any, model: Any, sample_input: Any, mode: Any, copied: Callable[[Any], Any]
) -> Copy:
    """Return a deep copy. `copied` copies each tensor, and always gets a leaf."""
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        raise wrong_argument("the model has lazy parameters: run one batch through it first")
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in tensors_in(torch, [module._parameters, module._buffers, vars(module)]):
            if id(tensor) not in memo:
                memo[id(tensor)] = copied(tensor if tensor.is_leaf else tensor.detach())
    parameters = {id(parameter): memo[id(parameter)] for parameter in model.parameters()}
    device = next((parameter.device for parameter in parameters.values()), None)

    def batch(tensor: Any) -> Any:
        on_its_own = copied(tensor.detach())
        with mode:
            on_device = on_its_own if device is None else on_its_own.to(device)
        return on_device.requires_grad_(tensor.requires_grad)

    try:
        model_copy = copy.deepcopy(model, memo)
    except TypeError as error:  # an attribute such as a lock or an open file
        raise UnsupportedError(
            "unsupported", f"plimsoll.estimate runs a copy of the model, and {error}"
        ) from error
    return Copy(model_copy, _mapped(torch, sample_input, batch), mode, parameters)


def without_wrapper(torch: Any, model: Any) -> Any:
    """Return the module inside the wrapper of `torch.compile` or of data parallelism."""
    if not isinstance(model, torch.nn.Module):
        raise wrong_argument(
            f"model is of type {type(model).__name__}; it must be a torch.nn.Module"
        )
    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(model, parallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def tensors_in(torch: Any, value: object) -> Iterator[Any]:
    """Yield the tensors in nested lists, tuples, sets, mappings and dataclass-like outputs."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(torch, item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from tensors_in(torch, item)
    elif hasattr(type(value), "__dataclass_fields__"):
        yield from tensors_in(torch, vars(value))


def _mapped(torch: Any, value: Any, function: Callable[[Any], Any]) -> Any:
    """Return the same containers, with `function` applied to each tensor."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: _mapped(torch, item, function) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(torch, item, function) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_mapped(torch, item, function) for item in value)
    return value


def wrong_argument(message: str) -> InvalidArgumentError:
    return InvalidArgumentError("invalid_argument", message)
