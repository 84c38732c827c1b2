"""The live memory of a trace at each step boundary, summed from its raw columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

import plimsoll


@dataclass
class Boundary:
    step: int
    categories: Counter[str] = field(default_factory=Counter)
    unseen_bytes: int = 0  # adopted: it was live when the recording began

    @property
    def live_bytes(self) -> int:
        return sum(self.categories.values())


def boundaries(trace: plimsoll.Trace) -> list[Boundary]:
    """One item per step mark, in order; CPU only."""
    events = pa.table(trace.events).to_pylist()
    lifetimes = pa.table(trace.lifetimes).to_pylist()
    marks = [m for m in pa.table(trace.marks).to_pylist() if m["kind"] == "step"]
    assert {e["device"] for e in events} <= {"cpu"}
    begun = next((i for i, e in enumerate(events) if not e.get("is_adopted")), len(events))
    found = []
    for mark in marks:
        boundary = Boundary(mark["step"])
        for lifetime in lifetimes:
            born, died = lifetime["alloc_event"], lifetime["free_completed_event"]
            assert born is not None
            if born >= mark["event"] or (died is not None and died < mark["event"]):
                continue
            event = events[born]
            boundary.categories[event.get("category") or "none"] += lifetime["size_bytes"]
            if born < begun:
                boundary.unseen_bytes += lifetime["size_bytes"]
        found.append(boundary)
    return found
