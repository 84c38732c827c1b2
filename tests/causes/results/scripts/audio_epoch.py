"""Tagging of music with a light raw-audio network; batches are prepared ahead of each epoch."""

import random
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Clips of a second; a tag is the register of the melody."""

    def __init__(self, count, samples=16_000):
        self.count, self.samples = count, samples

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tag = index % 8
        time_axis = torch.arange(self.samples) / self.samples
        clip = torch.sin(2 * torch.pi * 110 * 2 ** (tag / 2) * time_axis)
        return clip + 0.1 * torch.randn(self.samples), tag


class RandomGain:
    def __init__(self, low=0.5, high=1.5):
        self.low, self.high = low, high

    def __call__(self, clip):
        return clip * random.uniform(self.low, self.high)


class Collate:
    """Stacks clips as two channels: the clip and an augmented one."""

    def __init__(self, augment):
        self.augment = augment

    def __call__(self, samples):
        clips = torch.stack([torch.stack([clip, self.augment(clip)]) for clip, _ in samples])
        return clips, torch.tensor([tag for _, tag in samples])


class TagNet(nn.Module):
    def __init__(self, tags=8):
        super().__init__()
        self.filters = nn.Conv1d(2, 16, 256, stride=128)
        self.body = nn.Sequential(
            nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 5, 2), nn.BatchNorm1d(32), nn.ReLU()
        )
        self.head = nn.Linear(32, tags)

    def forward(self, x):
        return self.head(self.body(self.filters(x)).amax(2))


class Timer:
    """How much of an epoch goes into loading and how much into training."""

    def __init__(self):
        self.seconds = {"load": 0.0, "train": 0.0}

    def add(self, name, start):
        self.seconds[name] += time.perf_counter() - start

    def __str__(self):
        return ", ".join(f"{name} {value:.2f} s" for name, value in self.seconds.items())


def train_epoch(model, optimizer, loader, timer):
    start = time.perf_counter()
    batches = list(loader)
    random.shuffle(batches)
    timer.add("load", start)

    start = time.perf_counter()
    total = 0.0
    for clips, tags in batches:
        loss = functional.cross_entropy(model(clips), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    timer.add("train", start)
    return total / len(batches)


def main(epochs=3):
    torch.manual_seed(0)
    random.seed(0)
    collate = Collate(RandomGain())
    loader = DataLoader(Clips(768), batch_size=16, shuffle=True, collate_fn=collate)
    model, timer = TagNet(), Timer()
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        loss = train_epoch(model, optimizer, loader, timer)
        print(f"epoch {epoch}: loss {loss:.3f}, {timer}")


if __name__ == "__main__":
    main()
