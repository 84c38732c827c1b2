"""Equal runs of programs that load data in other processes, or from numpy, use equal bytes."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import sys

import numpy
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, index):
        return torch.full((2000,), float(index)), index % 4


def main():
    model = torch.nn.Sequential(torch.nn.Linear(2000, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Pairs(), 16, **eval(sys.argv[1]))
    for _ in range(2):
        for batch, targets in loader:
            if len(sys.argv) > 2:
                targets = torch.from_numpy(numpy.arange(len(batch)) % 4)
            loss = functional.cross_entropy(model(batch), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "words",
    [
        "dict(num_workers=2)",
        "dict(num_workers=2,persistent_workers=True)",
        "dict(num_workers=2,pin_memory=True)",
        "dict(num_workers=3,prefetch_factor=4)",
        "dict() numpy",
    ],
)
def test_equal_runs_differ_by_no_byte(project, words):
    (project.folder / "train.py").write_text(PROGRAM)
    project.budget(f"net:\n  run: train.py {words}\n  baseline: base.json\n")
    how = {"env": {"PLIMSOLL_PYTHON": sys.executable}, "timeout": 600}
    assert project.check("--update", **how).status == 0
    for _ in range(3):
        outcome = project.check(**how)
        assert outcome.status == 0, outcome
        assert "below the baseline" not in outcome.out
