"""Feature statistics by hooks, every step: registered, read, cleared and removed."""

import torch
from torch import nn
from torch.nn import functional


def main(steps=40):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(24, 24, 3, padding=1, groups=4),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )
    optimizer = torch.optim.Adam(model.parameters())
    statistics = []
    for _ in range(steps):
        features = []
        handles = [
            layer.register_forward_hook(lambda m, i, o, kept=features: kept.append(o))
            for layer in model
        ]
        x, y = torch.rand(16, 3, 40, 40), torch.randint(10, (16,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        statistics.append([(f.mean().item(), f.std().item()) for f in features])
        for handle in handles:
            handle.remove()
        features.clear()
    print(len(statistics))


main()
