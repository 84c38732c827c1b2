"""Programs about tensors: their identity, storage and kinds, and the modes that apply to them."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from typing import Any, ClassVar

import numpy
import torch
from tests.recording.sacred import boundary, counts, program, raised_by
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import swap_tensors
from torch.utils._python_dispatch import TorchDispatchMode


def step(model: nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(3, 4)).square().sum().backward()
    optimizer.step()
    boundary()
    return optimizer


@program
def swapped_tensors() -> Any:
    model = nn.Linear(4, 4)
    step(model)
    model.zero_grad()
    other = nn.Parameter(torch.ones(4, 4))
    identity = id(model.weight)
    swap_tensors(model.weight, other)
    found = [id(model.weight) == identity, counts(model.weight, other)]
    step(model)
    a, b = torch.zeros(3), torch.ones(5)
    swap_tensors(a, b)
    referred = torch.zeros(3)
    watch = weakref.ref(referred)
    refused = raised_by(lambda: swap_tensors(referred, a))
    return found, model.weight, model.weight.grad, other, a, b, refused, watch() is referred


@program
def conversions_by_swapping() -> Any:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        optimizer = step(model)
        identities = [id(p) for p in model.parameters()]
        model.to(torch.float64)
        model.load_state_dict(copy.deepcopy(model.state_dict()))
        model.float()
        kept = identities == [id(p) for p in model.parameters()]
        step(model)
        return kept, list(model.state_dict().values()), len(optimizer.state)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


@program
def conversions_in_place() -> Any:
    model = nn.Linear(4, 4)
    step(model)
    weight = model.weight
    model.double()
    model.float()
    same = weight is model.weight
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    assigned = model.weight.data_ptr() == state["weight"].data_ptr()
    step(model)
    return same, assigned, weight is model.weight, model.weight, counts(weight, model.weight)


@program
def storages() -> Any:
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    storage = model.weight.untyped_storage()
    saved = model.weight.detach().clone()
    size, address = storage.nbytes(), storage.data_ptr()
    found: list[Any] = [storage.resizable(), storage.is_shared(), address % 64]
    with torch.no_grad():  # as FSDP does
        storage.resize_(0)
        found.append([storage.nbytes(), storage.data_ptr()])
        storage.resize_(size)
        model.weight.copy_(saved)
    model(torch.randn(2, 64)).sum().backward()
    optimizer.step()
    boundary()
    model.weight.data = torch.ones(64, 64)
    with torch.no_grad():
        other = torch.zeros(2, 2)
        other.set_(model.bias)
        other.resize_(3, 50)
    view = model.weight.detach()[3:]
    found.append([view._is_view(), view.is_set_to(view), other.is_set_to(model.bias.detach())])
    found.append([torch.is_same_size(view, saved), view._version, model.weight._version])
    grown = torch.empty(0)
    torch.cat([saved, saved], out=grown)
    return found, model.weight, other.shape, grown, counts(view, other, model.weight)


@program
def copies_on_write() -> Any:
    base = torch.arange(64.0)
    lazy = base._lazy_clone()
    found = [torch._C._is_cow_tensor(base), torch._C._is_cow_tensor(lazy)]
    lazy += 1
    found += [torch._C._is_cow_tensor(base), torch._C._is_cow_tensor(lazy)]
    return found, base, lazy


@program
def copies_and_pickles() -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = step(model)
    copied, optimizer_copied = copy.deepcopy((model, optimizer))
    buffer = io.BytesIO()
    torch.save({"model": model, "optimizer": optimizer, "tensor": model[0].weight}, buffer)
    loaded = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    found = [sorted(vars(model)), sorted(vars(copied[0])), sorted(vars(optimizer_copied))]
    found.append(len(buffer.getvalue()))
    step(pickle.loads(pickle.dumps(model)))
    found.append([vars(model[0].weight), model[0].weight.__reduce_ex__(4)[0].__name__])
    step(copied)
    step(loaded["model"])
    return found, list(copied.parameters()), list(loaded["model"].parameters())


@program
def memory_of_others() -> Any:
    array = numpy.ones(50, dtype=numpy.float32)
    tensor = torch.from_numpy(array)
    tensor += 1
    module = nn.Linear(50, 1)
    module.weight = nn.Parameter(tensor.view(1, 50))
    module(torch.ones(2, 50)).sum().backward()
    boundary()
    died: list[str] = []
    weakref.finalize(array, died.append, "array")
    lent = torch.from_dlpack(torch.arange(5.0))
    viewed = torch.frombuffer(bytearray(b"12345678"), dtype=torch.uint8)
    module.weight = nn.Parameter(torch.ones(1, 50))
    before = list(died)
    del array, tensor
    gc.collect()
    back = torch.ones(3)
    back.numpy()[1] = 7
    return before, died, lent, viewed, back, module.weight


@program
def deaths_in_order() -> Any:
    died: list[str] = []

    def named(name: str, value: Any) -> Any:
        weakref.finalize(value, died.append, name)
        return value

    model = named("model", nn.Linear(4, 4))
    optimizer = named("optimizer", step(model))
    weight = named("weight", model.weight)
    boundary()
    del model
    died.append("- model")
    del weight
    died.append("- weight")
    del optimizer
    died.append("- optimizer")
    gc.collect()
    return died, len(gc.garbage)


@program
def deterministic_mode() -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        filled = torch.empty(5), torch.empty(4, dtype=torch.int64), torch.ones(2).resize_(6)[2:]
        model = nn.Linear(4, 4)
        step(model)
        return filled, model.weight, torch.utils.deterministic.fill_uninitialized_memory
    finally:
        torch.use_deterministic_algorithms(False)


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@program
def modes_of_the_program() -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    functions, operators = Functions(), Operators()
    with functions:
        step(model)
    with operators:
        step(model)
    with Functions() as outer, Operators() as inner, Functions() as innermost:
        step(model)
    return functions.seen, operators.seen, outer.seen, inner.seen, innermost.seen


class Logged(torch.Tensor):
    """A subclass that intercepts each function."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapped(torch.Tensor):
    """A subclass that intercepts each operator and computes its sizes."""

    seen: ClassVar[list[str]] = []
    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        policy = {"dispatch_sizes_strides_policy": "sizes"}
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, **policy)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(func))
        inner = torch.utils._pytree.tree_map(lambda t: t.inner if isinstance(t, cls) else t, args)
        result = func(*inner, **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


@program
def subclasses() -> Any:
    for kind in (Logged, Wrapped):
        kind.seen.clear()
    model = nn.Linear(4, 4)
    x = torch.randn(3, 4).as_subclass(Logged)
    model(x).sum().backward()
    model.weight = nn.Parameter(torch.ones(4, 4).as_subclass(Logged))
    step(model)
    wrapped = Wrapped(torch.ones(3, 4))
    results = [model(x), (wrapped + 1) * 2]
    model.register_buffer("wrapped", wrapped)
    model.weight = nn.Parameter(Wrapped(torch.ones(4, 4)))
    step(model)
    step(model)
    kinds = [type(each).__name__ for each in results]
    return kinds, results[1].inner, Logged.seen, Wrapped.seen


@program
def trained_wrappers() -> Any:
    """Parameters, gradients, state and inputs that are wrappers, nested tensors or sparse."""
    Wrapped.seen.clear()
    model = nn.Module()
    model.weight = nn.Parameter(Wrapped(torch.ones(3, 4)))
    model.table = nn.Parameter(torch.ones(9, 4))
    model.register_buffer("mean", Wrapped(torch.zeros(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    counted = []
    for _ in range(3):
        rows = nn.functional.embedding(torch.tensor([1, 2, 1]), model.table, sparse=True)
        (model.weight * 2 + model.mean).sum().backward()
        rows.sum().backward()
        counted.append(counts(model.weight.inner, model.weight.grad.inner))
        counted.append(counts(model.table.grad._values()))
        optimizer.step()
        optimizer.zero_grad()
        boundary()
    swap_tensors(model.weight, other := nn.Parameter(Wrapped(torch.ones(2))))
    return counted, list(Wrapped.seen), model.weight.inner, other.inner, model.table


@program
def tensors_without_memory() -> Any:
    model = nn.Linear(4, 4, device="meta")
    found = [model(torch.empty(2, 4, device="meta")).shape, counts(model.weight)]
    model.to_empty(device="cpu")
    nn.init.ones_(model.weight)
    with FakeTensorMode() as mode:
        fake = nn.Linear(4, 4)
        y = fake(torch.randn(2, 4))
        y.sum().backward()
        found.append([str(fake.weight.grad), y.device.type, fake.weight.fake_mode is mode])
    return found, model.weight


@program
def tensors_of_other_kinds() -> Any:
    sparse = torch.eye(4).to_sparse().requires_grad_()
    torch.sparse.mm(sparse, torch.ones(4, 2)).sum().backward()
    rows = torch.eye(4).to_sparse_csr()
    embedding = nn.Embedding(9, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters())
    embedding(torch.tensor([1, 2, 1])).sum().backward()
    optimizer.step()
    boundary()
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    nested = torch.nested.nested_tensor(parts, requires_grad=True)
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    nested.unbind()[0].sum().backward()
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    complex_one = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    (complex_one.conj() * 2j).abs().sum().backward()
    found = [sparse.grad, rows.values(), embedding.weight, complex_one.grad]
    found += [(jagged * 2).values(), quantized.int_repr(), torch.ones(3).half(), nested.size(0)]
    return found, counts(sparse, embedding.weight)


@program
def inputs_stay_what_they_are() -> Any:
    model = nn.Linear(4, 4)
    x, held = torch.randn(3, 4), torch.randn(3, 4)
    before = counts(x, held)
    model(x)
    model({"x": x}["x"])
    refused = raised_by(lambda: model([x]))
    return before == counts(x, held), refused, x.grad_fn, vars(x), x._backward_hooks
