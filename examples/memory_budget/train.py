"""Trains the network of model.py on made-up sequences."""

from __future__ import annotations

import argparse

import torch
from model import SYMBOLS, Net
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

LENGTH = 128


class Sequences(Dataset[torch.Tensor]):
    """Sequences in which each symbol is the last one plus a step."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return (index + (1 + index % 7) * torch.arange(LENGTH + 1)) % SYMBOLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Sequences(options.steps * options.batch)
    losses = []
    for batch in DataLoader(data, options.batch, num_workers=options.workers):
        scores = model(batch[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
