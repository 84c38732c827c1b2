"""Second-order optimizers: their history is a large part of the peak."""

from __future__ import annotations

import torch
from tests.causes.training import standalone
from torch import nn
from torch.nn import functional


@standalone("second_order")
def history_is_full(iterations=30, history_size=6):
    """One large matrix, so a vector of all parameters is about as large as the matrix."""
    model = nn.Sequential(nn.Linear(1000, 1200), nn.Tanh(), nn.Linear(1200, 10))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, history_size=history_size)
    x, y = torch.randn(64, 1000), torch.randn(64, 10)

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(iterations):
        optimizer.step(closure)
