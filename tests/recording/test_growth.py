"""Growth in real training runs on the CPU, and patterns that only look like it."""

import gc
from collections import deque

import pytest
import torch
from torch import nn

import plimsoll

MIB = 1 << 20


@pytest.fixture(autouse=True)
def collected():
    """Free the training runs, whose reference cycles other tests would record."""
    yield
    gc.collect()


class Training:
    """A small training; `each_step` receives the step, its batch and the model's output."""

    def __init__(self, each_step, length=lambda step: 64):
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.each_step = each_step
        self.length = length

    def run(self, steps):
        for step in range(steps):
            batch = torch.rand(self.length(step), 64)
            output = self.model(batch)
            self.optimizer.zero_grad()
            output.square().mean().backward()
            self.optimizer.step()
            self.each_step(step, batch, output)
            plimsoll.step()


def growth(tmp_path, training, steps):
    path = tmp_path / "run.plim"
    with plimsoll.record(path):
        training.run(steps)
    found = [f for f in plimsoll.open(path).findings if f["id"] == "memory_growth"]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("steps", [8, 12, 30])
def test_a_list_of_tensors_grows_by_its_content(tmp_path, steps):
    kept = []
    training = Training(lambda step, batch, output: kept.append(torch.ones(MIB // 4)))
    found = growth(tmp_path, training, steps)
    assert found["severity"] == "critical"
    assert "grows by 1.0 MiB a step" in found["title"]
    assert found["saving_bytes"] == steps * MIB
    assert "test_growth.py" in found["next_step"]
    assert ".cpu()" not in found["next_step"]


def test_a_leak_among_larger_tensors_of_varying_size_is_found(tmp_path):
    kept, sizes = [], [9, 3, 14, 6, 11, 2, 8]

    def hold(size_mib):
        return torch.ones(size_mib * MIB // 4)

    def each_step(step, batch, output):
        kept.append(hold(1))
        training.current = hold(sizes[step % 7])

    training = Training(each_step)
    found = growth(tmp_path, training, 28)
    assert found is not None
    assert "grows by 1.0 MiB a step" in found["title"]
    assert found["saving_bytes"] == 28 * MIB


def longer(step):
    return 64 + 512 * step


def test_inputs_that_get_longer_do_not_grow(tmp_path):
    training = Training(lambda step, batch, output: setattr(training, "last", output), longer)
    assert growth(tmp_path, training, 20) is None


def test_a_second_model_in_the_middle_does_not_grow(tmp_path):
    def each_step(step, batch, output):
        if step == 12:
            training.second = Training(lambda *_: None)
        if step >= 12:
            training.second.model(batch).sum().backward()
            training.second.optimizer.step()

    training = Training(each_step)
    assert growth(tmp_path, training, 24) is None


def test_a_buffer_that_is_full_does_not_grow(tmp_path):
    buffer = deque(maxlen=5)
    training = Training(lambda step, batch, output: buffer.append(torch.ones(MIB // 4)))
    assert growth(tmp_path, training, 40) is None


def test_a_queue_that_was_filled_before_does_not_grow(tmp_path):
    queue = deque()

    def load():
        return torch.ones(MIB // 4)

    def each_step(step, batch, output):
        if step == 0:
            queue.extend(load() for _ in range(30))
        queue.append(load())
        queue.popleft()

    training = Training(each_step)
    assert growth(tmp_path, training, 20) is None
