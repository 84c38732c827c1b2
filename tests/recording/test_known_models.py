"""Models whose memory is computed by hand, layer by layer. The trace must have the same bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import plimsoll

F = 4  # bytes of a float32
N = 8  # samples in a batch


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(100, 300)
        self.act = nn.ReLU()
        self.narrow = nn.Linear(300, 10)

    def forward(self, x):
        return self.narrow(self.act(self.wide(x)))


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(16 * 16, 10)

    def forward(self, x):
        return self.head(self.pool(self.act(self.norm(self.conv(x)))).flatten(1))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, 1000, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.embed(tokens)))


class Checkpointed(nn.Module):
    """The memory of the block is freed after forward; only its output stays, for the head."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(100, 500), nn.Tanh(), nn.Linear(500, 100))
        self.head = nn.Linear(100, 10)

    def forward(self, x):
        return self.head(checkpoint(self.block, x, use_reentrant=False))


@dataclass(frozen=True)
class Known:
    model: type[nn.Module]
    inputs: object  # a function that creates the model and its batch
    parameters: dict[str, int]  # elements, by layer
    saved: dict[str, int]  # bytes live when backward begins, by the allocating layer
    buffers: int = 0  # bytes


TABLE = [
    Known(
        Mlp,
        lambda: torch.randn(N, 100),
        {"wide": 100 * 300 + 300, "narrow": 300 * 10 + 10},
        # The output of `wide` has been freed: ReLU keeps its own output, which `narrow` also needs.
        # Nothing keeps the output of `narrow`: the backward of a sum needs only its shape.
        {"act": N * 300 * F},
    ),
    Known(
        Conv,
        lambda: torch.randn(N, 3, 8, 8),
        {"conv": 3 * 16 * 9 + 16, "norm": 16 + 16, "head": 16 * 16 * 10 + 10},
        # `norm` keeps its input, the output of `conv`, and the mean and the inverse deviation of
        # its 16 channels. The activation works in place, on the output of `norm`. `pool` keeps its
        # input, which is the same tensor, and the index (8 bytes) of each maximum; `head` keeps the
        # pooled values.
        {
            "conv": N * 16 * 64 * F,
            "norm": N * 16 * 64 * F + 2 * 16 * F,
            "pool": N * 16 * 16 * (F + 8),
        },
        buffers=2 * 16 * F + 8,
    ),
    Known(
        Tokens,
        lambda: torch.randint(1000, (N, 32)),
        {"embed": 1000 * 64, "norm": 64 + 64, "head": 64 * 1000},
        # LayerNorm keeps its input and, for each row, the mean and the inverse deviation; `head`
        # keeps the output of LayerNorm.
        {"embed": N * 32 * 64 * F, "norm": N * 32 * 64 * F + 2 * N * 32 * F},
    ),
    Known(
        Checkpointed,
        lambda: torch.randn(N, 100),
        {"block.0": 100 * 500 + 500, "block.2": 500 * 100 + 100, "head": 100 * 10 + 10},
        # For its second forward, checkpoint keeps the state of the random generator: 5,056 bytes.
        {"block.2": N * 100 * F, "": 5056},
    ),
]


def live_at(trace, mark):
    """The events that allocated the memory live at a mark."""
    events = pa.table(trace.events).to_pylist()
    for lifetime in pa.table(trace.lifetimes).to_pylist():
        died = lifetime["free_completed_event"]
        if lifetime["alloc_event"] < mark["event"] and (died is None or died >= mark["event"]):
            yield events[lifetime["alloc_event"]]


@pytest.fixture(scope="module", params=TABLE, ids=lambda known: known.model.__name__)
def run(request, tmp_path_factory):
    known = request.param
    path = tmp_path_factory.mktemp("known") / f"{known.model.__name__}.plim"
    torch.manual_seed(0)
    with plimsoll.record(path):
        model = known.model()
        optimizer = torch.optim.Adam(model.parameters())
        inputs = known.inputs()
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(inputs).sum()
            loss.backward()
            del loss
            optimizer.step()
    return known, plimsoll.open(path)


def marks(trace, kind):
    return [m for m in pa.table(trace.marks).to_pylist() if m["kind"] == kind]


def test_parameters_gradients_and_adam_state_of_each_layer(run):
    known, trace = run
    steps = marks(trace, "step")
    assert len(steps) == 3
    for step in steps:
        found = Counter()
        for event in live_at(trace, step):
            if event["category"] in ("parameter", "gradient", "optimizer_state"):
                layer = ".".join(event["tensor"].split(".")[1:])  # without the root's name
                layer = layer[: layer.index((".weight", ".bias")[".bias" in layer])]
                found[layer, event["category"]] += event["size_bytes"]
        for layer, elements in known.parameters.items():
            tensors = 1 if (known.model, layer) in [(Tokens, "embed"), (Tokens, "head")] else 2
            assert found.pop((layer, "parameter")) == elements * F
            assert found.pop((layer, "gradient")) == elements * F
            # Two moments as large as the parameter, and a step counter of one element.
            assert found.pop((layer, "optimizer_state")) == 2 * elements * F + tensors * F
        assert not found
        assert known.buffers == sum(
            e["size_bytes"] for e in live_at(trace, step) if e["category"] == "buffer"
        )


def test_memory_saved_for_backward_by_each_layer(run):
    known, trace = run
    for begin in marks(trace, "backward_begin"):
        saved = Counter()
        for event in live_at(trace, begin):
            if event["category"] == "activation":
                assert event["is_saved_for_backward"]
                saved[event["layer"]] += event["size_bytes"]
        root = known.model.__name__
        assert saved.pop(None, 0) == F  # the loss
        assert saved == {f"{root}.{layer}".rstrip("."): size for layer, size in known.saved.items()}


def test_backward_knows_the_layer_of_forward(run):
    known, trace = run
    events = pa.table(trace.events).to_pylist()
    made = [e for e in events if e["action"] == "alloc" and e["phase"] == "backward"]
    assert made
    root = known.model.__name__
    for event in made:
        assert event["layer"] is None or event["layer"].startswith(root), event
    layers = {e["layer"] for e in made}
    for layer in known.parameters:
        assert f"{root}.{layer}" in layers


def test_every_live_tensor_has_a_category(run):
    _, trace = run
    for step in marks(trace, "step"):
        # Skip memory that an earlier test left in this process, as DeviceMesh does.
        new = [event for event in live_at(trace, step) if not event["is_adopted"]]
        assert not [event for event in new if event["category"] in (None, "unknown")]


def test_cross_entropy_outside_the_model_is_forward(tmp_path):
    model = nn.Linear(50, 200)
    with plimsoll.record(tmp_path / "loss.plim"):
        targets = torch.randint(200, (N,))
        functional.cross_entropy(model(torch.randn(N, 50)), targets).backward()
    trace = plimsoll.open(tmp_path / "loss.plim")
    (begin,) = marks(trace, "backward_begin")
    kept = [e for e in live_at(trace, begin) if e["category"] == "activation"]
    # log_softmax keeps its output; the loss and nll_loss's total weight are one element each.
    assert sorted(e["size_bytes"] for e in kept) == [F, F, N * 200 * F]
    assert {e["phase"] for e in kept} == {"forward"}
    assert {e["layer"] for e in kept} == {None}
