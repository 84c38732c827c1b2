"""Super-resolution; every fourth step some validation pictures go into the table of results."""

import torch
from torch import nn
from torch.nn import functional


class Upscale(nn.Module):
    def __init__(self, factor=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1)
        )
        self.tail = nn.Sequential(
            nn.Tanh(), nn.Conv2d(8, 3 * factor**2, 3, padding=1), nn.PixelShuffle(factor)
        )

    def forward(self, low):
        return self.tail(self.body(low))


@torch.no_grad()
def validate(model, table, step):
    high = torch.rand(8, 3, 192, 192)
    low = functional.avg_pool2d(high, 3)
    restored = model(low).clamp(0, 1)
    table.append({"step": step, "low": low, "restored": restored, "high": high})
    return functional.mse_loss(restored, high).item()


def main(steps=48):
    torch.manual_seed(0)
    model = Upscale()
    optimizer = torch.optim.Adam(model.parameters())
    table = []
    for step in range(steps):
        high = torch.rand(8, 3, 96, 96)
        loss = functional.mse_loss(model(functional.avg_pool2d(high, 3)), high)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            print(step, validate(model, table, step))


main()
