"""Stochastic weight averaging of the last quarter: the average is created at step 30 of 40."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import SWALR, AveragedModel


def main(steps=40):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    average = None
    for step in range(steps):
        x, y = torch.randn(128, 784), torch.randint(10, (128,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 30:
            average, schedule = AveragedModel(model), SWALR(optimizer, 0.01)
        if average is not None:
            average.update_parameters(model)
            schedule.step()


main()
