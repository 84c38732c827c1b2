"""Uncertainty of a segmentation: twenty passes with dropout, then their mean and entropy."""

import torch
from torch import nn
from torch.nn import functional


class Segmenter(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.first, self.drop = nn.Conv2d(1, 12, 3, padding=1), nn.Dropout2d(0.2)
        self.last = nn.Conv2d(12, classes, 3, padding=1)

    def forward(self, x):
        return self.last(self.drop(functional.relu(self.first(x))))


@torch.no_grad()
def predict(model, images, passes=20):
    model.train()
    samples = [model(images).softmax(1) for _ in range(passes)]
    mean = torch.stack(samples).mean(0)
    return mean, -(mean * mean.clamp_min(1e-9).log()).sum(1)


def main(steps=20):
    torch.manual_seed(0)
    model = Segmenter()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        x, y = torch.rand(8, 1, 64, 64), torch.randint(10, (8, 64, 64))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            _, entropy = predict(model, torch.rand(8, 1, 96, 96))
            print(step, entropy.mean().item())


main()
