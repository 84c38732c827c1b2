"""Programs about losses, gradients, hooks and errors."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from typing import Any

import torch
from tests.recording.sacred import boundary, counts, program, raised_by
from torch import nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))


# As in a program that starts its recording after other work.
torch.manual_seed(0)
EARLY = net()
EARLY_OPTIMIZER = torch.optim.Adam(EARLY.parameters())
EARLY_DATA = torch.randn(5, 6)


def train(model: nn.Module, optimizer: Any, steps: int = 3) -> list[Any]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 6)).square().mean()
        loss.backward()
        optimizer.step()
        boundary()
        losses.append(loss)
    gradients = [p.grad for p in model.parameters()]
    state = [list(each.values()) for each in optimizer.state.values()]
    return [losses, list(model.parameters()), gradients, state]


@program
def adam() -> Any:
    model = net()
    return train(model, torch.optim.Adam(model.parameters()))


@program
def fused_adamw_and_foreach_sgd() -> Any:
    one, two = net(), net()
    fused = torch.optim.AdamW(one.parameters(), fused=True)
    foreach = torch.optim.SGD(two.parameters(), lr=0.1, momentum=0.9, foreach=True)
    return train(one, fused), train(two, foreach)


@program
def objects_from_before_the_recording() -> Any:
    result = train(EARLY, EARLY_OPTIMIZER, steps=2)
    return result, counts(*EARLY.parameters()), EARLY_DATA.sum(), counts(EARLY_DATA)


@program
def counts_after_each_step() -> Any:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    found = []
    for _ in range(3):
        train(model, optimizer, steps=1)
        found.append(counts(*model.parameters()))
        found.append([sys.getrefcount(model), sys.getrefcount(optimizer)])
        found.append([sys.getrefcount(each) for each in model])
        found.append(counts(*[p.grad for p in model.parameters()]))
        found.append([counts(*s.values()) for s in optimizer.state.values()])
    return found


@program
def a_gradient_is_taken_over_where_it_can_be() -> Any:
    x = torch.zeros(3, requires_grad=True)
    given = torch.ones(3)
    address = given.data_ptr()
    (x * 1.0).backward(given)
    y = torch.zeros(3, requires_grad=True)
    y.backward(given)
    kept = given.data_ptr() == address
    del given
    z = torch.zeros(3, requires_grad=True)
    z.backward(torch.ones(3))
    return x.grad, y.grad, kept, y.grad.data_ptr() == address, counts(x.grad, y.grad, z.grad)


@program
def hooks_in_order() -> Any:
    model, log = net(), []
    for number, each in enumerate(model):
        each.register_forward_pre_hook(lambda m, a, n=number: log.append(f"pre {n}"))
        each.register_forward_hook(lambda m, a, o, n=number: log.append(f"forward {n}"))
        each.register_full_backward_pre_hook(lambda m, g, n=number: log.append(f"back {n}"))
        each.register_full_backward_hook(lambda m, i, o, n=number: log.append(f"backward {n}"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: log.append("step"))
    optimizer.register_step_post_hook(lambda *_: log.append("stepped"))
    for number, p in enumerate(model.parameters()):
        p.register_hook(lambda g, n=number: log.append(f"gradient {n}"))
        p.register_post_accumulate_grad_hook(lambda p, n=number: log.append(f"accumulated {n}"))
    loss = model(torch.randn(2, 6)).sum()
    loss.grad_fn.register_prehook(lambda g: log.append("node"))
    loss.grad_fn.register_hook(lambda i, o: log.append("after node"))
    torch.autograd.graph.register_multi_grad_hook(
        list(model.parameters()), lambda g: log.append("all")
    )
    loss.backward()
    optimizer.step()
    boundary()
    return log


@program
def saved_tensors_hooks() -> Any:
    packed, unpacked = [], []

    def pack(tensor: torch.Tensor) -> Any:
        packed.append([list(tensor.shape), tensor._version, tensor.is_leaf])
        return tensor

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        unpacked.append(list(tensor.shape))
        return tensor

    model = net()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        model(torch.randn(2, 6)).sum().backward()
    with torch.autograd.graph.save_on_cpu():
        model(torch.randn(2, 6)).sum().backward()
    with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
        model(torch.randn(2, 6)).sum().backward()
    return packed, unpacked


@program
def the_graph_itself() -> Any:
    model = net()
    loss = model(torch.randn(2, 6)).sum()
    names, nodes = [], [loss.grad_fn]
    while nodes:
        node = nodes.pop()
        names.append([node.name(), sorted(node.metadata), len(node.next_functions)])
        nodes += [each for each, _ in node.next_functions if each is not None]
    loss.backward()
    again = raised_by(loss.backward)
    edge = torch.autograd.graph.get_gradient_edge(model[0].weight)
    return names, again, edge.node.name(), edge.node.next_functions


@program
def anomalies() -> Any:
    def broken() -> None:
        with torch.autograd.detect_anomaly(check_nan=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = torch.zeros(3, requires_grad=True)
            (x.sqrt() * 0).sum().backward()

    return raised_by(broken)


class SourError(RuntimeError):
    """An exception class of the program."""


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, error: Any) -> torch.Tensor:
        ctx.error = error
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        if ctx.error is not None:
            raise ctx.error
        return g * 2 + ctx.saved_tensors[0], None


class Sore(torch.optim.SGD):
    error: Any = None

    def step(self, closure: Any = None) -> Any:
        if self.error is not None:
            raise self.error
        return super().step(closure)


@program
def exceptions_and_interrupts() -> Any:
    found: list[Any] = []
    for error in (SourError("sour"), KeyboardInterrupt("now"), SystemExit(3), MemoryError("full")):
        model = net()
        optimizer = Sore(model.parameters(), lr=0.1)
        hook = model[1].register_forward_hook(lambda *_, e=error: (_ for _ in ()).throw(e))
        found.append(raised_by(lambda m=model: m(torch.randn(2, 6))))
        hook.remove()
        x = model(torch.randn(2, 6)).requires_grad_()
        failing = Failing.apply(x, error)
        found.append(raised_by(lambda f=failing: f.sum().backward()))
        optimizer.error = error
        found.append(raised_by(optimizer.step))
        optimizer.error = None
        found.append(train(model, optimizer, steps=2))
        assert error.__context__ is None
        found.append([torch.is_grad_enabled(), torch._C._current_graph_task_id()])
    return found


@program
def errors_of_torch() -> Any:
    x = torch.ones(3, requires_grad=True)

    def changed_in_place() -> None:
        y = x.exp()
        y.add_(1)
        y.sum().backward()

    return [
        raised_by(changed_in_place),
        raised_by(lambda: x.add_(1)),
        raised_by(lambda: torch.ones(2) @ torch.ones(3)),
        raised_by(lambda: torch.ones(2).backward()),
        raised_by(lambda: torch.empty(1 << 60)),
        raised_by(lambda: torch.nn.Linear(2, 2)(torch.ones(3))),
        raised_by(lambda: torch.ones(3).view(2)),
    ]


@program
def collections_in_backward() -> Any:
    model, found = net(), []

    class Ring:
        def __init__(self) -> None:
            self.me, self.data = self, torch.ones(100)

    def collect(gradient: torch.Tensor) -> None:
        ring = Ring()
        watch = weakref.ref(ring.data)
        del ring
        gc.collect()
        found.append(watch() is None)

    for p in model.parameters():
        p.register_hook(collect)
    return train(model, torch.optim.Adam(model.parameters()), steps=2), found


@program
def checkpoints() -> Any:
    found = []
    for reentrant in (False, True):
        model = net()
        x = torch.randn(4, 6, requires_grad=True)
        y = checkpoint(model, x, use_reentrant=reentrant)
        y.sum().backward()
        found.append([y, x.grad, [p.grad for p in model.parameters()]])
    return found


@program
def derivatives_of_higher_order() -> Any:
    x = torch.randn(4, requires_grad=True)
    (first,) = torch.autograd.grad(x.sin().square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    hessian = torch.autograd.functional.hessian(lambda v: v.sin().square().sum(), x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones(4))
        tangent = forward_ad.unpack_dual(dual.exp()).tangent
    return first, second, hessian, tangent


@program
def derivatives_that_depend_on_dispatch_modes() -> Any:
    """Under any dispatch mode, torch computes these derivatives by a different formula."""
    x = torch.randn(4, requires_grad=True)
    return torch.autograd.grad(x.sin().prod(), x)


@program
def functional_transforms() -> Any:
    model = net().eval()
    parameters = dict(model.named_parameters())
    x = torch.randn(5, 6)

    def loss(parameters: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (x,)).square().mean()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    jacobian = torch.func.jacrev(model)(x[0])
    output, tangent = torch.func.jvp(model, (x,), (torch.ones_like(x),))
    curvature = torch.func.hessian(lambda v: model(v).sum())(x[0])
    noise = torch.func.vmap(lambda v: torch.randn_like(v) + v, randomness="different")(x)
    boundary()
    return per_sample, jacobian, output, tangent, curvature, noise


@program
def modes_without_gradients() -> Any:
    model = net()
    with torch.inference_mode():
        y = model(torch.randn(2, 6))
        boundary()
        made = nn.Linear(3, 3)
        z = made(y)
    with torch.no_grad():
        w = model(torch.randn(2, 6))
    kinds = [y.is_inference(), made.weight.is_inference(), w.requires_grad]
    return y, z, w, kinds, raised_by(lambda: y.add_(1)), counts(y, made.weight)


@program
def threads() -> Any:
    models = [net() for _ in range(3)]
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        model = models[number].eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            model(torch.full((2, 6), float(step))).sum().backward()
            optimizer.step()
        results[number] = list(model.parameters())

    running = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return [results[n] for n in range(3)], [counts(*m.parameters()) for m in models]
