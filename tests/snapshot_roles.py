"""Measures how many bytes of a recording get the right category when it is read as a snapshot.

    python -m tests.snapshot_roles RUN.plim…

A native recording has the category of each allocation. It is written as a snapshot, whose events
keep sizes, addresses and Python stacks. Categories are removed, and so are the stacks of backward,
which autograd's threads do not have on CUDA. The inferred categories are then compared with the
recorded ones. Two differences do not count: buffers may be parameters, and memory that an operator
of forward or backward frees before it returns may count as its result.
"""

from __future__ import annotations

import collections
import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import plimsoll

# Memory live within one operator and slightly longer looks the same from outside.
SHORT_LIVED = {
    "backward": {"temporary", "activation_gradient"},
    "forward": {"temporary", "activation"},
}


class Score(NamedTuple):
    """Shares of the allocated bytes, from 0 to 1."""

    right: float  # the same category
    unknown: float  # unknown
    wrong: float
    confusions: dict[tuple[str, str], int]  # bytes by (recorded, inferred)


def write_as_snapshot(recording: str, path: str) -> dict[str, list[Any]]:
    """Write a recording with only what a CUDA snapshot has, and return the recorded events."""
    recorded = plimsoll.open(recording).events.to_pydict()
    plimsoll.open(recording).export(path, "snapshot")
    phases = zip(recorded["action"], recorded["phase"], strict=True)
    _strip(path, [phase == "backward" for action, phase in phases if action == "alloc"])
    return recorded


def score(recording: str) -> Score:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.pickle")
        recorded = write_as_snapshot(recording, path)
        inferred = plimsoll.open(path).events.to_pydict()
    found = [
        category
        for action, category in zip(inferred["action"], inferred["category"], strict=True)
        if action == "alloc"
    ]
    bytes_by: collections.Counter[tuple[str, str]] = collections.Counter()
    allocations = [row for row, action in enumerate(recorded["action"]) if action == "alloc"]
    for row, category in zip(allocations, found, strict=True):
        known, phase = recorded["category"][row], recorded["phase"][row]
        if known == "buffer":
            known = "parameter"  # modules create and move both in the same way
        pair = {known, category}
        same = known == category or pair <= SHORT_LIVED.get(phase, set())
        bytes_by[known, known if same else category] += recorded["size_bytes"][row]
    total = sum(bytes_by.values())
    right = sum(size for (known, category), size in bytes_by.items() if known == category)
    unknown = sum(
        size for (known, category), size in bytes_by.items() if category == "unknown" != known
    )
    return Score(right / total, unknown / total, 1 - (right + unknown) / total, dict(bytes_by))


def _strip(path: str, is_backward: list[bool]) -> None:
    """Remove everything that a CUDA snapshot would not have."""
    with open(path, "rb") as file:
        snapshot: Any = pickle.load(file)
    backward = iter(is_backward)
    for trace in snapshot["device_traces"]:
        for event in trace:
            event.pop("category", None)
            if event["action"] == "alloc" and next(backward):
                event["frames"] = []
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)


def main(recordings: list[str]) -> None:
    print("| recording | right | left open | wrong |\n|---|---|---|---|")
    for recording in recordings:
        it = score(recording)
        print(f"| {Path(recording).stem} | {it.right:.1%} | {it.unknown:.1%} | {it.wrong:.1%} |")
        for (known, category), size in sorted(it.confusions.items(), key=lambda pair: -pair[1]):
            if known != category and size > 0.005 * sum(it.confusions.values()):
                print(f"  {size:,} B of {known} said to be {category}")


if __name__ == "__main__":
    main(sys.argv[1:])
