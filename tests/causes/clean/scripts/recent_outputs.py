"""Denoising of video: the last twenty outputs are kept for a running median, and no others."""

import collections

import torch
from torch import nn
from torch.nn import functional


def main(steps=70):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters())
    recent = collections.deque(maxlen=20)
    for step in range(steps):
        frames = torch.rand(8, 3, 64, 64)
        clean = model(frames + 0.1 * torch.randn_like(frames))
        loss = functional.mse_loss(clean, frames)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent.append(clean.detach())
        if step % 20 == 19:
            print(torch.stack(list(recent)).median(0).values.mean().item())


main()
