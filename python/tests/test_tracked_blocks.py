"""The object that track_memory yields."""

import functools
import subprocess
import sys
import threading
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
    assert f"peak_bytes={block.peak_bytes}, " in repr(block)
    assert f"change_bytes={4 * 2**20}, " in repr(block)


def test_what_a_block_added_does_not_depend_on_what_was_live_before(capsys):
    added = []
    for before in (0, 40_000_000):
        kept = torch.zeros(before // 4)
        with plimsoll.track_memory("block") as block:
            torch.zeros(2**12)
        added.append(block.added_peak_bytes)
        assert block.peak_bytes >= kept.nbytes + 2**14
    assert added == [2**14, 2**14]


def test_a_block_that_raises_has_its_figures(capsys):
    with pytest.raises(ZeroDivisionError), plimsoll.track_memory("broken") as block:
        torch.zeros(2**20).sum().item() / 0
    assert block.peak_bytes is not None
    assert block.peak_bytes >= 4 * 2**20


def test_a_block_may_be_entered_again_and_inside_itself(capsys):
    block = plimsoll.track_memory("again")
    for elements in (1000, 2000):
        with block as same, block:
            kept = torch.ones(elements)
        assert same is block
        assert block.change_bytes is not None
        assert block.peak_bytes >= kept.nbytes
    assert capsys.readouterr().out.count("[Memory] again: ") == 4


def test_a_block_without_a_name_and_a_block_as_a_decorator(capsys):
    with plimsoll.track_memory():
        pass

    @plimsoll.track_memory("load")
    def load(depth: int) -> int:
        return load(depth - 1) if depth else 7

    assert load(2) == 7
    printed = capsys.readouterr().out
    assert printed.count("[Memory] block: ") == 1
    assert printed.count("[Memory] load: ") == 3


def test_properties_and_methods_of_classes_are_decorated(capsys):
    class Loader:
        @plimsoll.monitor_memory
        @property
        def size(self) -> int:
            """How many."""
            return 3

        @plimsoll.monitor_memory("made")
        @classmethod
        def make(cls):
            return cls()

        @plimsoll.monitor_memory
        @staticmethod
        def twice(number: int) -> int:
            return 2 * number

    assert Loader.make().size == 3
    assert Loader.twice(4) == 8
    assert Loader.size.__doc__ == "How many."
    printed = capsys.readouterr().out
    assert [
        printed.count(f"[Memory] {name}: ") for name in ("made", "Loader.size", "Loader.twice")
    ] == [1, 1, 1]
    for odd in (3, functools.cached_property(lambda self: 3), Loader):
        for decorate in (plimsoll.monitor_memory, plimsoll.monitor_memory("x")):
            with pytest.raises(plimsoll.InvalidArgumentError, match="decorates functions"):
                decorate(odd)


def test_one_block_on_two_threads_has_the_figures_of_each(capsys):
    block = plimsoll.track_memory("shared")
    changes = {}
    second_is_in, first_is_out = threading.Event(), threading.Event()

    def second():
        with block:
            second_is_in.set()
            assert first_is_out.wait(120)
        changes["second"] = block.change_bytes

    with block:
        kept = torch.zeros(2**20)
        thread = threading.Thread(target=second)
        thread.start()
        assert second_is_in.wait(120)
    changes["first"] = block.change_bytes
    first_is_out.set()
    thread.join()
    assert changes == {"first": kept.nbytes, "second": 0}


PROFILED = """
import contextlib
import sys

import torch

import plimsoll

block = plimsoll.track_memory("block") if sys.argv[1:] else contextlib.nullcontext()
with torch.profiler.profile(profile_memory=True) as profiler, block:
    kept = torch.zeros(1000)
for event in profiler.events():
    if not event.name.startswith("plimsoll: block"):
        print("event", event.name, event.self_cpu_memory_usage)
"""


@pytest.mark.slow
def test_the_test_of_the_adapter_is_not_in_the_programs_profile():
    plain, tracked = (
        subprocess.run(
            [sys.executable, "-c", PROFILED, *words], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for words in ([], ["tracked"])
    )
    assert plain
    assert [line for line in tracked if line.startswith("event ")] == plain
