"""Programs with several processes: workers, shared memory, forks and ranks."""

from __future__ import annotations

import os
import socket
import traceback
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests.recording.sacred import boundary, counts, plain, program, raised_by
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset


@program
def shared_memory() -> Any:
    model, plain_one = nn.Linear(4, 4), torch.ones(100)
    before = plain_one.data_ptr()
    plain_one.share_memory_()
    model.share_memory()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    boundary()
    moved = plain_one.data_ptr() != before
    shared = [p.is_shared() for p in model.parameters()]
    return moved, shared, list(model.parameters()), counts(plain_one, model.weight)


def double(inbox: Any, outbox: Any) -> None:
    while (tensor := inbox.get()) is not None:
        tensor *= 2
        outbox.put([tensor, tensor + 1])
    inbox.close()


def passed_through_queues(strategy: str) -> Any:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(strategy)
    try:
        context = mp.get_context("fork")
        inbox, outbox = context.Queue(), context.Queue()
        process = context.Process(target=double, args=(inbox, outbox))
        process.start()
        kept = torch.arange(1000.0)
        inbox.put(kept)
        results = [each.clone() for each in outbox.get(timeout=30)]
        inbox.put(None)
        process.join(30)
        return kept, results, process.exitcode, kept.is_shared(), counts(kept)
    finally:
        mp.set_sharing_strategy(before)


class Failing(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if index == 2:
            raise ValueError(f"item {index}")
        return torch.randn(3)


def loaded_by_workers(strategy: str) -> Any:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(strategy)
    try:
        data = TensorDataset(torch.randn(12, 3))
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for (batch,) in DataLoader(data, batch_size=4, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            loss = model(batch).square().sum()
            loss.backward()
            optimizer.step()
            boundary()
            losses.append([loss, batch.is_shared(), counts(batch)])
        return losses
    finally:
        mp.set_sharing_strategy(before)


@program
def queues_by_file_descriptor() -> Any:
    return passed_through_queues("file_descriptor")


@program
def queues_by_file_system() -> Any:
    return passed_through_queues("file_system")


@program
def workers_by_file_descriptor() -> Any:
    return loaded_by_workers("file_descriptor")


@program
def workers_by_file_system() -> Any:
    return loaded_by_workers("file_system")


@program
def workers_that_fail() -> Any:
    reported = raised_by(lambda: list(DataLoader(Failing(), batch_size=1, num_workers=1)))
    return reported[0], reported[1].strip().splitlines()[-1]


@program
def forked_child() -> Any:
    """Both the child and its parent continue to train."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        os.write(writer, repr(plain(model.weight)).encode())
        os._exit(0)
    os.close(writer)
    reported = os.read(reader, 1000).decode()
    os.close(reader)
    status = os.waitpid(child, 0)[1]
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return reported, status, model.weight


def rank(number: int, port: int, outbox: Any) -> None:
    try:
        torch.set_num_threads(1)
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("gloo", init_method=address, rank=number, world_size=2)
        outbox.put((number, plain([data_parallel(), sharded(), sharded_flat()])))
        dist.destroy_process_group()
    except BaseException:
        outbox.put((number, traceback.format_exc()))


def trained(model: nn.Module) -> Any:
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.full((2, 4), float(dist.get_rank() + step))).square().sum()
        loss.backward()
        optimizer.step()
        boundary()
        losses.append(loss)
    return losses


def data_parallel() -> Any:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)))
    losses = trained(model)
    return losses, list(model.parameters()), [p.grad for p in model.parameters()]


def sharded() -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    fully_shard(model[0])
    fully_shard(model)
    losses = trained(model)
    return losses, [p.full_tensor().detach() for p in model.parameters()]


def sharded_flat() -> Any:
    """The older FSDP, with one flat parameter whose storage is resized in each step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    wrapped = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    losses = trained(wrapped)
    with FullyShardedDataParallel.summon_full_params(wrapped):
        return losses, [p.detach().clone() for p in wrapped.parameters()]


@program
def ranks() -> Any:
    """Rank 0 is this process, which is the one that is recorded."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("fork")
    outbox = context.SimpleQueue()
    other = context.Process(target=rank, args=(1, port, outbox))
    other.start()
    rank(0, port, outbox)
    reported = sorted(outbox.get() for _ in range(2))
    other.join(30)
    return reported, other.exitcode
