"""The recorder does not affect torch.compile, and records the memory of compiled models too."""

import gc

import torch
from tests.recording.boundaries import boundaries
from torch import nn

import plimsoll


def storage_bytes(tensors) -> int:
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def test_a_compiled_model_without_graph_breaks(tmp_path):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch._dynamo.reset()
    with plimsoll.record(tmp_path / "run.plim"):
        compiled = torch.compile(model, fullgraph=True)
        for _ in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
            gc.collect()
            plimsoll.step()
    last = boundaries(plimsoll.open(tmp_path / "run.plim"))[-1]
    parameters = list(model.parameters())
    assert last.categories["parameter"] == storage_bytes(parameters)
    assert last.categories["gradient"] == storage_bytes([p.grad for p in parameters])
    momentum = [s["momentum_buffer"] for s in optimizer.state.values()]
    assert last.categories["optimizer_state"] == storage_bytes(momentum)
    assert last.categories["none"] == 0
