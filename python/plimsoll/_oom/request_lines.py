"""The lines about a failed request: its size, its device, and the code that made it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from plimsoll import _record
from plimsoll._process import notebook
from plimsoll._process.paths import launched_rank
from plimsoll._process.sizes import size_text

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


@dataclass(frozen=True)
class Failure:
    """A failed request. A size of 0 is unknown."""

    device: int
    requested: int
    segment: int  # bytes of the segment requested from the driver
    free: int  # free bytes on the device
    limit: int  # the process's limit, in bytes
    total: int  # total bytes of the device


def request_lines(failure: Failure, requested: int) -> Iterator[str]:
    """Return the lines about a request; call this on the thread that made it.

    Args:
        failure: The request.
        requested: The requested bytes, if `failure` does not have them.
    """
    rank = launched_rank()
    of_rank = "" if rank is None else f" of rank {rank}"
    # Torch's own observers receive only the size of the segment.
    requested = failure.requested or requested or failure.segment
    asked = f"{size_text(requested)} requested"
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
    where = [word for word in (doing["layer"], operator, phase, user_line()) if word]
    yield f"requested by {', '.join(where) or 'code outside of every layer and operator'}"


def user_line() -> str:
    """Return the innermost line of the user's program; None on autograd threads."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return line_text(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
        frame = frame.f_back
    return ""


def is_users(file: str) -> bool:
    """Return whether a file is the user's, by the rules of src/model/user_line.h."""
    if file in ("<string>", "<stdin>") or file.startswith("<ipython-input-"):
        return True
    in_library = any(
        f"{os.sep}{folder}{os.sep}" in file
        for folder in ("site-packages", "dist-packages", "torch")
    )
    return not in_library and not file.startswith((_PACKAGE, _STANDARD_LIBRARY, "<"))


def line_text(file: str, function: str, line: int) -> str:
    """Return the path as reports print it: the last folders of a long path."""
    cell = notebook.file_name(file, notebook.cells())
    shown = cell if cell != file else os.sep.join(short_path(file).split(os.sep)[-3:])
    return f"{shown}:{line} ({function})"


def short_path(path: str) -> str:
    """Return the path relative to the working folder, if it is inside it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
