#!/usr/bin/env python3
"""Times and sizes of fleets: 4,096 generated ranks, and 10,000 runs of 8 ranks.

One rank has 2 GiB more at a line. Of the runs, the peak rises by 1 GiB from the 7,000th on.

    pip install '.[fleet]' && python bench/fleet.py
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python/tests"))

from generated_ranks import GIB, paths, runner, tables_of

from plimsoll import fleet
from plimsoll.fleet.folder import SITES, TABLES, Folder
from plimsoll.fleet.partial import RunOptions, parquet_bytes, part_of


def size_of(folder: str) -> tuple[int, int]:
    """Return the bytes and the number of files."""
    found = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    return sum(map(os.path.getsize, found)), len(found)


def timed(what: str, action: Callable[[], Any]) -> Any:
    """Print how long the action takes."""
    begin = time.perf_counter()
    result = action()
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {what} | {seconds:.2f} s | {memory:,.0f} MiB |", flush=True)
    return result


def ranks(folder: str, count: int) -> None:
    """Add the ranks of one run, and find the one that differs."""

    def more(rank: int, row: dict[str, Any], sizes: list[int]) -> None:
        if rank == count // 3:
            sizes[4] += 2 * GIB

    fleet.add(folder, paths(count), run="a", runner=runner(more))
    answer = timed(f"show {count:,} ranks", lambda: fleet.open(folder).show())
    assert answer.verdicts[0]["title"].startswith(f"Rank {count // 3} peaks at"), answer.verdicts
    print(f"\n{size_of(folder)[0] / 1e6:.2f} MB in {size_of(folder)[1]} files\n")


def runs(folder: str, count: int) -> None:
    """Write so many runs of 8 ranks in joined files, and look at their history."""
    import io

    import numpy as np
    import pyarrow.parquet as pq

    parts = [part_of("", tables_of(rank, steps=5), RunOptions("run")) for rank in range(8)]
    target = Folder(folder)
    target.write(f"{SITES}/{parts[0].sites}", parts[0].files[SITES])
    for table in reversed(TABLES):
        one = pa.concat_tables([pq.read_table(io.BytesIO(part.files[table])) for part in parts])
        each = one.num_rows
        whole = pa.concat_tables([one] * count)
        of_run = np.repeat(np.arange(count), each)
        names = pa.array([f"run{i:05}" for i in range(count)])
        replaced = {"run": names.take(pa.array(of_run))}
        if table == "ranks":
            commits = pa.array([f"{i:07x}" for i in range(count)])
            rise = np.where(of_run >= count * 7 // 10, GIB, 0)
            started = np.asarray(whole["started_ns"]) + of_run * 3_600_000_000_000
            replaced |= {
                "commit": commits.take(pa.array(of_run)),
                "started_ns": pa.array(started),
                "peak_bytes": pa.array(np.asarray(whole["peak_bytes"]) + rise),
            }
        for name, column in replaced.items():
            whole = whole.set_column(whole.schema.get_field_index(name), name, column)
        target.write(f"{table}/joined/all-0", parquet_bytes(whole))
    history = timed(f"history of {count:,} runs of 8 ranks", lambda: fleet.open(folder).history())
    changed = [row["run"] for row in history.runs if row["change_bytes"]]
    assert changed == [f"run{count * 7 // 10:05}"], changed
    shown = timed(f"show one of {count:,} runs", lambda: fleet.open(folder).show("run00042"))
    assert shown.run["ranks"] == 8
    print(f"\n{size_of(folder)[0] / 1e6:.2f} MB in {size_of(folder)[1]} files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=4_096)
    parser.add_argument("--runs", type=int, default=10_000)
    args = parser.parse_args()
    print("| question | time | memory of the process |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        ranks(folder, args.ranks)
    with tempfile.TemporaryDirectory() as folder:
        runs(folder, args.runs)


if __name__ == "__main__":
    main()
