"""A generator that gets a layer of twice the resolution at step 12 and at step 24 of 48."""

import torch
from torch import nn
from torch.nn import functional


def main(steps=48):
    torch.manual_seed(0)
    stem, stages = nn.ConvTranspose2d(64, 64, 16), nn.ModuleList()
    to_rgb = nn.Conv2d(64, 3, 1)
    optimizer = torch.optim.Adam([*stem.parameters(), *to_rgb.parameters()])
    for step in range(steps):
        if step in (12, 24):
            stages.append(
                nn.Sequential(
                    nn.Upsample(scale_factor=2), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()
                )
            )
            optimizer.add_param_group({"params": list(stages[-1].parameters())})
        x = functional.relu(stem(torch.randn(4, 64, 1, 1)))
        for stage in stages:
            x = stage(x)
        loss = to_rgb(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
