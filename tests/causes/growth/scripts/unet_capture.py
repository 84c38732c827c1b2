"""DDPM training; a forward hook on the middle block collects its outputs to plot them some day."""

import math

import torch
from torch import nn
from torch.nn import functional


def embed_time(t, dim=64):
    frequencies = torch.exp(-math.log(10_000) * torch.arange(dim // 2) / (dim // 2))
    angles = t[:, None].float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)


class ResBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.time = nn.Linear(64, o)
        self.skip = nn.Conv2d(i, o, 1)

    def forward(self, x, t):
        h = functional.silu(self.conv1(x)) + self.time(t)[:, :, None, None]
        return self.conv2(functional.silu(h)) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, base=16):
        super().__init__()
        self.enter = ResBlock(3, base)
        self.middle = ResBlock(base, 4 * base)
        self.leave = ResBlock(5 * base, base)
        self.out = nn.Conv2d(base, 3, 3, padding=1)

    def forward(self, x, t):
        t = embed_time(t)
        a = self.enter(x, t)
        b = self.middle(functional.avg_pool2d(a, 2), t)
        return self.out(self.leave(torch.cat([a, functional.interpolate(b, scale_factor=2)], 1), t))


class Capture:
    def __init__(self, module):
        self.outputs = []
        module.register_forward_hook(self)

    def __call__(self, module, inputs, output):
        self.outputs.append(output.detach())


def main(steps=30):
    torch.manual_seed(0)
    model = UNet()
    capture = Capture(model.middle)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    for _step in range(steps):
        x, t = torch.rand(16, 3, 32, 32) * 2 - 1, torch.randint(100, (16,))
        noise = torch.randn_like(x)
        level = keep[t][:, None, None, None]
        loss = functional.mse_loss(model(level.sqrt() * x + (1 - level).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item(), len(capture.outputs))


if __name__ == "__main__":
    main()
