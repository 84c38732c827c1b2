"""A linear probe on a pretrained backbone: only the head is given to the optimizer."""

import torch
from torch import nn
from torch.nn import functional


class Probe(nn.Module):
    def __init__(self, width=1280, depth=6, classes=100):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def main(steps=14):
    torch.manual_seed(0)
    model = Probe()
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    for _ in range(steps):
        x, y = torch.randn(32, 1280), torch.randint(100, (32,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
