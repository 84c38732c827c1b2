"""Generated ranks: the tables of one small recording, varied as a large run would vary them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from plimsoll.fleet.partial import Part, RunOptions, part_of

GIB = 1 << 30
MIB = 1 << 20

SITES = [
    ("parameter", "", "blocks.*.mlp", "weight = torch.empty(...)", "model.py:12 (MLP.__init__)"),
    ("optimizer_state", "optimizer", "blocks.*.mlp", "optimizer.step()", "train.py:40 (train)"),
    ("gradient", "backward", "blocks.*.mlp", "loss.backward()", "train.py:39 (train)"),
    ("activation", "forward", "blocks.*.attention", "q @ k", "model.py:30 (Attention.forward)"),
    ("activation", "forward", "blocks.*.mlp", "self.up(x)", "model.py:20 (MLP.forward)"),
    ("activation", "forward", "head", "self.head(x)", "model.py:50 (Model.forward)"),
]
BYTES = [8 * GIB, 16 * GIB, 8 * GIB, 6 * GIB, 3 * GIB, 1 * GIB]

Change = Callable[[int, dict[str, Any], list[int]], None]
"""Changes the row of a rank and its bytes by site."""


def tables_of(
    rank: int,
    change: Change | None = None,
    *,
    steps: int = 20,
    seed: int = 0,
    severity: str = "info",
    has_findings: bool = True,
) -> dict[str, Any]:
    """Return the tables of a rank, as `plimsoll._core.fleet_tables` does."""
    noise = random.Random(rank * 1_000 + seed)
    sizes = [size + (noise.randrange(8) * MIB if i > 2 else 0) for i, size in enumerate(BYTES)]
    row: dict[str, Any] = {
        "rank": rank,
        "path": f"rank{rank}.plim",
        "host": f"node{rank // 8}",
        "command": "train.py --size large",
        "python": "3.11.7",
        "torch": "2.13.0",
        "started_ns": 1_700_000_000_000_000_000 + rank * 1_000_000 + seed * 3_600_000_000_000,
        "device": f"cuda:{rank % 8}",
        "capacity_bytes": 80 * GIB,
        "reserved_bytes": 50 * GIB,
        "used_bytes": 52 * GIB + noise.randrange(64) * MIB,
        "process_bytes": 9 * GIB,
        "peak_step": 3,
        "peak_phase": "backward",
        "peak_layer": "head",
        "unused_bytes": None,
        "steps": steps,
        "events": 1_000_000,
        "ooms": 0,
        "oom_time_ns": None,
        "oom_request_bytes": None,
        "oom_cause": "",
        "role": 7,
        "incomplete": "",
        "version": "1.0",
    }
    if change is not None:
        change(rank, row, sizes)
    row["peak_bytes"] = sum(sizes)
    device = row["device"]
    names = ("category", "phase", "layer", "text", "place")
    sites = [dict(zip(names, site, strict=True)) | {"site": i + 1} for i, site in enumerate(SITES)]
    for site in sites:
        site |= {"operator": "aten::mm", "function": "forward", "dtype": "", "example_layer": ""}
    peaks = [
        {"point": "peak", "device": device, "site": i + 1, "bytes": size, "count": 32}
        | {"largest_bytes": size // 32, "shape": "[1024, 4096]", "layers": 32}
        for i, size in enumerate(sizes)
    ]
    stepped = [
        {
            "device": device,
            "step": i + 1,
            "steps": 1,
            "end_time_ns": i * 10**9,
            "duration_ns": 10**9,
        }
        | {"peak_bytes": row["peak_bytes"] - noise.randrange(64) * MIB, "end_bytes": 32 * GIB}
        | {"parameter_bytes": sizes[0], "activation_bytes": sum(sizes[3:])}
        for i in range(steps)
    ]
    finding = {"finding": 0, "id": "activations_dominate", "severity": severity} | {
        "title": "Activations fill a quarter of the peak",
        "next_step": "Checkpoint the blocks",
        "saving_bytes": 5 * GIB,
        "holder": "",
    }
    return {
        "ranks": _typed(row | {"peak_bytes": row["peak_bytes"]}),
        "steps": pa.Table.from_pylist(stepped),
        "peaks": pa.Table.from_pylist(peaks),
        "sites": pa.Table.from_pylist(sites),
        "findings": pa.Table.from_pylist([finding]).slice(0, int(has_findings)),
    }


def _typed(row: dict[str, Any]) -> Any:
    integers = {"unused_bytes", "oom_time_ns", "oom_request_bytes"}
    schema = pa.schema(
        (name, pa.int64() if name in integers or isinstance(value, int) else pa.string())
        for name, value in row.items()
    )
    return pa.Table.from_pylist([row], schema=schema)


def runner(
    change: Change | None = None, **more: Any
) -> Callable[[Sequence[str], RunOptions], Iterator[Part]]:
    """Return a runner that makes up the recordings ``rank0.plim``, ``rank1.plim`` and so on."""

    def run(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
        for path in paths:
            rank = int(path.removeprefix("rank").removesuffix(".plim"))
            yield part_of(path, tables_of(rank, change, **more), options)

    return run


def paths(count: int) -> list[str]:
    """Return the names of the recordings of so many ranks."""
    return [f"rank{i}.plim" for i in range(count)]
