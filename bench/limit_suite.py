"""The tests that bench/limits.py runs with Plimsoll, with pytest-memray and with both.

The name of a test ends with its correct result: `_passes` or `_fails`. The environment variable
MEMRAY is the leak limit for pytest-memray. Plimsoll ignores markers with `current_thread_only`.
"""

import functools
import os

import pytest
import torch
from torch import nn

import plimsoll

LEAKS = os.environ.get("MEMRAY", "0 B")
MIB = 1 << 20

memory = pytest.mark.limit_memory
kept: list = []


def leaks(**options):
    def marked(test):
        of_memray = pytest.mark.limit_leaks(LEAKS, current_thread_only=False)
        return of_memray(pytest.mark.plimsoll_limit_leaks("0 B", **options)(test))

    return marked


def mlp() -> nn.Module:
    layers = [nn.Linear(512, 512), nn.ReLU()] * 4
    return nn.Sequential(*layers, nn.Linear(512, 10))


def train(model: nn.Module, steps: int, keep=None) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(torch.ones(64, 512)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if keep is not None:
            keep.append(loss)


@functools.cache
def table() -> torch.Tensor:
    return torch.zeros(MIB)


@memory("24 MB")
def test_three_buffers_of_8_mb_within_24_mb_passes():
    buffers = [torch.zeros(8 * MIB // 4) for _ in range(3)]
    assert buffers


@memory("25165820 B")
def test_three_buffers_of_8_mb_4_bytes_over_the_limit_fails():
    buffers = [torch.zeros(8 * MIB // 4) for _ in range(3)]
    assert buffers


@memory("12 MB")
def test_buffers_one_after_the_other_passes():
    for _ in range(20):
        torch.zeros(8 * MIB // 4)


@memory("12 MB")
def test_two_buffers_simultaneously_fails():
    first = torch.zeros(8 * MIB // 4)
    second = first + 1
    assert second.numel()


@memory("32 MB")
def test_training_within_32_mb_passes():
    train(mlp(), steps=8)


@memory("4 MB")
def test_training_over_4_mb_fails():
    train(mlp(), steps=8)


@leaks()
def test_training_that_keeps_nothing_passes():
    train(mlp(), steps=8)


@leaks()
def test_losses_kept_as_numbers_passes():
    losses: list = []
    train(mlp(), steps=8, keep=losses)
    kept.append([loss.item() for loss in losses])


@leaks()
def test_losses_kept_with_their_graphs_fails():
    train(mlp(), steps=8, keep=kept)


@leaks()
def test_one_small_tensor_kept_fails():
    kept.append(torch.zeros(16))


@leaks()
def test_cycle_that_python_collects_passes():
    cycle = [torch.zeros(MIB)]
    cycle.append(cycle)


@leaks(warmup=1)
def test_table_that_is_made_once_passes():
    table()


@pytest.mark.limit_growth("0 B")
def test_history_that_grows_with_each_step_fails():
    for _ in range(16):
        kept.append(torch.zeros(256))
        plimsoll.step()


@pytest.mark.limit_growth("0 B")
def test_history_of_the_last_step_passes():
    for _ in range(16):
        kept[:] = [torch.zeros(256)]
        plimsoll.step()
