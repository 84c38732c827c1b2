"""A deformation field fitted by L-BFGS with a closure; its history fills up and then stays."""

import torch
from torch import nn
from torch.nn import functional


class FourierField(nn.Module):
    """Displacements on a plane from random Fourier features of the position."""

    def __init__(self, features=128, hidden=256):
        super().__init__()
        self.register_buffer("frequencies", 3 * torch.randn(2, features))
        self.layers = nn.Sequential(
            nn.Linear(2 * features, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, 2),
        )

    def forward(self, points):
        angles = points @ self.frequencies
        return 0.1 * self.layers(torch.cat([angles.sin(), angles.cos()], -1))


class Registration:
    """Moves one picture onto another; the field is kept smooth."""

    def __init__(self, fixed, moving, smoothness=0.1):
        self.fixed, self.moving, self.smoothness = fixed, moving, smoothness
        side = fixed.shape[-1]
        axis = torch.linspace(-1, 1, side)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        self.grid = torch.stack([x, y], -1)

    def warp(self, field):
        shift = field(self.grid.flatten(0, 1)).view_as(self.grid)
        warped = functional.grid_sample(
            self.moving, (self.grid + shift)[None], align_corners=True, padding_mode="border"
        )
        return warped, shift

    def loss(self, field):
        warped, shift = self.warp(field)
        rough = (shift[1:] - shift[:-1]).pow(2).sum() + (shift[:, 1:] - shift[:, :-1]).pow(2).sum()
        return functional.mse_loss(warped, self.fixed) + self.smoothness * rough / shift.numel()


def blob(side, center):
    axis = torch.linspace(-1, 1, side)
    distance = (axis[:, None] - center[0]) ** 2 + (axis[None] - center[1]) ** 2
    return torch.exp(-distance / 0.1)[None, None]


def main(iterations=24, side=80):
    torch.manual_seed(0)
    registration = Registration(blob(side, (0.1, 0.0)), blob(side, (-0.1, 0.1)))
    field = FourierField()
    optimizer = torch.optim.LBFGS(field.parameters(), lr=0.5, max_iter=4, history_size=10)
    curve = []

    def closure():
        optimizer.zero_grad()
        loss = registration.loss(field)
        loss.backward()
        curve.append(loss.item())
        return loss

    for iteration in range(iterations):
        optimizer.step(closure)
        if iteration % 6 == 5:
            with torch.no_grad():
                warped, shift = registration.warp(field)
                error = (warped - registration.fixed).abs().max().item()
            print(f"{iteration}: {curve[-1]:.6f}, error {error:.4f}, shift {shift.abs().max():.3f}")


if __name__ == "__main__":
    main()
