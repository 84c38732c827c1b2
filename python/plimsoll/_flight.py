"""The flight recorder: the lines printed when a CUDA device runs out of memory.

Called on the failing thread, before the exception reaches Python. First the traces are flushed to
disk; then about ten lines are printed, and written to a file next to the trace: the request, what
fills the device, what is stranded, what has changed since the last step. They come from the trace
if the engine is installed, else from the recorder's own figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from plimsoll import _attachment, _notebook, _record
from plimsoll._messages import print_message
from plimsoll._paths import is_rank
from plimsoll._program_errors import Suppressed, leave_to_program
from plimsoll._sizes import size_text

if TYPE_CHECKING:
    from plimsoll.recording import Recording

_MOST_TOLD = 3  # a program that looks for its largest batch runs out again and again
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_LARGEST_FILE = 1 << 29  # a larger trace is not read while the program waits
_DRIVER_WAIT = 0.5  # seconds, for what it says of the device

_told = 0
_untold: tuple[Failure, list[str], list[Recording]] | None = None  # the last one, and who asked


@dataclass(frozen=True)
class Failure:
    """A request that failed; 0: unknown."""

    device: int
    requested: int
    segment: int  # bytes of the segment requested from the driver for it
    free: int  # of the device
    limit: int  # the most that the process may hold
    total: int  # of the device


def out_of_memory(failure: Failure) -> None:
    """Writes and prints the report. Raises nothing."""
    global _told
    from plimsoll.recording import running

    recordings = running()
    _told += 1
    bar = None
    with Suppressed(Exception):
        for each in recordings:
            each.failures[failure.device] += 1
        if _told <= _MOST_TOLD:
            attached = _attachment.attached()
            if attached is not None:
                attached.survey()  # what no call has reported yet, such as a model just moved
            # Queried before the traces are flushed, so that they get it, too.
            bar = _record.device_bar(failure.device, _DRIVER_WAIT)
        else:
            device = _record.device("cuda", failure.device)
            _record.notice("failures_untold", device, _told - _MOST_TOLD, "")
        for each in recordings:
            if _told <= _MOST_TOLD:
                each.attach_cuda_history()
            each.flush()
        if _told > _MOST_TOLD:
            if _told == _MOST_TOLD + 1:
                _print([_no_more(recordings)])
            _keep(failure, recordings)
            return
        _tell(failure, recordings, bar)


def _keep(failure: Failure, recordings: list[Recording]) -> None:
    """Print this failure if it ends the program, which caught all the earlier ones."""
    global _untold
    if _untold is None:
        show = sys.excepthook

        def hook(kind: type[BaseException], value: BaseException, traceback: Any) -> None:
            if _untold is not None and kind.__name__ == "OutOfMemoryError":
                with Suppressed(Exception):
                    _tell(_untold[0], _untold[2], None, asked=_untold[1])
            show(kind, value, traceback)

        sys.excepthook = hook
    _untold = (failure, list(_head(failure, None)), recordings)


def _tell(
    failure: Failure, recordings: list[Recording], bar: Any, asked: list[str] | None = None
) -> None:
    """`asked`: the lines of the request, if the calling thread is elsewhere by now."""
    path, trace = "", None
    for each in recordings:
        path = each.path
        trace = _read(path, failure.device)
        if trace is not None:
            break
    lines = asked or list(_head(failure, trace))
    if trace is not None or asked is None:
        lines += _body(failure, trace)
    if bar is not None:
        of_all = f"{size_text(bar.used_bytes)} of {size_text(bar.total_bytes)}"
        lines.append(f"whole GPU    {of_all} used: {bar.text()}")
    if recordings:
        # Of several failures, the one that these lines describe.
        nth = recordings[-1].failures[failure.device] if trace is None else _count(trace, failure)
        device = f" --device cuda:{failure.device}" if _device_count() > 1 else ""
        lines.append(f"all of it    plimsoll report {_short(path)} --at oom:{nth}{device}")
    _print(lines)
    for each in recordings:
        with open(f"{os.path.splitext(each.path)[0]}.oom.txt", "a") as file:
            file.write("\n".join(lines) + "\n\n")


def _no_more(recordings: list[Recording]) -> str:
    text = "out of memory again; further failures are not printed"
    for each in recordings:
        text += f", but recorded: plimsoll report {_short(each.path)} --at oom shows the last time"
        break
    return text


def _device_count() -> int:
    return int(sys.modules["torch"].cuda.device_count())


def _details(trace: Any, failure: Failure) -> list[dict[str, Any]]:
    """The failures of the device, as the trace has them."""
    (row,) = [each for each in trace.devices if each["device"] == failure.device]
    ooms: list[dict[str, Any]] = row["oom_details"]
    return ooms


def _count(trace: Any, failure: Failure) -> int:
    return len(_details(trace, failure))


def _print(lines: list[str]) -> None:
    first, *others = lines
    print_message(f"plimsoll: {first}", *(f"  {line}" for line in others))


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


# ---- who asked -----------------------------------------------------------------------------------


def _head(failure: Failure, trace: Any) -> Iterator[str]:
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or ""
    of_rank = f" of rank {rank}" if is_rank(rank) else ""
    requested = failure.requested
    if requested == 0:  # torch's own observers are told of the segment alone
        requested = _details(trace, failure)[-1]["requested_bytes"] if trace else failure.segment
    asked = f"{size_text(requested)} asked for"
    if failure.segment > requested:
        asked += f" (in a segment of {size_text(failure.segment)})"
    free = f"{size_text(failure.free)} free of {size_text(failure.total or failure.limit)}"
    if failure.limit < failure.total:
        free += f", limit {size_text(failure.limit)} set by set_per_process_memory_fraction"
    yield f"out of memory on cuda:{failure.device}{of_rank}: {asked}, {free}"
    doing = _record.context()
    operator = doing["op"]
    if doing["forward_op"]:
        operator += f" (of {doing['forward_op']})"
    phase = doing["phase"] if doing["phase"] != "other" else ""
    where = [word for word in (doing["layer"], operator, phase, _line()) if word]
    yield f"asked by     {', '.join(where) or 'code outside of every layer and operator'}"


def _line() -> str:
    """The innermost line of the user's program; threads of autograd have none."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return _line_text(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
        frame = frame.f_back
    return ""


def _is_users(file: str) -> bool:
    """As src/model/user_line.h has it: packages and the standard library are not."""
    if file in ("<string>", "<stdin>") or file.startswith("<ipython-input-"):
        return True
    in_library = any(
        f"{os.sep}{folder}{os.sep}" in file
        for folder in ("site-packages", "dist-packages", "torch")
    )
    return not in_library and not file.startswith((_PACKAGE, _STANDARD_LIBRARY, "<"))


def _line_text(file: str, function: str, line: int) -> str:
    """As in reports: the last folders of a long path."""
    cell = _notebook.file_name(file, _notebook.cells())
    shown = cell if cell != file else os.sep.join(_short(file).split(os.sep)[-3:])
    return f"{shown}:{line} ({function})"


# ---- what fills the device -----------------------------------------------------------------------


def _body(failure: Failure, trace: Any) -> Iterator[str]:
    if trace is not None:
        yield from _from_trace(trace, failure)
    else:
        yield from _from_recorder(failure)


def _read(path: str, device: int) -> Any:
    """The trace at the time of the failure; None without the engine, or if it is too large."""
    try:
        from plimsoll.trace import open as open_trace

        if os.path.getsize(path) > _LARGEST_FILE:
            return None
        return open_trace(path, device=f"cuda:{device}", at="oom")
    except Exception as error:
        leave_to_program(error)
        return None


def _from_trace(trace: Any, failure: Failure) -> Iterator[str]:
    tables = trace.tables
    details = _details(trace, failure)[-1]
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
        ("by line", tables["by_line"]),
    ):
        text = _shares((each["key"], each["bytes"]) for each in rows)
        if text:
            yield f"{label:<13}{text}"
    pins = details["pinning_lines"]
    pinned = f", pinned by {pins[0]['line']}" if pins and pins[0].get("line") else ""
    yield f"stranded     {size_text(details['stranded_bytes'])}{pinned}"
    yield from _since_last_step(tables)
    for finding in trace.findings:
        if finding["id"] == "out_of_memory":  # the first one is of the last failure
            yield f"next         {finding['next_step']}"
            break


def _since_last_step(tables: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    complete = [each for each in tables["steps"] if each["is_complete"]]
    if not complete:
        return
    last = complete[-1]
    before = {each["category"]: each["end_bytes"] for each in last["categories"]}
    now = {each["key"]: each["bytes"] for each in tables["by_category"]}
    changes = {key: now.get(key, 0) - before.get(key, 0) for key in before | now}
    yield f"since step {last['step']}: {_changes(changes)}"


def _from_recorder(failure: Failure) -> Iterator[str]:
    from plimsoll.recording import running

    device = _record.device("cuda", failure.device)
    recordings = running()
    sums, pins = recordings[-1].pins(device) if recordings else ({}, [])
    sample = _record.take_sample(large_tensor_bytes=1 << 20, large_tensors=3)
    rows = [each for each in sample.devices if each.name == f"cuda:{failure.device}"]
    if rows:
        yield from _from_sample(rows[0], sums)
    if sums:
        stranded = f"stranded     {size_text(sums['stranded_bytes'])}"
        yield stranded + _pinned_by(pins if sums["stranded_bytes"] else [])
    since = recordings[-1].since_step(device) if recordings else None
    if since is not None:
        yield f"since step {since[0]}: {_changes(since[1])}"


def _from_sample(row: Any, sums: dict[str, int]) -> Iterator[str]:
    device = f"{size_text(row.live_bytes)} in {row.live_count} blocks"
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
    """The line whose blocks pin most, with its layer or operator."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for pin in pins:
        line = next((_line_text(*frame) for frame in pin["stack"] if _is_users(frame[0])), "")
        sums = places.setdefault((pin["layer"], pin["op"], line), [0, 0, 0])
        for at, key in enumerate(("pinned_bytes", "count", "size_bytes")):
            sums[at] += pin[key]
    if not places:
        return ""
    words, (_, count, size) = max(places.items(), key=lambda place: place[1])
    blocks = "1 block" if count == 1 else f"{count} blocks"
    where = ", ".join(word for word in words if word) or "memory from before the recording"
    return f", pinned by {blocks} ({size_text(size)}) of {where}"


def _changes(changes: dict[str, int]) -> str:
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:3]
    text = ", ".join(f"{key} {'+' if by > 0 else ''}{size_text(by)}" for key, by in largest if by)
    return text or "nothing has changed"


def _shares(rows: Iterable[tuple[str, int]]) -> str:
    """The three largest; empty where nothing is known of any of them."""
    largest = sorted((row for row in rows if row[1] > 0), key=lambda row: -row[1])[:3]
    if all(name == "unknown" for name, _ in largest):
        return ""
    return ", ".join(f"{name} {size_text(size)}" for name, size in largest)
