"""Two ranks train a model sharded by fully_shard; rank 0 is recorded into sys.argv[1]."""

from __future__ import annotations

import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import plimsoll

WIDTH, BLOCKS, STEPS = 256, 3, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def train() -> None:
    model = nn.Sequential(*[Block() for _ in range(BLOCKS)])
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        model(torch.randn(8, WIDTH)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def run(rank: int, store: str, path: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    if rank == 0:
        with plimsoll.record(path):
            train()
    else:
        train()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        arguments = (f"{folder}/store", sys.argv[1])
        torch.multiprocessing.spawn(run, args=arguments, nprocs=2)
