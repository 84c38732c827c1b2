"""A physics-informed network for Burgers' equation: derivatives of the output by autograd."""

import torch
from torch import nn


class PINN(nn.Module):
    def __init__(self, width=64, depth=5):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, t, x):
        return self.net(torch.stack([t, x], 1)).squeeze(1)


def derivative(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(model, t, x, viscosity=0.01):
    t.requires_grad_()
    x.requires_grad_()
    u = model(t, x)
    u_t, u_x = derivative(u, t), derivative(u, x)
    return u_t + u * u_x - viscosity * derivative(u_x, x)


def main(steps=6, points=12_000):
    torch.manual_seed(0)
    model = PINN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        t, x = torch.rand(points), torch.rand(points) * 2 - 1
        start = torch.rand(500) * 2 - 1
        initial = model(torch.zeros(500), start) + torch.sin(torch.pi * start)
        loss = residual(model, t, x).pow(2).mean() + initial.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
