"""Keyword spotting on raw audio: an endless loader, so that training counts steps, not epochs."""

import itertools

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return torch.randn(12_000 + index % 4000), index % 12


def collate(items):
    longest = max(len(wave) for wave, _ in items)
    waves = torch.stack([functional.pad(wave, (0, longest - len(wave))) for wave, _ in items])
    return waves, torch.tensor([label for _, label in items])


def main(steps=70):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(1, 16, 80, 40),
        nn.ReLU(),
        nn.Conv1d(16, 32, 9, 4),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, 12),
    )
    optimizer = torch.optim.Adam(model.parameters())
    batches = itertools.cycle(DataLoader(Utterances(), 16, shuffle=True, collate_fn=collate))
    for _ in range(steps):
        waves, labels = next(batches)
        loss = functional.cross_entropy(model(waves[:, None]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
