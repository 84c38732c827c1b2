"""Searches of Python's heap find everything once, whether all or only new objects are searched."""

import gc
import random

import pytest
import torch
from torch import nn


def adopted(recorder):
    """The sizes of what has been described since the last call."""
    return [e["size"] for e in recorder.take() if e["kind"] in ("tag", "adopt") and e["size"]]


def a_tensor(recorder, elements):
    tensor = torch.zeros(elements)
    recorder.take()
    return tensor


@pytest.mark.parametrize("collections", [[], [0], [1], [2], [0, 1], [1, 2], [2, 2]])
def test_new_objects_are_found_wherever_the_collector_has_moved_them(recorder, collections):
    recorder.survey("new")
    tensor = a_tensor(recorder, 12_345)
    for generation in collections:
        gc.collect(generation)
    recorder.survey("new")
    assert 4 * 12_345 in adopted(recorder)
    recorder.survey("new")
    assert 4 * 12_345 not in adopted(recorder), "not searched again"
    recorder.survey("all")
    assert 4 * 12_345 in adopted(recorder)
    del tensor


def test_frozen_objects_are_found(recorder):
    recorder.survey("new")
    tensor = a_tensor(recorder, 12_345)
    gc.freeze()
    try:
        recorder.survey("all")
        assert 4 * 12_345 in adopted(recorder)
        after = a_tensor(recorder, 12_346)
        recorder.survey("new")
        assert 4 * 12_346 in adopted(recorder)
    finally:
        gc.unfreeze()
    del tensor, after


def test_a_search_of_all_finds_what_the_collector_lists(recorder):
    kept = [torch.zeros(random.Random(i).randint(1, 5000)) for i in range(500)]
    dropped = [torch.zeros(7) for _ in range(500)]
    cycle = [dropped]
    cycle.append(cycle)
    del dropped, cycle
    gc.collect()
    recorder.take()
    recorder.survey("all")
    plain = (torch.Tensor, nn.Parameter)
    listed = [
        each for each in gc.get_objects() if type(each) in plain and each.device.type == "cpu"
    ]
    wanted = {e.untyped_storage().data_ptr() for e in listed if e.untyped_storage().nbytes()}
    reported = {e["address"] for e in recorder.take() if e["kind"] in ("tag", "adopt")}
    assert wanted <= reported
    assert len(kept) == 500


def functions(count):
    """Functions are in the collector's lists; so many that searches begin at some of them."""

    def make(number):
        return lambda: number

    return [make(i) for i in range(count)]


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_searches_find_all_when_what_they_began_at_has_died_or_moved(recorder, share):
    made = functions(400_000)
    kept = []
    for size in range(3000, 3050):
        kept.append(torch.zeros(size))
        made += functions(200)
    gc.collect()
    recorder.survey("all")
    wanted = {tensor.data_ptr() for tensor in kept}
    for collection in (0, 2):
        del made[: int(share * len(made))]
        gc.collect(collection)
        for _ in range(2):
            recorder.take()
            recorder.survey("all")
            reported = {e["address"] for e in recorder.take() if e["kind"] in ("tag", "adopt")}
            assert wanted <= reported


def test_garbage_that_is_created_and_collected_between_searches_is_harmless(recorder):
    dice = random.Random(3)
    for _ in range(50):
        kept = []
        for _ in range(dice.randint(0, 300)):
            link = [torch.zeros(dice.randint(1, 50))]
            link.append(link)
            if dice.random() < 0.3:
                kept.append(link)
        if dice.random() < 0.5:
            gc.collect(dice.randint(0, 2))
        recorder.take()
        recorder.survey("new")
        reported = {e["address"] for e in recorder.take() if e["kind"] in ("tag", "adopt")}
        assert {link[0].data_ptr() for link in kept} <= reported
