"""Stochastic weight averaging from torch.optim.swa_utils in the last quarter of the training."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn


def main(epochs=12, steps=3):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, 5),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    average, schedule = AveragedModel(model), SWALR(optimizer, swa_lr=0.02)
    data = [torch.randn(48, 64) for _ in range(steps)]
    for epoch in range(epochs):
        for x in data:
            loss = nn.functional.cross_entropy(model(x), torch.randint(5, (48,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch >= 9:
            average.update_parameters(model)
            schedule.step()
    update_bn(data, average)
    print(loss.item(), average(data[0]).std().item())


if __name__ == "__main__":
    main()
