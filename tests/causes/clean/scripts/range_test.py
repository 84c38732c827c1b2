"""A learning rate range test first, with the weights put back; then the training itself."""

import copy

import torch
from torch import nn


def step_of(model, optimizer):
    x, y = torch.randn(32, 96), torch.randint(8, (32,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def range_test(model, steps=12):
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    curve = []
    for _ in range(steps):
        for group in optimizer.param_groups:
            group["lr"] *= 2
        curve.append((step_of(model, optimizer), optimizer.param_groups[0]["lr"]))
    model.load_state_dict(before)
    return min(curve)[1] / 10


def main(steps=20):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(96, 640), nn.GELU(), nn.Linear(640, 640), nn.GELU(), nn.Linear(640, 8)
    )
    rate = range_test(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = [step_of(model, optimizer) for _ in range(steps)]
    print(rate, losses[-1])


if __name__ == "__main__":
    main()
