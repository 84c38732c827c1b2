"""A thread prepares batches, three at most; pictures get larger in stages."""

import queue
import threading

import torch
from torch import nn
from torch.nn import functional


def produce(waiting, steps):
    for step in range(steps):
        side = (48, 64, 80)[step * 3 // steps]
        waiting.put((torch.rand(12, 3, side, side), torch.randint(10, (12,))))
    waiting.put(None)


def main(steps=45):
    torch.manual_seed(0)
    waiting = queue.Queue(maxsize=3)
    threading.Thread(target=produce, args=(waiting, steps)).start()
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    while (batch := waiting.get()) is not None:
        loss = functional.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
