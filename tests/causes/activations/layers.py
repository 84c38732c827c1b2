"""Activations of many layers fill the peak."""

from __future__ import annotations

import torch
from tests.causes.architectures import Architecture
from tests.causes.graph.validations import trained_and_evaluated
from tests.causes.models import Attend, SelectiveScan
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn


@program("mlp", "cnn", "unet", "transformer", "vit", "gnn", "diffusion", "moe", "gru", "vae")
def activations(architecture):
    Training(architecture, 2).steps(2)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Deep(nn.Module):
    def __init__(self, width: int = 64, depth: int = 24) -> None:
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, 16)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@standalone("deep")
def equal_layers():
    Training(
        Architecture(
            Deep,
            lambda samples: (torch.randn(samples, 16),),
            lambda model, x: model(x).square().mean(),
            samples=2048,
        )
    ).steps(2)


@standalone("held_out_attention_maps")
def maps_of_all_layers(steps=12):
    model = nn.Sequential(*(Attend() for _ in range(6)), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(4, 256, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@standalone("held_out_ssm")
def state_of_each_position(steps=12):
    model = nn.Sequential(SelectiveScan(), SelectiveScan(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(4, 512, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Dropped(nn.Module):
    """Every layer is one operator: a dropout keeps its output and its mask."""

    def __init__(self, width=8, layers=5):
        super().__init__()
        for number in range(layers):
            self.add_module(f"conv{number}", nn.Conv2d(width, width, 3, padding=1))
            self.add_module(f"drop{number}", nn.Dropout(0.1))

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


@standalone("evidence")
def layers_of_one_operator(steps=4):
    model = Dropped()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(8, 8, 64, 64)).square().mean())


@standalone("without_graph")
def attention_maps_of_an_evaluation():
    trained_and_evaluated(torch.no_grad)
