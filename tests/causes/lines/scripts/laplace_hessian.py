"""A Laplace approximation after training: the full Hessian of a small regression network."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional


def train(model, x, y, steps=40):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def full_hessian(model, x, y):
    shapes = {name: p.shape for name, p in model.named_parameters()}
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])

    def loss(vector):
        parts = vector.split([shape.numel() for shape in shapes.values()])
        weights = {n: p.view(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        return functional.mse_loss(functional_call(model, weights, (x,)), y, reduction="sum")

    return torch.autograd.functional.hessian(loss, flat)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 56), nn.Tanh(), nn.Linear(56, 1))
    x = torch.randn(64, 24)
    y = x[:, :1].sin() + 0.1 * torch.randn(64, 1)
    print(train(model, x, y))
    hessian = full_hessian(model, x, y)
    print(hessian.shape, hessian.diagonal().mean().item())


if __name__ == "__main__":
    main()
