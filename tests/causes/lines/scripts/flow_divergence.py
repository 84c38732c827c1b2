"""A continuous normalizing flow; the exact divergence takes one double backward per dimension."""

import torch
from torch import nn


class Velocity(nn.Module):
    def __init__(self, dim, width=96):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, dim),
        )

    def forward(self, t, x):
        return self.net(torch.cat([x, t.expand(len(x), 1)], 1))


def divergence(v, x):
    total = 0.0
    for i in range(x.shape[1]):
        total = total + torch.autograd.grad(v[:, i].sum(), x, create_graph=True)[0][:, i]
    return total


def log_likelihood(field, x, steps=5):
    log_det, dt = torch.zeros(len(x)), 1 / steps
    x = x.requires_grad_()
    for i in range(steps):
        v = field(torch.tensor(i * dt), x)
        log_det = log_det - dt * divergence(v, x)
        x = x + dt * v
    return -0.5 * x.pow(2).sum(1) + log_det


def main(steps=5, dim=8):
    torch.manual_seed(0)
    field = Velocity(dim)
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)
    for step in range(steps):
        data = torch.randn(512, dim) * torch.linspace(0.5, 2, dim)
        loss = -log_likelihood(field, data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
