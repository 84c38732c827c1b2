"""The categories of the memory of DistributedDataParallel and FSDP."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.recording import sharded_program
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import plimsoll

ROOT = Path(__file__).resolve().parents[2]


def most_by_category(path):
    """The maximum live bytes of each category, after a backward has run."""
    live, most = Counter(), Counter()
    category_of = {}
    events = plimsoll.open(path).events.to_pydict()
    first_backward = events["phase"].index("backward")
    for row, action in enumerate(events["action"]):
        address, size = events["address"][row], events["size_bytes"][row]
        if action == "alloc":
            category_of[address] = events["category"][row]
            live[category_of[address]] += size
        elif action == "free" and address in category_of:
            live[category_of.pop(address)] -= size
        if row >= first_backward:
            most |= live
    return most


@pytest.fixture
def gloo():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("gloo")
@pytest.mark.parametrize("is_view", [False, True])
def test_buckets_of_ddp_are_communication_or_the_gradients_themselves(tmp_path, is_view):
    parameters = 4 * 256 * 256 * 4
    with plimsoll.record(tmp_path / "run.plim"):
        layers = [nn.Linear(256, 256, bias=False) for _ in range(4)]
        model = DistributedDataParallel(nn.Sequential(*layers), gradient_as_bucket_view=is_view)
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        for _ in range(3):
            model(torch.randn(8, 256)).square().sum().backward()
            optimizer.step()
    most = most_by_category(tmp_path / "run.plim")
    assert most["gradient"] >= parameters
    if not is_view:
        assert parameters <= most["communication"] <= 3 * parameters + 1024
    assert most["optimizer_scratch"] >= 256 * 256 * 4
    assert most["other"] < 1024


@pytest.mark.usefixtures("gloo")
def test_gradients_that_fsdp_has_not_reduced_are_gradients(tmp_path):
    # The layers themselves are sharded: no module ends its call with gathered parameters.
    mesh = init_device_mesh("cpu", (1,))
    model = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(4)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    with plimsoll.record(tmp_path / "run.plim"):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(3):
            model(torch.randn(8, 256)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    most = most_by_category(tmp_path / "run.plim")
    assert most["activation_gradient"] < 256 * 256 * 4
    assert most["gradient"] >= 4 * 256 * 256 * 4


@pytest.mark.usefixtures("gloo")
def test_modules_that_are_sharded_during_the_recording_have_layers_from_the_second_step(tmp_path):
    mesh = init_device_mesh("cpu", (1,))
    with plimsoll.record(tmp_path / "run.plim"):
        model = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(4)])
        for module in (*model, model):  # each gets a class of its own
            fully_shard(module, mesh=mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(3):
            model(torch.randn(8, 256)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    events = plimsoll.open(tmp_path / "run.plim").events.to_pydict()
    second = len(events["layer"]) // 2
    layers = {str(layer).partition(".")[2] for layer in events["layer"][second:]}
    assert {"0", "1", "2", "3"} <= layers
    made = [
        category
        for category, size in zip(
            events["category"][second:], events["size_bytes"][second:], strict=True
        )
        if size >= 256 * 256 * 4
    ]
    assert "gradient" in made
    assert "activation_gradient" not in made


def test_shards_and_gathered_parameters_of_fsdp_are_parameters(tmp_path):
    path = tmp_path / "run.plim"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.recording.sharded_program", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    most = most_by_category(path)
    block = 2 * 4 * sharded_program.WIDTH**2 * 4
    shards = sharded_program.BLOCKS * block / 2
    assert most["optimizer_state"] == pytest.approx(2 * shards, rel=0.01)
    assert most["gradient"] >= shards
    assert most["communication"] >= block / 2
    events = plimsoll.open(path).events.to_pydict()
    gathered = [
        row
        for row, action in enumerate(events["action"])
        if action == "alloc"
        and events["phase"][row] in ("forward", "backward")
        and events["category"][row] == "parameter"
    ]
    wholes = Counter(events["phase"][row] for row in gathered)
    # Each matrix is gathered once in forward and, except for the last block, once in backward. The
    # very first is gathered before a forward.
    assert wholes["forward"] >= 2 * (sharded_program.BLOCKS * sharded_program.STEPS - 1)
    assert wholes["backward"] >= 2 * (sharded_program.BLOCKS - 1) * sharded_program.STEPS
