"""Runs of Python's cyclic garbage collector, marked in recordings."""

import gc
import os

import pytest
import torch

import plimsoll
from plimsoll import _record


def make_garbage(tensors=3):
    for _ in range(tensors):
        cycle = [torch.ones(1 << 16)]
        cycle.append(cycle)


def marks_of(recording):
    marks = plimsoll.open(recording.path).marks.to_pydict()
    return [
        (str(kind), event)
        for kind, event in zip(marks["kind"], marks["event"], strict=True)
        if "collection" in str(kind)
    ]


@pytest.fixture(autouse=True)
def no_garbage():
    gc.collect()


@pytest.mark.parametrize("adapter", ["auto", "python"])
def test_frees_of_the_collector_are_between_its_marks(tmp_path, adapter):
    with plimsoll.record(tmp_path / "run.plim", adapter=adapter) as recording:
        gc.collect()
        make_garbage()
        gc.collect(0)
        gc.collect(1)  # frees nothing, and does not examine all objects
    trace = plimsoll.open(recording.path)
    (begin, first), (end, last) = marks_of(recording)[-2:]
    assert (begin, end) == ("collection_begin", "collection_end")
    events = trace.events.to_pydict()
    freed = [
        size
        for action, size in zip(
            events["action"][first:last], events["size_bytes"][first:last], strict=True
        )
        if "free" in str(action)
    ]
    assert freed.count(4 << 16) == 3


def test_the_callback_is_there_while_a_recording_runs(tmp_path):
    def mine(phase, info):
        pass

    def other(phase, info):
        pass

    before = list(gc.callbacks)
    gc.callbacks.append(mine)
    try:
        with plimsoll.record(tmp_path / "a.plim", adapter="none"):
            with plimsoll.record(tmp_path / "b.plim", adapter="none"):
                assert gc.callbacks == [*before, mine, _record.mark_collection]
            gc.callbacks.append(other)
            assert gc.callbacks == [*before, mine, _record.mark_collection, other]
        assert gc.callbacks == [*before, mine, other]
        recording = plimsoll.record(tmp_path / "c.plim", adapter="none").start()
        gc.callbacks.remove(_record.mark_collection)  # as the program might
        recording.stop()
        assert gc.callbacks == [*before, mine, other]
    finally:
        gc.callbacks[:] = before


@pytest.fixture
def one_thread():
    """OpenMP's threads do not survive a fork; with several, the child would wait for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_a_forked_child_and_its_parent_go_on(tmp_path):
    with plimsoll.record(tmp_path / "run.plim", in_children=True) as recording:
        child = os.fork()
        make_garbage()
        gc.collect()
        if child == 0:
            recording.stop()
            gc.collect()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    kinds = [kind for kind, _ in marks_of(recording)]
    assert kinds[-2:] == ["collection_begin", "collection_end"]


@pytest.mark.parametrize(
    "arguments",
    [
        (1, 2),
        ("start", {}),
        ("start", {"generation": "two"}),
        ("begin", {"generation": 2}),
        ("\ud800", {"generation": 2}),
        ("stop", {"generation": -1}),
    ],
)
def test_odd_arguments_raise_nothing(tmp_path, arguments):
    with plimsoll.record(tmp_path / "run.plim", adapter="none"):
        assert _record.mark_collection(*arguments) is None
