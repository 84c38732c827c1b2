"""Programs about modules, optimizers, and the compilers that inspect them."""

from __future__ import annotations

import gc
import io
from typing import Any, ClassVar

import torch
from tests.recording.sacred import boundary, counts, program, raised_by
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim.swa_utils import AveragedModel


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.register_buffer("scale", torch.ones(8))
        self.last = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)) * self.scale)


def step(model: nn.Module, optimizer: Any = None) -> torch.Tensor:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.randn(3, 4)).square().sum()
    loss.backward()
    optimizer.step()
    boundary()
    return loss


class Trainer:
    def __init__(self) -> None:
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.kept = [torch.ones(3)]


def has_dict(owner: object, attribute: str) -> bool:
    return any(isinstance(each, dict) and attribute in each for each in gc.get_referents(owner))


@program
def attributes_without_a_dict() -> Any:
    """Up to CPython 3.12, reading an object's dict makes its attributes slow forever."""
    trainer = Trainer()
    losses = [step(trainer.model, trainer.optimizer) for _ in range(3)]
    trainer.scheduler.step()
    owners = {
        "kept": trainer,
        "param_groups": trainer.optimizer,
        "last_epoch": trainer.scheduler,
        "training": trainer.model,
    }
    return losses, [has_dict(owner, attribute) for attribute, owner in owners.items()]


class Doubled(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * 2


@program
def parametrized_modules() -> Any:
    model = Net()
    parametrize.register_parametrization(model.first, "weight", Doubled())
    parametrizations.weight_norm(model.last)
    losses = [step(model), step(model)]
    parametrize.remove_parametrizations(model.first, "weight")
    parametrizations.spectral_norm(model.first)
    prune.l1_unstructured(model.first, "bias", 0.5)
    losses.append(step(model))
    names = [name for name, _ in model.named_parameters()]
    return losses, names, list(model.state_dict()), type(model.first).__name__


class Touchy(nn.Module):
    """Counts the calls of its methods."""

    asked: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return super().__getattr__(name)

    @property
    def secret(self) -> int:
        self.asked.append("secret")
        return 1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.asked.append("call")
        return super().__call__(*args, **kwargs)

    def __len__(self) -> int:
        self.asked.append("len")
        return 0

    def __eq__(self, other: object) -> bool:
        self.asked.append("eq")
        return self is other

    def __hash__(self) -> int:
        self.asked.append("hash")
        return id(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@program
def modules_that_listen() -> Any:
    Touchy.asked.clear()
    model = Touchy()
    step(model)
    step(model)
    return Touchy.asked


@program
def calls_that_the_program_replaces() -> Any:
    model, calls = Net(), []
    before = nn.Module.__call__

    def counted(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        calls.append(type(self).__name__)
        return before(self, *args, **kwargs)

    nn.Module.__call__ = counted
    try:
        step(model)
    finally:
        nn.Module.__call__ = before
    step(model)
    nn.Linear.__call__ = counted
    try:
        step(model)
    finally:
        del nn.Linear.__call__
    step(model)
    return calls, nn.Module.__call__ is before, "__call__" in vars(nn.Linear)


@program
def modules_of_all_sorts() -> Any:
    lazy = nn.LazyLinear(3)
    found: list[Any] = [str(lazy), lazy(torch.ones(2, 5)), str(lazy)]
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    with torch.no_grad():
        found.append(attention(*[torch.ones(1, 3, 8)] * 3))
    found.append(nn.LSTM(4, 5)(torch.randn(3, 1, 4)))
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    averaged = AveragedModel(tied)
    found.append([step(tied), averaged.update_parameters(tied), list(averaged.parameters())])
    model = Net()
    found.append([repr(model), list(vars(model)), list(vars(nn.Module)), nn.Module.__call__])
    found.append([hook for hook in vars(model) if "hook" in hook and getattr(model, hook)])
    found.append(raised_by(lambda: nn.Module()(1)))
    return found


@program
def optimizers_of_all_sorts() -> Any:
    found: list[Any] = []
    model = Net()
    searching = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        searching.zero_grad()
        loss = model(torch.ones(2, 4)).square().sum()
        loss.backward()
        return loss

    found.append([searching.step(closure), searching.step(closure)])
    adam = torch.optim.Adam([{"params": model.first.parameters(), "lr": 0.1}], amsgrad=True)
    adam.add_param_group({"params": list(model.last.parameters()), "name": "last"})
    scheduler = torch.optim.lr_scheduler.StepLR(adam, 1)
    scheduler.step()  # before the optimizer's step, so torch warns
    step(model, adam)
    scheduler.step()
    state = adam.state_dict()
    adam.load_state_dict(state)
    step(model, adam)
    found.append([scheduler.get_last_lr(), state, vars(adam).keys(), model.first.weight])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found.append(model(torch.ones(2, 4)))
    return found, counts(*model.parameters())


@program
def steps_are_counted_once() -> Any:
    model, calls = Net(), []

    class Own(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            calls.append("step")
            return super().step(closure)

    own = Own(model.parameters(), lr=0.1)
    step(model, own)
    hooks = [list(vars(own)[name]) for name in vars(own) if "hook" in name]
    return calls, hooks, own.step.__name__, hasattr(own.step, "__wrapped__")


@program
def scripted_and_traced_modules() -> Any:
    model = Net()
    scripted, traced = torch.jit.script(model), torch.jit.trace(model, torch.ones(2, 4))
    found: list[Any] = [str(scripted.graph), scripted.code, str(traced.graph), traced.code]
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    loaded = torch.jit.load(io.BytesIO(buffer.getvalue()))
    for each in (scripted, traced, loaded):
        found.append([step(each), step(each), each(torch.ones(2, 4))])
    graph = torch.fx.symbolic_trace(model)
    return found, graph.code, step(graph), step(model)


@program
def exported_programs() -> Any:
    model = Net()
    rows = torch.export.Dim("rows", min=2)
    shapes = {"x": {0: rows}}
    exported = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes=shapes)
    found = [str(exported.graph), str(exported.graph_signature), str(exported.range_constraints)]
    boundary()
    return found, exported.module()(torch.ones(7, 4)), step(model)


@program
def compiled_models() -> Any:
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    graphs: list[list[str]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append([node.name for node in graph.graph.nodes if "call" in node.op])
        return graph.forward

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    traced = torch.compile(model, backend="aot_eager", fullgraph=True)
    losses = []
    calls = [(compiled, 3), (compiled, 3), (compiled, 5), (traced, 5), (compiled, 7)]
    for each, rows in calls:
        optimizer.zero_grad()
        loss = each(torch.ones(rows, 4)).square().sum()
        loss.backward()
        optimizer.step()
        boundary()
        losses.append(loss)
    reported = [
        dict(counters[name]) for name in ("frames", "stats", "graph_break", "unimplemented")
    ]
    return losses, reported, graphs


@program
def compiled_functions_with_breaks() -> Any:
    torch._dynamo.reset()
    log: list[int] = []

    @torch.compile(backend="eager")
    def broken(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x.sin() + n
        print(end="")
        log.append(n)
        return y.cos()

    found = [broken(torch.ones(3), 1), broken(torch.ones(4), 2), broken(torch.ones(5), 3)]
    return found, log, dict(torch._dynamo.utils.counters["frames"])
