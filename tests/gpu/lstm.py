"""Whether recording changes the peak of an LSTM training.

The same training runs several times in one process. Requested bytes must be the same in each run.
Allocated bytes may differ: the allocator does not split off a remainder of up to 1 MiB of a cached
block, and earlier runs determine which blocks are cached. So the peaks are compared both with the
cache as it is and with an empty one.
"""

from __future__ import annotations

import contextlib
import gc

import torch
from checks import check
from torch import nn

import plimsoll

STEPS = 6


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, 128)
        self.rnn = nn.LSTM(128, 384, 2, batch_first=True)
        self.head = nn.Linear(384, 2000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.rnn(self.embed(x))[0])
        return y


def lstm_peak(*kinds: str) -> None:
    """Train once for each kind, "bare" or "recorded", and compare the peaks of all runs."""
    for cache in ("as it is", "empty"):
        rows = [trained(f"{cache}-{turn}", kind, cache) for turn, kind in enumerate(kinds)]
        for measure in ("requested", "allocated"):
            peaks = [row[measure] for row in rows]
            found = ", ".join(f"{kind} {peak:,}" for kind, peak in zip(kinds, peaks, strict=True))
            what = f"{measure} peaks, cache {cache}"
            # With a cache of earlier runs, padding differs from run to run.
            expected = measure == "requested" or cache == "empty"
            check(what, not expected or len(set(peaks)) == 1, found)


def trained(name: str, kind: str, cache: str) -> dict[str, int]:
    """Train a new model; return the peaks."""
    gc.collect()
    if cache == "empty":
        torch.cuda.empty_cache()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    recording = (
        plimsoll.record(f"{name.replace(' ', '_')}.plim", adapter="libtorch")
        if kind == "recorded"
        else contextlib.nullcontext()
    )
    with recording:
        model = Tagger().cuda()
        optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
        for _ in range(STEPS):
            x = torch.randint(2000, (16, 64)).cuda()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        statistics = torch.cuda.memory_stats()
    return {
        "requested": statistics.get("requested_bytes.all.peak", 0),
        "allocated": statistics["allocated_bytes.all.peak"],
    }
