"""Gradients are live when nothing needs them."""

from __future__ import annotations

import copy

import torch
from tests.causes.copies.programs import Tower
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional


@program("mlp", "transformer", "moe", "vit", wide=True)
def gradients_through_forward(architecture):
    """zero_grad between forward and backward: the old gradients stay live in every forward."""
    training = Training(architecture, 8)
    for _ in range(5):
        loss = training.loss()
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()
        del loss


@program("mlp", "vit", wide=True)
def gradients_set_to_zero(architecture):
    training = Training(architecture, 8)
    for _ in range(5):
        training.optimizer.zero_grad(set_to_none=False)
        training.loss().backward()
        training.optimizer.step()


@standalone("adapter")
def base_with_gradients(steps=16):
    """The optimizer has only the adapters, but the base is not frozen and gets gradients."""

    class Adapted(nn.Module):
        def __init__(self, width=768):
            super().__init__()
            self.base = nn.ModuleList(nn.Linear(width, width) for _ in range(8))
            self.down = nn.ModuleList(nn.Linear(width, 8) for _ in range(8))
            self.up = nn.ModuleList(nn.Linear(8, width) for _ in range(8))

        def forward(self, x):
            for base, down, up in zip(self.base, self.down, self.up, strict=True):
                x = torch.tanh(base(x) + up(torch.relu(down(x))))
            return x

    model = Adapted()
    optimizer = torch.optim.SGD([*model.down.parameters(), *model.up.parameters()], lr=0.01)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(16, 768)).square().mean())


@standalone("detector")
def backbone_with_gradients(steps=12):
    """A convolutional backbone in eval mode, whose parameters are not frozen."""
    backbone = nn.Sequential(nn.Conv2d(3, 384, 3, 2), nn.ReLU())
    for _ in range(5):
        backbone += nn.Sequential(nn.Conv2d(384, 384, 3, padding=1), nn.ReLU())
    head = nn.Linear(384, 20)
    optimizer = torch.optim.Adam(head.parameters())
    for _ in range(steps):
        features = backbone(torch.rand(2, 3, 16, 16)).amax((2, 3))
        step_of(optimizer, functional.cross_entropy(head(features), torch.randint(20, (2,))))


@standalone("evidence")
def target_with_gradients(steps=12):
    """The target network is not frozen: it gets gradients that nothing uses or clears."""
    model = Tower()
    target = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(16, 512)
        step_of(optimizer, functional.mse_loss(model(x), target(x)))
