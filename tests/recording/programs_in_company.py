"""Training programs with concurrent activity: threads, workers, the profiler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch
from tests.recording.programs import PROGRAMS, Held, mlp, program, train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

__all__ = ["PROGRAMS"]


@program
def threads() -> Iterator[Held]:
    models = [mlp(16, 32, 4) for _ in range(3)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in models]

    def work(model: nn.Module, optimizer: Any) -> None:
        for _ in range(5):
            for _ in train(model, optimizer, steps=1):
                pass

    for _ in range(2):
        running = [
            threading.Thread(target=work, args=pair)
            for pair in zip(models, optimizers, strict=True)
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        yield models, optimizers


@program
def data_loader_workers() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(32, 16)), batch_size=8, num_workers=1)
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        yield [model], [optimizer]


@program
def under_the_profiler() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        with torch.profiler.profile(profile_memory=True, record_shapes=True):
            yield from train(model, optimizer, steps=2)
