"""The native attribution gives each event the operator, layer, line and phase that torch's observer
gives.

Differences of these kinds are allowed, in the context of an allocation:

- phase: an operator outside modules that builds a graph is `forward` from its first allocation on;
  the observer says so at its end, by set_phase.
- forward_op, layer and stack of CopySlices nodes (in-place writes into views): the observer finds
  no forward operator, the native attribution does.
- inner_op of a number in an autograd.Function, which no operator makes: the observer names the
  function until it has called an operator; the native attribution until the end, but not in the
  kernel of a custom operator.
- stack of an operator in which Python code (a hook on saved tensors, the kernel of a custom
  operator) makes the first allocation: the observer's contains that code.
"""

import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from tests.recording import random_models
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from watching import BACKWARD, BUFFER, FORWARD, GRADIENT, INPUT, OTHER, PARAMETER, STATE, Recorder

COMPARED = ("kind", "size", "layer", "outer_op", "inner_op", "forward_op", "phase", "autograd")

WEIGHT = torch.linspace(0.1, 1, 5).requires_grad_()


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 + x * 0


class Shifted(Scaled):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + 2


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(x)


def optimized(model, data, loss_of, optimizer=torch.optim.SGD, **options):
    stepping = optimizer(model.parameters(), lr=0.01, **options)

    def step():
        stepping.zero_grad()
        loss = loss_of(model, data)
        loss.backward()
        stepping.step()
        return loss.item()

    return step


def squared(model, x):
    return model(x).square().mean()


def mlp():
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    return optimized(net, torch.randn(2, 8), squared, torch.optim.Adam)


def classifier():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    target = torch.tensor([0, 3])
    return optimized(
        net,
        torch.randn(2, 8),
        lambda model, x: nn.functional.cross_entropy(model(x), target),
        torch.optim.AdamW,
        foreach=True,
    )


def transformer():
    return optimized(Block(8), torch.randn(2, 4, 8), squared, momentum=0.9)


def autocast():
    def loss_of(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float().square().mean()

    return optimized(Block(8), torch.randn(2, 4, 8), loss_of)


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(), nn.Flatten()
    )
    return optimized(net, torch.randn(2, 1, 6, 6), squared, torch.optim.Adam)


def checkpointed(use_reentrant):
    def loss_of(both, x):
        return checkpoint(both[1], both[0](x), use_reentrant=use_reentrant).square().mean()

    return lambda: optimized(
        nn.ModuleList([nn.Linear(8, 8), Block(8)]), torch.randn(2, 4, 8), loss_of
    )


def recurrent():
    net = nn.LSTM(4, 6, num_layers=2, bidirectional=True)
    return optimized(net, torch.randn(5, 2, 4), lambda model, x: model(x)[0].square().mean())


def views():
    weight = torch.randn(4, 4, requires_grad=True)

    def step():
        weight.grad = None
        x = torch.zeros(4, 4)
        for i in range(3):
            x = x + weight.select(0, i).expand(4, 4)[:, 1:].sum()
        y = torch.einsum("ij,kj->ik", x, weight)
        torch.ops.aten.linear(y, weight).relu_().sum().backward()
        return float(weight.grad.sum())

    return step


def functions():
    net = nn.Linear(4, 4)
    return optimized(net, torch.randn(2, 4), lambda model, x: Scaled.apply(model(x)).sum())


def functions_in_turn():
    def step():
        x = torch.ones(100, requires_grad=True)
        for function in (Scaled, Shifted, Scaled):
            Shifted.apply(function.apply(x)).sum().backward()
        return x.grad.sum().item()

    return step


def loaded():
    net = nn.Linear(32, 4)

    def step():
        total, kept = 0.0, []
        for x in DataLoader([torch.ones(32) for _ in range(6)], batch_size=2, num_workers=1):
            kept.append(torch.exp(x))
            loss = net(kept[-1]).sum()
            loss.backward()
            total += loss.item()
        return total + (torch.ones(100) + 1).sum().item()

    return step


def without_optimizer():
    net = nn.Linear(4, 4)
    x = torch.randn(2, 4)

    def step():
        loss = net(x).square().sum()
        loss.backward()
        with torch.no_grad():
            for each in net.parameters():
                each.sub_(0.01 * each.grad)
                each.grad = None
        return loss.item()

    return step


def pack(tensor):
    return tensor.clone()


def unpack(tensor):
    return tensor * 1


def offloaded():
    def loss_of(model, x):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return model(x).square().mean()

    return optimized(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(2, 4), loss_of)


def hooked():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    net[0].weight.register_hook(lambda gradient: gradient * 2)
    net[0].register_full_backward_hook(lambda module, before, after: (before[0] * 1,))
    return optimized(net, torch.randn(2, 4, requires_grad=True), squared)


def double_backward():
    net = nn.Linear(4, 1)

    def loss_of(model, x):
        (gradient,) = torch.autograd.grad(model(x).tanh().sum(), x, create_graph=True)
        return gradient.square().sum()

    return optimized(net, torch.randn(2, 4, requires_grad=True), loss_of)


def handles_in_turn():
    """One call calls each, and nothing frees memory between two calls."""
    made = []

    def step():
        made.clear()
        for operator in (torch.ops.aten.sin.default, torch.ops.aten.cumsum, torch.ops.aten.cosh):
            made.append(
                operator(WEIGHT) if operator is not torch.ops.aten.cumsum else operator(WEIGHT, 0)
            )
        made.extend([operator(WEIGHT) for operator in (torch.ops.aten.exp, torch.ops.aten.sinh)])
        return sum(tensor.sum().item() for tensor in made)

    return step


def resized():
    buffer = torch.empty(1)

    def step():
        for size in (1000, 3000, 2000, 5000):
            buffer.resize_(size)
        buffer.zero_()
        return buffer.sum().item()

    return step


def same_call_in_other_modes():
    data = torch.ones(5)

    def step():
        made = []
        for is_enabled in (True, False, True):
            torch.set_grad_enabled(is_enabled)
            made += [function(WEIGHT, data) for function in (torch.mul, torch.dot)]
        return made[-1].item()

    return step


@torch.library.custom_op("plimsoll_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() * 0 + x).clone() * 2


doubled.register_autograd(lambda ctx, gradient: gradient * 2)


def custom_operator():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    return optimized(net, torch.randn(2, 4), lambda model, x: doubled(model(x)).square().mean())


class Inner(torch.autograd.Function):
    """Runs a backward inside its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.detach() * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            copy = x.detach().requires_grad_()
            (copy.exp().sum() * 2).backward()
        return gradient * copy.grad


def backward_in_a_node():
    net = nn.Linear(4, 4)
    return optimized(net, torch.randn(2, 4), lambda model, x: Inner.apply(model(x)).sum())


def transformed():
    data = torch.randn(3, 4)

    def step():
        def net(x):
            return (x.sin() * x.exp()).sum()

        found = torch.func.vmap(torch.func.grad(net))(data)
        return torch.func.jacrev(lambda x: x.tanh())(found[0]).sum().item()

    return step


def accumulated():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    stepping = torch.optim.Adam(net.parameters(), foreach=False)

    def step():
        for size in (2, 3, 5):
            loss = net(torch.randn(size, 4)).abs().mean()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        stepping.step()
        stepping.zero_grad(set_to_none=False)
        return loss.item()

    return step


MODELS = {
    "mlp": mlp,
    "classifier": classifier,
    "transformer": transformer,
    "autocast": autocast,
    "convolutions": convolutions,
    "checkpointed": checkpointed(False),
    "reentrant": checkpointed(True),
    "recurrent": recurrent,
    "views": views,
    "functions": functions,
    "functions_in_turn": functions_in_turn,
    "loaded": loaded,
    "without_optimizer": without_optimizer,
    "offloaded": offloaded,
    "hooked": hooked,
    "double_backward": double_backward,
    "handles_in_turn": handles_in_turn,
    "resized": resized,
    "same_call_in_other_modes": same_call_in_other_modes,
    "custom_operator": custom_operator,
    "backward_in_a_node": backward_in_a_node,
    "transformed": transformed,
    "accumulated": accumulated,
}


def run(model):
    """Losses, and the states of the random generators afterwards."""
    random.seed(0)
    torch.manual_seed(0)
    step = model()
    losses = [step() for _ in range(3)]
    return losses, random.random(), torch.rand(4).tolist()


def recorded(library, model, attribution):
    recorder = Recorder(library).attach(attribution=attribution)
    recorder.take()
    try:
        result = run(model)
        events = recorder.take()
        for event in events:
            frames = itertools.takewhile(lambda each: each[2] != "run", recorder.stack(event))
            event["stack"] = [each for each in frames if each[0] == __file__]
    finally:
        recorder.detach()
    return result, events


def without_inner_code(stack):
    return [frame for frame in stack if frame[2] not in ("pack", "doubled")]


def differences(observed, native):
    """The differences that no kind in this file's docstring explains."""
    found = []
    for before, after in zip(observed, native, strict=True):
        keys = {key for key in (*COMPARED, "stack") if before.get(key) != after.get(key)}
        if before["phase"] == OTHER and after["phase"] == FORWARD:
            keys.discard("phase")
        if before["outer_op"] == "torch::autograd::CopySlices" and before["forward_op"] == "":
            keys -= {"forward_op", "layer", "stack"}
        is_number = before["phase"] != BACKWARD and before["size"] <= 16
        if is_number and "::" not in before["inner_op"]:
            keys.discard("inner_op")
        if without_inner_code(before["stack"]) == without_inner_code(after["stack"]):
            keys.discard("stack")
        if keys:
            found.append({key: (before.get(key), after.get(key)) for key in sorted(keys)})
    return found


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads would allocate in any order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", MODELS)
def test_both_attributions_agree(library, name):
    compare(library, MODELS[name])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(plan=random_models.plans)
def test_both_attributions_agree_about_random_models(library, plan):
    def model():
        steps = random_models.run(plan)
        return lambda: next(steps, None) is None

    compare(library, model)


def compare(library, model):
    plain = run(model)
    observed_result, observed = recorded(library, model, "observer")
    native_result, native = recorded(library, model, "native")
    assert observed_result == native_result == plain

    def of(events, kind):
        return [event for event in events if event["kind"] == kind]

    assert differences(of(observed, "alloc"), of(native, "alloc")) == []
    assert temporaries(observed) == temporaries(native)
    assert roles(observed) == roles(native)


def temporaries(events):
    """By allocation, whether it is freed by the operator call that made it."""
    made, found = {}, []
    for event in events:
        if event["kind"] == "alloc":
            made[event["address"]] = len(found), event["instance"]
            found.append(False)
        elif event["kind"] == "free" and event["address"] in made:
            at, instance = made.pop(event["address"])
            found[at] = instance != 0 and instance == event["instance"]
    return found


def roles(events):
    """By allocation, the roles and names of the tensors that it belongs to. Searches of the heap,
    which find other roles, run by the clock."""
    made, found = {}, []
    for event in events:
        if event["kind"] == "alloc":
            made[event["address"]] = len(found)
            found.append(set())
        elif event["kind"] == "tag" and event["address"] in made:
            tensor = event["tensor"]
            if tensor and tensor["role"] in (PARAMETER, GRADIENT, STATE, BUFFER, INPUT):
                found[made[event["address"]]].add((tensor["role"], tensor["name"]))
    return found


def test_in_a_notebook_operators_are_observed(library):
    recorder = Recorder(library).attach(attribution="observer")
    problem = recorder._attachment.module.native_problem(library.counting_recorder(), {})
    recorder.detach()
    assert problem == "the lines of a notebook's cells need Python"


UNLOADED = """
import _ctypes, ctypes, sys, torch, plimsoll
library = ctypes.CDLL(sys.argv[1])
with plimsoll.record(sys.argv[2], attribution="native"):
    library.next_number()
    _ctypes.dlclose(library._handle)
    torch.ones(5, requires_grad=True).exp().sum().backward()
with open("/proc/self/maps") as maps:
    print(sys.argv[1] in maps.read())
"""


def test_a_library_that_is_unloaded_meanwhile_stays_until_the_end(tmp_path):
    source, library = tmp_path / "numbers.c", tmp_path / "libnumbers.so"
    source.write_text(
        'unsigned long next(void) __asm__("_ZN2at15sequence_number17get_and_incrementEv");\n'
        "unsigned long next_number(void) { return next(); }\n"
    )
    folder = str(Path(torch.__file__).parent / "lib")
    words = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), f"-L{folder}"]
    subprocess.run([*words, "-ltorch_cpu", f"-Wl,-rpath,{folder}"], check=True)
    words = [sys.executable, "-c", UNLOADED, str(library), str(tmp_path / "run.plim")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
