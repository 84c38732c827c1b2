"""The lines about what fills a device, from a trace or directly from the recorder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from plimsoll import _record
from plimsoll._oom.request_lines import is_users, line_text, user_line
from plimsoll._process.recordings import running
from plimsoll._process.sizes import size_text


def failures_of(trace: Any, device: int) -> list[dict[str, Any]]:
    """Return the out-of-memory events of a CUDA device in the trace."""
    (row,) = [each for each in trace.devices if each["device"] == device]
    details: list[dict[str, Any]] = row["oom_details"]
    return details


def of_trace(trace: Any, details: dict[str, Any]) -> Iterator[str]:
    """Return the lines for the failure with these `details`."""
    tables = trace.tables
    yield (
        f"device       {size_text(details['reserved_bytes'])} reserved, "
        f"{size_text(details['requested_active_bytes'])} of it in use; "
        f"largest gap for this request {size_text(details['largest_usable_bytes'])}"
    )
    if details["line"] and not user_line():
        yield f"requested at {details['line']}"
    for label, rows in (
        ("filled with", tables["by_category"]),
        ("by layer", tables["by_layer"]),
        ("by line", tables["by_line"]),
    ):
        text = _shares((each["key"], each["bytes"]) for each in rows)
        if text:
            yield f"{label:<13}{text}"
    pins = details["pinning_lines"]
    pinned = f", pinned by {pins[0]['line']}" if pins and pins[0].get("line") else ""
    yield f"stranded     {size_text(details['stranded_bytes'])}{pinned}"
    if details["private_idle_bytes"]:
        idle = size_text(details["private_idle_bytes"])
        yield f"idle         {idle} in {details['private_pools']} (CUDA graph or MemPool)"
    yield from _needed(details["need"])
    yield from _since_last_step(tables)
    for finding in trace.findings:
        if finding["id"] == "out_of_memory":  # the first one describes the last failure
            for at, step in enumerate(finding["steps"]):
                yield f"{'or' if at else 'next':<13}{step['text']}"
            break


def _needed(need: dict[str, Any]) -> Iterator[str]:
    if need["bytes"] is not None and need["available_bytes"] is not None:
        available = size_text(need["available_bytes"])
        yield f"whole step   needs about {size_text(need['bytes'])}; {available} are available"


def _since_last_step(tables: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    complete = [each for each in tables["steps"] if each["is_complete"]]
    if not complete:
        return
    last = complete[-1]
    before = {each["category"]: each["end_bytes"] for each in last["categories"]}
    now = {each["key"]: each["bytes"] for each in tables["by_category"]}
    changes = {key: now.get(key, 0) - before.get(key, 0) for key in before | now}
    yield f"since step {last['step']}: {_changes(changes)}"


def of_recorder(ordinal: int) -> Iterator[str]:
    """Return the lines for the current state of a CUDA device."""
    device = _record.device("cuda", ordinal)
    recordings = running()
    sums, pins = recordings[-1].pins(device) if recordings else ({}, [])
    sample = _record.take_sample(large_tensor_bytes=1 << 20, large_tensors=3)
    rows = [each for each in sample.devices if each.name == f"cuda:{ordinal}"]
    if rows:
        yield from _from_sample(rows[0], sums)
    if sums:
        stranded = f"stranded     {size_text(sums['stranded_bytes'])}"
        yield stranded + _pinned_by(pins if sums["stranded_bytes"] else [])
    since = recordings[-1].since_step(device) if recordings else None
    if since is not None:
        yield f"since step {since[0]}: {_changes(since[1])}"


def _from_sample(row: Any, sums: dict[str, int]) -> Iterator[str]:
    device = f"{size_text(row.live_bytes)} in {_blocks(row.live_count)}"
    if row.reserved_bytes is not None:
        device = f"{size_text(row.reserved_bytes)} reserved, {device}"
    if sums:
        device += f"; largest gap for this request {size_text(sums['largest_usable_bytes'])}"
    yield f"device       {device}"
    for label, shares in (("filled with", row.categories), ("by layer", row.layers)):
        text = _shares((each.name or "no layer", each.size_bytes) for each in shares)
        if text:
            yield f"{label:<13}{text}"
    largest = [
        " ".join(word for word in (each.name or each.category, each.shape, each.dtype) if word)
        + f" {size_text(each.size_bytes)}"
        for each in row.large_tensors
    ]
    if largest:
        yield f"largest      {'; '.join(largest)}"


def _pinned_by(pins: list[dict[str, Any]]) -> str:
    """Return the line whose blocks pin the most, with its layer or operator."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for pin in pins:
        line = next((line_text(*frame) for frame in pin["stack"] if is_users(frame[0])), "")
        sums = places.setdefault((pin["layer"], pin["op"], line), [0, 0, 0])
        for at, key in enumerate(("pinned_bytes", "count", "size_bytes")):
            sums[at] += pin[key]
    if not places:
        return ""
    words, (_, count, size) = max(places.items(), key=lambda place: place[1])
    where = ", ".join(word for word in words if word) or "memory from before the recording"
    return f", pinned by {_blocks(count)} ({size_text(size)}) of {where}"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


def _changes(changes: dict[str, int]) -> str:
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:3]
    text = ", ".join(f"{key} {'+' if by > 0 else ''}{size_text(by)}" for key, by in largest if by)
    return text or "nothing has changed"


def _shares(rows: Iterable[tuple[str, int]]) -> str:
    """Return the three largest shares; empty if none of them is known."""
    largest = sorted((row for row in rows if row[1] > 0), key=lambda row: -row[1])[:3]
    if all(name == "unknown" for name, _ in largest):
        return ""
    return ", ".join(f"{name} {size_text(size)}" for name, size in largest)
