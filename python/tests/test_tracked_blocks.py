"""The object that track_memory yields."""

from collections.abc import Iterator

import pytest
import torch

import plimsoll


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def test_a_block_has_the_figures_that_it_printed(capsys):
    with plimsoll.track_memory("loading dataset") as block:
        torch.zeros(3 * 2**20)
        assert (block.peak_bytes, block.change_bytes, block.peaks) == (None, None, {})
        kept = torch.zeros(2**20)
    assert "CPU tensors +4.0 MB" in capsys.readouterr().out
    assert block.name == "loading dataset"
    assert block.change_bytes == kept.nbytes
    assert block.peak_bytes == block.peaks["cpu"]
    assert block.peak_bytes >= 12 * 2**20
    assert f"peak_bytes={block.peak_bytes}, change_bytes={4 * 2**20}" in repr(block)


def test_a_block_that_raises_has_its_figures(capsys):
    with pytest.raises(ZeroDivisionError), plimsoll.track_memory("broken") as block:
        torch.zeros(2**20).sum().item() / 0
    assert block.peak_bytes is not None
    assert block.peak_bytes >= 4 * 2**20
