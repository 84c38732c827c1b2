"""What holds the memory of a monitored program, by a recording in memory of this moment.

For alerts, and for `plimsoll holders PID`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from plimsoll import _record
from plimsoll._torch import attachment
from plimsoll._torch.libtorch_attachment import LibtorchAttachment
from plimsoll.recording import WALK_MS

# What the model and its optimizer hold in every healthy run. Alerts about it name no holder.
_OF_MODEL = {"parameter", "buffer", "optimizer_state", "gradient"}
_OF_CUT = ("is_cut", "freed_bytes", "left_bytes", "other", "is_native")
_LEAST_SHARE = 0.5  # of the memory, else several things hold it

_answer: int | None = None  # file descriptor


def holder_of(alert: _record.MemoryAlert) -> _record.HeldBy | None:
    """Return what holds most of the memory that an alert is about; None if unknown.

    Takes 0.1 to 0.3 s. Call it between two steps, on the thread that trains.
    """
    try:
        from plimsoll.trace import open_bytes
    except ImportError:  # only the recorder is installed
        return None
    data = _recorded()
    return None if data is None else _most(open_bytes(data, name="alert"), alert)


def answer() -> None:
    """Keep a recording in a file without a name, which the command finds among those of the PID.

    Does nothing unless the command asks. With a recording, the adapter's hooks answer.
    """
    global _answer
    attached = attachment.attached()
    if not isinstance(attached, LibtorchAttachment) or not attached.records_less("lite", False):
        return
    if not _record.wants_holders():
        return
    data = _recorded()
    if data is None:
        return
    before, _answer = _answer, os.memfd_create("plimsoll-holders")
    with open(_answer, "wb", closefd=False) as file:
        file.write(data)
    if before is not None:
        os.close(before)


def _recorded() -> bytes | None:
    attached = attachment.attached()
    if attached is None:
        return None
    recording = _record.Recording(b"", False, 0, False, False, False, {})
    try:
        is_found = attached.find_holders(WALK_MS)
    finally:
        data = recording.take()[1]
    return data if is_found else None


def _most(trace: Any, alert: _record.MemoryAlert) -> _record.HeldBy | None:
    lifetimes, events = trace.lifetimes.to_pydict(), trace.events.to_pydict()
    is_known = "holder" in lifetimes and "category" in events
    if not is_known or alert.device not in events["device"]:
        return None
    first = events["device"].index(alert.device)
    total = 0
    held: dict[str, list[int]] = defaultdict(list)
    columns = (lifetimes[name] for name in ("device", "alloc_event", "size_bytes", "holder"))
    for device, event, size_bytes, holder in zip(*columns, strict=True):
        if device != alert.device or event is None:
            continue
        category = events["category"][first + event]
        if category in _OF_MODEL or alert.subject not in (category, "", "*"):
            continue
        total += size_bytes
        if holder is not None:
            held[holder].append(size_bytes)
    path = max(held, key=lambda each: sum(held[each]), default=None)
    if path is None or sum(held[path]) < _LEAST_SHARE * total:
        return None
    rows = trace.ask(at="end").tables["holders"]
    row: dict[str, Any] = next((row for row in rows if row["path"] == path), {})
    by, holder = _record.HeldBy(), _record.FindingHolder()
    holder.path, holder.bytes, holder.count = path, sum(held[path]), len(held[path])
    for name in ("type", "length", "limit", *_OF_CUT):
        setattr(holder, name, row.get(name, getattr(holder, name)))
    by.holder, by.edit = holder, row.get("edit", "")
    return by
