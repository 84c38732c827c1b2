"""The report that is printed when a CUDA device runs out of memory.

Called on the failing thread, before the exception reaches Python. First the traces are flushed.
Then about ten lines are printed and written to a file next to the trace: the request, what fills
the device, what is stranded, and what has changed since the last step. They come from the trace if
the engine is installed, else from the recorder's own figures.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from plimsoll import _record
from plimsoll._oom import memory_lines
from plimsoll._oom.request_lines import Failure, request_lines, short_path
from plimsoll._process.messages import print_lines, print_notice
from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll._process.quiet_files import write_all
from plimsoll._process.recordings import running
from plimsoll._process.sizes import size_text

if TYPE_CHECKING:
    from plimsoll.recording import Recording

_MOST_REPORTS = 3  # a program that searches for its largest batch runs out of memory repeatedly
_LARGEST_FILE = 1 << 29  # larger traces are not read while the program waits
_DRIVER_WAIT = 0.5  # seconds to wait for the driver's figures

_failures = 0
_last: tuple[Failure, list[str], list[Recording]] | None = None  # not printed yet


def out_of_memory(failure: Failure, survey: Callable[[], object] | None) -> None:
    """Write and print the report. An error in it is printed and recorded, not raised."""
    try:
        _report(failure, survey)
    except Exception as error:
        leave_to_program(error)
        _report_error(failure, error)


def _report(failure: Failure, survey: Callable[[], object] | None) -> None:
    global _failures
    recordings = running()
    _failures += 1
    for each in recordings:
        each.failures[failure.device] += 1
    if _failures <= _MOST_REPORTS:
        if survey is not None:
            survey()  # records what no hook has reported yet, such as a model just moved
        # Query before flushing the traces, so that they contain the reading.
        bar = _record.device_bar(failure.device, _DRIVER_WAIT)
        for each in recordings:
            each.attach_cuda_history()
            each.flush()
        _publish(_lines(failure, recordings, bar), recordings)
        return
    device = _record.device("cuda", failure.device)
    _record.notice("failures_not_printed", device, _failures - _MOST_REPORTS, "")
    for each in recordings:
        each.flush()
    if _failures == _MOST_REPORTS + 1:
        _print([_no_more(recordings)])
    _print_at_end(failure, recordings)


def _report_error(failure: Failure, error: Exception) -> None:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    text = f"{type(error).__name__}: {error} ({place})"
    print_notice(f"out of memory on cuda:{failure.device}; its report is incomplete: {text}")
    with Suppressed(Exception):  # host memory may be short too
        _record.notice("report_failed", _record.device("cuda", failure.device), 1, text)


def _print_at_end(failure: Failure, recordings: list[Recording]) -> None:
    """Print the last failure if it ends the program; earlier ones were caught."""
    global _last
    if _last is None:
        show = sys.excepthook

        def hook(kind: type[BaseException], value: BaseException, traceback: Any) -> None:
            if _last is not None and kind.__name__ == "OutOfMemoryError":
                failure, request, recordings = _last
                try:
                    _publish(_lines(failure, recordings, None, request), recordings)
                except Exception as error:
                    leave_to_program(error)
                    _report_error(failure, error)
            show(kind, value, traceback)

        sys.excepthook = hook
    _last = (failure, list(request_lines(failure, 0)), recordings)


def _publish(lines: Iterable[str], recordings: list[Recording]) -> None:
    """Print the lines and write them next to each trace; on an error, the lines before it."""
    made: list[str] = []
    try:
        for line in lines:
            made.append(line)
    finally:
        if made:
            _print(made)
            for each in recordings:
                path = f"{os.path.splitext(each.path)[0]}.oom.txt"
                with open(path, "ab", opener=_private) as file:
                    text = "\n".join(made) + "\n\n"
                    write_all(file.fileno(), text.encode(errors="backslashreplace"))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lines(
    failure: Failure, recordings: list[Recording], bar: Any, request: list[str] | None = None
) -> Iterator[str]:
    """Yield the lines; `request` has those of the request if its thread has continued since."""
    path, trace = "", None
    for each in recordings:
        path = each.path
        trace = _read(path, failure.device)
        if trace is not None:
            break
    details = memory_lines.failures_of(trace, failure.device) if trace is not None else []
    requested = (details[-1]["requested_bytes"] if details else None) or 0
    yield from request or request_lines(failure, requested)
    if trace is not None:
        yield from memory_lines.of_trace(trace, details[-1])
    elif request is None:
        yield from memory_lines.of_recorder(failure.device)
    if bar is not None:
        of_all = f"{size_text(bar.used_bytes)} of {size_text(bar.total_bytes)}"
        yield f"whole GPU    {of_all} used: {bar.text()}"
    if recordings:
        # The number of the failure that these lines describe.
        nth = recordings[-1].failures[failure.device] if trace is None else len(details)
        has_several = int(sys.modules["torch"].cuda.device_count()) > 1
        device = f" --device cuda:{failure.device}" if has_several else ""
        yield f"all of it    plimsoll report {short_path(path)} --at oom:{nth}{device}"


def _read(path: str, device: int) -> Any:
    """Return the trace at the failure; None without the engine, or if it is too large."""
    try:
        from plimsoll.trace import open as open_trace

        if os.path.getsize(path) > _LARGEST_FILE:
            return None
        return open_trace(path, device=f"cuda:{device}", at="oom")
    except Exception as error:
        leave_to_program(error)
        return None


def _no_more(recordings: list[Recording]) -> str:
    text = "out of memory again; further failures are not printed"
    for each in recordings:
        path = short_path(each.path)
        text += f", but recorded: plimsoll report {path} --at oom shows the last time"
        break
    return text


def _print(lines: list[str]) -> None:
    first, *others = lines
    print_lines(f"plimsoll: {first}", *(f"  {line}" for line in others))
