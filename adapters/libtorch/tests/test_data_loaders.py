"""Batches count from when a DataLoader returns them, and searches record no memory by chance."""

import multiprocessing
import sys
import threading
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from watching import DATA, INPUT, allocs, tags


class Numbers(Dataset):
    """Tensors of different sizes. The first is ready once `is_first_ready` is set."""

    def __init__(self, is_first_ready):
        self.is_first_ready = is_first_ready

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 0:
            self.is_first_ready.wait()
        return torch.full((1000 + index,), float(index))


def adopted(recorder):
    return {e["size"] for e in recorder.take() if e["kind"] in ("alloc", "adopt")}


def late_loader():
    """An iterator whose second batch is there before the first."""
    is_first_ready = multiprocessing.get_context("fork").Event()
    loader = DataLoader(
        Numbers(is_first_ready), batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    iterator = iter(loader)

    def release_first_batch():
        while not any(len(task) == 2 for task in iterator._task_info.copy().values()):
            time.sleep(0.001)
        is_first_ready.set()

    threading.Thread(target=release_first_batch).start()
    return iterator


def test_a_batch_of_a_worker_counts_from_when_the_loader_returns_it(recorder):
    iterator = late_loader()
    batch, line = next(iterator), sys._getframe().f_lineno
    (event,) = allocs(recorder.take(), size=4000)
    assert event["phase"] == DATA
    assert recorder.stack(event)[0][1] == line
    for part in ("new", "all"):
        recorder.survey(part)
    recorder.describe()
    assert 4004 not in adopted(recorder), "delivered, but not yet returned"
    batch = next(iterator)
    events = recorder.take()
    assert len(allocs(events, size=4004)) == 1
    assert [each["size"] for each in tags(events, INPUT)] == [4004]
    assert batch[0] == 1


def test_memory_of_numpy_counts_when_a_loader_returns_it(recorder):
    items = [torch.from_numpy(np.full(500 + i, 2.0)) for i in range(2)]
    for item in DataLoader(items, batch_size=None):
        assert len(allocs(recorder.take(), size=8 * len(item), phase=DATA)) == 1


def test_own_memory_is_no_input_because_a_loader_returns_it(recorder):
    for _ in DataLoader([torch.zeros(500)], batch_size=None):
        assert tags(recorder.take(), INPUT) == []


def test_a_search_by_the_clock_does_not_record_what_belongs_to_a_step(recorder):
    model = torch.nn.Linear(50, 2)
    optimizer = torch.optim.SGD(model.parameters())
    kept = []
    for step in range(40):
        target = torch.from_numpy(np.zeros((3000 + step, 2), dtype=np.float32))
        kept.append(torch.from_numpy(np.zeros(9000 + step, dtype=np.float32)))
        torch.nn.functional.mse_loss(model(torch.ones(3000 + step, 50)), target).backward()
        optimizer.step()
    found = [e["size"] // 8 for e in recorder.take() if e["kind"] == "adopt" and e["address"]]
    assert {size for size in found if 3000 < size < 3040} == set()
    recorder.survey()
    assert {4 * (9000 + step) for step in range(1, 40)} <= {
        e["size"] for e in recorder.take() if e["kind"] in ("tag", "adopt")
    }


def test_loaders_are_not_watched_after_the_recording(recorder):
    loader = DataLoader([torch.from_numpy(np.zeros(500))], batch_size=None)
    next(iter(loader))
    recorder.detach()
    recorder.take()
    next(iter(loader))
    assert recorder.take() == []
