"""A radiance field: an MLP on encoded points along rays, rendered and fitted to pixels."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

N_RAYS = 128
N_SAMPLES = 32
HIDDEN = 64


def positional_encoding(x, n_freqs=6):
    out = [x]
    for i in range(n_freqs):
        out.append(torch.sin(2**i * math.pi * x))
        out.append(torch.cos(2**i * math.pi * x))
    return torch.cat(out, dim=-1)


class NeRF(nn.Module):
    def __init__(self, n_freqs=6):
        super().__init__()
        self.n_freqs = n_freqs
        inputs = 3 + 6 * n_freqs
        self.layer1 = nn.Linear(inputs, HIDDEN)
        self.layer2 = nn.Linear(HIDDEN, HIDDEN)
        self.layer3 = nn.Linear(HIDDEN + inputs, HIDDEN)
        self.density = nn.Linear(HIDDEN, 1)
        self.color = nn.Sequential(nn.Linear(HIDDEN, 32), nn.ReLU(), nn.Linear(32, 3))

    def trunk(self, e):
        h = F.relu(self.layer1(e))
        h = F.relu(self.layer2(h))
        return F.relu(self.layer3(torch.cat([h, e], dim=-1)))

    def forward(self, points):
        encoded = positional_encoding(points, self.n_freqs)
        h = checkpoint(self.trunk, encoded, use_reentrant=False)
        return torch.sigmoid(self.color(h)), F.softplus(self.density(h)).squeeze(-1)


def sample_points(origins, directions):
    depths = torch.linspace(0.1, 2.0, N_SAMPLES).expand(len(origins), N_SAMPLES)
    depths = depths + torch.rand_like(depths) * 0.05
    points = origins[:, None, :] + depths[..., None] * directions[:, None, :]
    return points, depths


def render(model, origins, directions):
    points, depths = sample_points(origins, directions)
    colors, sigmas = model(points)
    deltas = F.pad(depths[:, 1:] - depths[:, :-1], (0, 1), value=1e3)
    alphas = 1 - torch.exp(-sigmas * deltas)
    transmittance = torch.cumprod(1 - alphas + 1e-10, dim=-1)
    weights = alphas * transmittance
    rgb = (weights[..., None] * colors).sum(dim=1)
    depth = (weights * depths).sum(dim=1)
    return rgb, depth


def random_rays(n):
    return torch.randn(n, 3) * 0.1, F.normalize(torch.randn(n, 3), dim=-1)


def psnr(model, origins, directions, pixels):
    with torch.no_grad():
        rgb, _ = render(model, origins, directions)
        return -10 * torch.log10(F.mse_loss(rgb, pixels)).item()


def fit(iterations=6):
    torch.manual_seed(3)
    model = NeRF()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    test_rays = random_rays(N_RAYS)
    test_pixels = torch.rand(N_RAYS, 3)
    curve = []
    for _ in range(iterations):
        origins, directions = random_rays(N_RAYS)
        pixels = torch.rand(N_RAYS, 3)
        rgb, _ = render(model, origins, directions)
        loss = F.mse_loss(rgb, pixels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(psnr(model, *test_rays, test_pixels))
    return curve


if __name__ == "__main__":
    fit()
