"""`plimsoll.estimate` of models for which fake tensors or copies do not work."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import plimsoll


def test_sparse_gradients_are_counted() -> None:
    model = nn.Embedding(10_000, 64, sparse=True)
    tokens_of_batch = torch.randint(0, 10_000, (128, 40))
    estimate = plimsoll.estimate(model, tokens_of_batch, optimizer="SparseAdam")
    assert estimate.dry_run == "cpu"
    assert estimate.gradients_bytes == 128 * 40 * (64 * 4 + 8)  # values and indices
    with pytest.raises(NotImplementedError, match="sparse"):
        plimsoll.estimate(model, tokens_of_batch, dry_run="fake")


def test_a_model_that_cannot_be_copied_is_named_as_that() -> None:
    model = nn.Linear(8, 8)
    model.lock = threading.Lock()
    with pytest.raises(plimsoll.UnsupportedError, match=r"runs a copy of the model, and .*lock"):
        plimsoll.estimate(model, torch.zeros(2, 8))
    with pytest.raises(plimsoll.InvalidArgumentError, match="lazy parameters: run one batch"):
        plimsoll.estimate(nn.LazyLinear(8), torch.zeros(2, 8))


def test_monitoring_may_end_during_a_dry_run() -> None:
    def loss(output: torch.Tensor) -> torch.Tensor:
        plimsoll.stop_monitoring()
        return output.sum()

    found = plimsoll.estimate(nn.Linear(8, 8), torch.zeros(2, 8), dry_run="cpu", loss=loss)
    assert found.weights_bytes == (64 + 8) * 4


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_an_input_whose_dtype_the_model_refuses_is_refused(dtype: torch.dtype) -> None:
    model = nn.Linear(8, 4)
    with pytest.raises(RuntimeError, match="dtype"):
        model(torch.ones(2, 8, dtype=dtype))
    name = str(dtype).removeprefix("torch.")
    expected = rf"aten::addmm needs tensors of one dtype, but gets float32, {name}, float32"
    with pytest.raises(RuntimeError, match=expected):
        plimsoll.estimate(model, torch.ones(2, 8, dtype=dtype), dry_run="fake")
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        plimsoll.estimate(model, torch.ones(2, 8, dtype=dtype))
