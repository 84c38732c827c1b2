"""The network returns the right shape and does not look ahead."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from model import SYMBOLS, Net


def test_scores_have_one_row_per_symbol():
    assert Net()(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, SYMBOLS)


def test_later_symbols_do_not_change_earlier_scores():
    torch.manual_seed(0)
    net = Net().eval()
    first = torch.arange(8)[None]
    second = first.clone()
    second[0, -1] = 40
    assert torch.equal(net(first)[0, :-1], net(second)[0, :-1])
