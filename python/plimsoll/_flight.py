"""The flight recorder: what is said when a CUDA device runs out of memory.

Called on the failing thread, before the exception reaches Python. First the traces are brought to
disk; then some ten lines are printed, and kept beside the trace: who asked, what filled the device,
what is stranded, what has changed since the last step. They come from the trace where the engine is
installed, else from what the recorder itself knows.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from plimsoll import _attachment, _record
from plimsoll._sizes import size_text

_MOST_TOLD = 3  # a program that looks for its largest batch runs out again and again
_LARGEST_FILE = 1 << 29  # a larger trace is not read while the program waits
_DRIVER_WAIT = 0.5  # seconds, for what it says of the device

_told = 0


def out_of_memory(device: int, requested: int, free: int, limit: int) -> None:
    """Writes and prints the report. Raises nothing."""
    global _told
    from plimsoll.recording import running

    recordings = running()
    _told += 1
    with contextlib.suppress(Exception):
        if _told <= _MOST_TOLD:
            attached = _attachment.attached()
            if attached is not None:
                attached.survey()  # what no call has told of yet: a model that was only just moved
            # Asked before the traces are brought to disk: they get it, too.
            bar = _record.device_bar(device, _DRIVER_WAIT)
        for each in recordings:
            if _told <= _MOST_TOLD:
                each.attach_cuda_history()
            each.flush()
        if _told > _MOST_TOLD:
            if _told == _MOST_TOLD + 1:
                _print(["out of memory again; it is recorded, and from now on not told"])
            return
        trace = None
        for each in recordings:
            trace = trace or _read(each.path, device)
        lines = [*_head(device, requested, free, limit), *_body(trace, device)]
        if bar is not None:
            of_all = f"{size_text(bar.used_bytes)} of {size_text(bar.total_bytes)}"
            lines.append(f"whole GPU    {of_all} used: {bar.text()}")
        if recordings:
            lines.append(f"all of it    plimsoll report {_short(recordings[-1].path)} --at oom")
        _print(lines)
        for each in recordings:
            with open(f"{os.path.splitext(each.path)[0]}.oom.txt", "a") as file:
                file.write("\n".join(lines) + "\n\n")


def _print(lines: list[str]) -> None:
    first, *others = lines
    text = "\n".join([f"plimsoll: {first}", *(f"  {line}" for line in others)])
    print(text, file=sys.stderr, flush=True)


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


# ---- who asked -----------------------------------------------------------------------------------


def _head(device: int, requested: int, free: int, limit: int) -> Iterator[str]:
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK")
    of_rank = f" of rank {rank}" if rank else ""
    yield (
        f"out of memory on cuda:{device}{of_rank}: {size_text(requested)} asked for, "
        f"{size_text(free)} free of {size_text(limit)}"
    )
    doing = _record.context()
    operator = doing["op"] or "no operator"
    if doing["forward_op"]:
        operator += f" (of {doing['forward_op']})"
    where = [doing["layer"] or "no layer", operator, doing["phase"]]
    line = _line()
    yield "asked by     " + ", ".join([*where, *([line] if line else [])])


def _line() -> str:
    """The innermost line of the user's program; threads of autograd have none."""
    ours, torchs = os.path.dirname(os.path.abspath(__file__)), f"{os.sep}torch{os.sep}"
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((ours, "<")) and torchs not in file:
            return f"{_short(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


# ---- what fills the device -----------------------------------------------------------------------


def _body(trace: Any, device: int) -> Iterator[str]:
    if trace is not None:
        yield from _from_trace(trace, device)
    else:
        yield from _from_recorder(device)


def _read(path: str, device: int) -> Any:
    """The trace at the moment of failure; None where there is no engine, or too much to read."""
    try:
        from plimsoll.trace import open as open_trace

        if os.path.getsize(path) > _LARGEST_FILE:
            return None
        return open_trace(path, device=f"cuda:{device}", at="oom")
    except Exception:
        return None


def _from_trace(trace: Any, device: int) -> Iterator[str]:
    tables = trace.tables
    (row,) = [each for each in trace.devices if each["device"] == device]
    details = row["oom_details"][-1]
    yield (
        f"device       {size_text(details['reserved_bytes'])} reserved, "
        f"{size_text(details['requested_active_bytes'])} of it in use; "
        f"largest gap for this request {size_text(details['largest_usable_bytes'])}"
    )
    if details["line"] and not _line():
        yield f"asked at     {details['line']}"
    for label, rows in (
        ("filled with", tables["by_category"]),
        ("by layer", tables["by_layer"]),
        ("by line", details["top_lines"]),
    ):
        text = _shares((each["key"], each["bytes"]) for each in rows)
        if text:
            yield f"{label:<13}{text}"
    pins = details["pinning_lines"]
    pinned = f", pinned by {pins[0]['line']}" if pins and pins[0].get("line") else ""
    yield f"stranded     {size_text(details['stranded_bytes'])}{pinned}"
    yield from _since_last_step(tables)
    if trace.findings:
        yield f"next         {trace.findings[0]['next_step']}"


def _since_last_step(tables: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    complete = [each for each in tables["steps"] if each["is_complete"]]
    if not complete:
        return
    last = complete[-1]
    before = {each["category"]: each["end_bytes"] for each in last["categories"]}
    now = {each["key"]: each["bytes"] for each in tables["by_category"]}
    changes = {key: now.get(key, 0) - before.get(key, 0) for key in before | now}
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:3]
    text = ", ".join(f"{key} {'+' if by > 0 else ''}{size_text(by)}" for key, by in largest if by)
    yield f"since step {last['step']}: {text or 'nothing has changed'}"


def _from_recorder(device: int) -> Iterator[str]:
    sample = _record.take_sample(large_tensor_bytes=1 << 20, large_tensors=3)
    rows = [each for each in sample.devices if each.name == f"cuda:{device}"]
    if rows:
        row = rows[0]
        reserved = (
            "" if row.reserved_bytes is None else f"{size_text(row.reserved_bytes)} reserved, "
        )
        yield f"device       {reserved}{size_text(row.live_bytes)} of it in {row.live_count} blocks"
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
    yield from _stranded(device)


def _stranded(device: int) -> Iterator[str]:
    """What lies free in segments that live blocks pin, as torch's own snapshot has it."""
    cuda: Any = sys.modules["torch"].cuda
    try:
        segments = [each for each in cuda.memory_snapshot() if each["device"] == device]
    except Exception:
        return
    pinned = [each for each in segments if each["active_size"] < each["total_size"]]
    free = [b["size"] for each in pinned for b in each["blocks"] if b["state"] == "inactive"]
    if free:
        yield (
            f"stranded     up to {size_text(sum(free))} free in {len(pinned)} segments that live "
            f"blocks pin; largest gap {size_text(max(free))}"
        )


def _shares(rows: Iterable[tuple[str, int]]) -> str:
    """The three largest; empty where nothing is known of any of them."""
    largest = sorted((row for row in rows if row[1] > 0), key=lambda row: -row[1])[:3]
    if all(name == "unknown" for name, _ in largest):
        return ""
    return ", ".join(f"{name} {size_text(size)}" for name, size in largest)
