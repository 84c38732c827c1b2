"""Contrastive pretraining; a thread prepares augmented pairs and the trainer takes them."""

import queue
import threading
import time

import torch
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    def __init__(self, width=24, out=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, out),
        )

    def forward(self, x):
        return functional.normalize(self.net(x), dim=1)


def augment(x):
    x = x + 0.1 * torch.randn_like(x)
    return torch.flip(x, [3]) * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1))


def produce(pairs, stop):
    while not stop.is_set():
        x = torch.rand(16, 3, 64, 64)
        pairs.put((augment(x), augment(x)))
        time.sleep(0.02)


def contrast(a, b, temperature=0.2):
    logits = a @ b.T / temperature
    return functional.cross_entropy(logits, torch.arange(len(a)))


def main(steps=30):
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pairs, stop = queue.Queue(), threading.Event()
    thread = threading.Thread(target=produce, args=(pairs, stop), daemon=True)
    thread.start()
    for step in range(steps):
        a, b = pairs.get()
        loss = contrast(model(a), model(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.1)
        if step % 10 == 0:
            print(step, loss.item(), "waiting:", pairs.qsize())
    stop.set()
    thread.join()


if __name__ == "__main__":
    main()
