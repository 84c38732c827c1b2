"""DDPM with an average in place and sampling under no_grad every few steps."""

import copy

import torch
from torch import nn
from torch.nn import functional


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(4, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, 1, 1), nn.SiLU(), nn.Conv2d(width, width, 3, 1, 1)
        )

    def forward(self, x, t):
        level = (t / 50)[:, None, None, None].expand(-1, 1, *x.shape[2:])
        h = functional.silu(self.enter(torch.cat([x, level], 1)))
        return self.leave(h + self.body(h))


KEEP = torch.cumprod(1 - torch.linspace(1e-3, 0.1, 50), 0)


@torch.no_grad()
def sample(model, count=4):
    x = torch.randn(count, 3, 24, 24)
    for t in reversed(range(50)):
        noise = model(x, torch.full((count,), float(t)))
        x = (x - (1 - KEEP[t]).sqrt() * noise) / KEEP[t].sqrt().clamp(min=0.1)
        x = x.clamp(-2, 2)
    return x


def main(steps=24):
    torch.manual_seed(0)
    model = Denoiser()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, t = torch.rand(8, 3, 24, 24) * 2 - 1, torch.randint(50, (8,))
        noise, keep = torch.randn_like(x), KEEP[t][:, None, None, None]
        loss = functional.mse_loss(
            model(keep.sqrt() * x + (1 - keep).sqrt() * noise, t.float()), noise
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(p, 0.05)
        if step % 8 == 7:
            print(step, loss.item(), sample(average).mean().item())


if __name__ == "__main__":
    main()
