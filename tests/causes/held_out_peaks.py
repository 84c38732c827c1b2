"""Held-out programs in which one thing fills the peak; docs/findings.md has their dates."""

from __future__ import annotations

import copy

import torch
from tests.causes.held_out_models import (
    Attend,
    Encoder,
    Field,
    GraphAttention,
    Mixer,
    PointNet,
    SelectiveScan,
    Sine,
    render,
    residual_network,
)
from tests.causes.training import held_out
from torch import nn
from torch.nn import functional


@held_out("nerf")
def full_image_with_graph(steps=16):
    field = Field()
    optimizer = torch.optim.Adam(field.parameters())
    for step in range(steps):
        loss = render(field, torch.randn(64, 3), torch.randn(64, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            image = render(field, torch.randn(1024, 3), torch.randn(1024, 3))
            image.clamp(0, 1).mean().item()


@held_out("pinn")
def second_derivatives(steps=16):
    model = Sine()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.rand(2048, 2, requires_grad=True)
        u = model(x)
        first = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)[0]
        loss = (first[:, 1] - 0.1 * second[:, 0]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("distillation")
def teacher_with_graph(steps=16):
    teacher, student = Mixer(width=384, depth=6), Mixer(width=96, depth=2)
    optimizer = torch.optim.Adam(student.parameters())
    for _ in range(steps):
        x = torch.randn(32, 64, 48)
        wanted = teacher(x)
        got = student(x)
        loss = functional.mse_loss(got, wanted.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("mixer_accumulation")
def losses_added_before_backward(steps=12):
    model = Mixer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        losses = []
        for _ in range(8):
            logits = model(torch.randn(8, 64, 48))
            losses.append(functional.cross_entropy(logits, torch.randint(10, (8,))) / 8)
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()


@held_out("tta")
def all_augmentations_stacked(steps=16):
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def evaluate(images):
        views = [images, images.flip(-1), images.flip(-2), images.transpose(-1, -2)]
        views += [view + 0.01 * torch.randn_like(view) for view in views]
        return model(torch.cat(views)).view(len(views), len(images), -1).mean(0)

    for step in range(steps):
        loss = model(torch.randn(32, 3, 32, 32)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            with torch.no_grad():
                evaluate(torch.randn(256, 3, 32, 32))


@held_out("pointnet")
def all_pairs_of_points(steps=12):
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = functional.cross_entropy(model(torch.rand(4, 1024, 3)), torch.randint(10, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("gat")
def message_per_edge(steps=12):
    model = GraphAttention()
    optimizer = torch.optim.Adam(model.parameters())
    nodes, edges = torch.randn(2000, 32), torch.randint(2000, (2, 60_000))
    labels = torch.randint(8, (2000,))
    for _ in range(steps):
        loss = functional.cross_entropy(model(nodes, edges), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("attention_maps")
def maps_of_all_layers(steps=12):
    model = nn.Sequential(*(Attend() for _ in range(6)), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(4, 256, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("ssm")
def state_of_each_position(steps=12):
    model = nn.Sequential(SelectiveScan(), SelectiveScan(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(4, 512, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@held_out("hypernetwork")
def best_models_kept(steps=24):
    model = residual_network(512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    best = []
    for step in range(steps):
        loss = functional.cross_entropy(model(torch.randn(32, 512)), torch.randint(10, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (1, 2, 4, 7):
            best.append(copy.deepcopy(model))


class Sharpness(torch.optim.Optimizer):
    """SAM: a step up, a second gradient there, then a step down from the starting point."""

    def __init__(self, parameters, lr=0.01, rho=0.05):
        super().__init__(parameters, {"lr": lr, "rho": rho})

    @torch.no_grad()
    def first_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["before"] = p.clone()
                self.state[p]["up"] = group["rho"] * p.grad
                self.state[p]["velocity"] = self.state[p].get("velocity", 0) * 0.9 + p.grad
                p.add_(self.state[p]["up"])

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["before"]).sub_(p.grad, alpha=group["lr"])


@held_out("sam")
def three_copies_per_parameter(steps=14):
    model = residual_network()
    optimizer = Sharpness(model.parameters())
    for _ in range(steps):
        x, labels = torch.randn(16, 1024), torch.randint(10, (16,))
        functional.cross_entropy(model(x), labels).backward()
        optimizer.first_step()
        optimizer.zero_grad()
        functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


@held_out("lbfgs")
def long_history(steps=30):
    model = residual_network(384, depth=3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=1, history_size=10)
    x, y = torch.randn(64, 384), torch.randn(64, 10)

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def load_table(rows=40_000, columns=200):
    return torch.rand(rows, columns, dtype=torch.float64)


@held_out("tabular")
def whole_table_in_memory(steps=16):
    table = load_table()
    model = nn.Sequential(nn.Linear(200, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        rows = table[step * 256 : (step + 1) * 256].float()
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
