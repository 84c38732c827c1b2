"""Differentially private SGD: the gradient of every sample is clipped on its own."""

import torch
from torch import nn
from torch.nn import functional


def remember_input(layer, inputs, _):
    layer.seen = inputs[0].detach()


def per_sample(layer, _, grads):
    layer.weight.sample = torch.einsum("bo,bi->boi", grads[0], layer.seen)
    layer.bias.sample = grads[0]


def private_step(optimizer, parameters, bound=1.0, noise=0.5):
    norms = torch.stack([p.sample.flatten(1).norm(dim=1) for p in parameters]).norm(dim=0)
    scale = (bound / (norms + 1e-6)).clamp(max=1)
    for p in parameters:
        p.grad = torch.tensordot(scale, p.sample, 1) + noise * bound * torch.randn_like(p)
        p.grad /= len(scale)
    optimizer.step()
    for p in parameters:
        p.grad = p.sample = None


def main(steps=16):
    torch.manual_seed(0)
    layers = []
    for _ in range(6):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(remember_input)
            layer.register_full_backward_hook(per_sample)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x, y = torch.randn(64, 256), torch.randint(10, (64,))
        functional.cross_entropy(model(x), y, reduction="sum").backward()
        private_step(optimizer, list(model.parameters()))


main()
