"""A NeRF on random rays: coarse samples through one deep MLP."""

import torch
from torch import nn


def encode(x, bands=6):
    frequencies = 2.0 ** torch.arange(bands)
    y = (x[..., None] * frequencies).flatten(-2)
    return torch.cat([x, y.sin(), y.cos()], -1)


class Field(nn.Module):
    def __init__(self, width=128, depth=6):
        super().__init__()
        layers = [nn.Linear(39, width), nn.ReLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.density = nn.Linear(width, 1)
        self.colour = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, points):
        h = self.trunk(encode(points))
        return torch.relu(self.density(h)).squeeze(-1), torch.sigmoid(self.colour(h))


def render(field, origins, directions, samples=64):
    depth = torch.linspace(0.5, 3.0, samples)
    points = origins[:, None] + depth[None, :, None] * directions[:, None]
    density, colour = field(points)
    alpha = 1 - torch.exp(-density * (2.5 / samples))
    through = torch.cumprod(torch.cat([torch.ones(len(alpha), 1), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    weights = alpha * through
    return (weights[..., None] * colour).sum(1)


def main(steps=8, rays=256):
    torch.manual_seed(0)
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)
    for step in range(steps):
        origins = torch.randn(rays, 3) * 0.1
        directions = nn.functional.normalize(torch.randn(rays, 3), dim=1)
        colours = (directions + 1) / 2
        loss = nn.functional.mse_loss(render(field, origins, directions), colours)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
