"""A U-Net that removes noise from images, with SGD and momentum."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

SIZE, BATCH, CHANNELS = 32, 4, 16


class Stage(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, padding=1)
        self.norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, padding=1)

    def forward(self, x):
        x = F.silu(self.norm(self.first(x)))
        return F.silu(self.second(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = Stage(3, CHANNELS)
        self.down2 = Stage(CHANNELS, 2 * CHANNELS)
        self.bottom = Stage(2 * CHANNELS, 4 * CHANNELS)
        self.up2 = Stage(6 * CHANNELS, 2 * CHANNELS)
        self.up1 = Stage(3 * CHANNELS, CHANNELS)
        self.out = nn.Conv2d(CHANNELS, 3, 1)

    def forward(self, image):
        skip1 = self.down1(image)
        skip2 = self.down2(F.max_pool2d(skip1, 2))
        x = checkpoint(self.bottom, F.max_pool2d(skip2, 2), use_reentrant=False)
        x = self.up2(torch.cat([F.interpolate(x, scale_factor=2), skip2], dim=1))
        x = self.up1(torch.cat([F.interpolate(x, scale_factor=2), skip1], dim=1))
        return self.out(x)


def train(steps=8):
    torch.manual_seed(0)
    model = UNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    total = 0.0
    for _ in range(steps):
        clean = torch.rand(BATCH, 3, SIZE, SIZE)
        noisy = clean + 0.1 * torch.randn_like(clean)
        restored = model(noisy)
        loss = (restored - clean).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / steps


train()
