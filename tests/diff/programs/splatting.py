"""Gaussian splatting in two dimensions: Gaussians are fitted to an image with Adam."""

import torch

SIDE, COUNT, ROWS = 48, 256, 12


class Splats(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.center = torch.nn.Parameter(torch.rand(count, 2))
        self.log_scale = torch.nn.Parameter(torch.full((count, 2), -2.0))
        self.color = torch.nn.Parameter(torch.rand(count, 3))
        self.opacity = torch.nn.Parameter(torch.zeros(count))

    def weights(self, points):
        away = points[:, None, :] - self.center
        distance = (away / self.log_scale.exp()).square().sum(-1)
        return torch.exp(-0.5 * distance) * self.opacity.sigmoid()

    def forward(self, points):
        weight = self.weights(points)
        return weight @ self.color / (weight.sum(1, keepdim=True) + 1e-3)


def pixels():
    axis = torch.linspace(0, 1, SIDE)
    return torch.cartesian_prod(axis, axis)


def train(steps=8):
    torch.manual_seed(0)
    splats = Splats(COUNT)
    optimizer = torch.optim.Adam(splats.parameters(), lr=1e-2)
    points = pixels()
    target = torch.rand(SIDE * SIDE, 3)
    history = []
    for step in range(steps):
        optimizer.zero_grad()
        start = step % 4 * ROWS * SIDE
        part = points[start : start + ROWS * SIDE]
        image = splats(part)
        loss = (image - target[start : start + ROWS * SIDE]).abs().mean()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


train()
