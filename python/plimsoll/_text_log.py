"""Text-log snapshots in a file of the user's: a path, or a file that is open already."""

from __future__ import annotations

import os
import sys
from typing import TextIO, TypeAlias

from plimsoll import _record
from plimsoll._paths import path_text
from plimsoll._program_errors import leave_to_program
from plimsoll.errors import InvalidArgumentError

LogFile: TypeAlias = "str | os.PathLike[str] | TextIO"

_failed: set[str] = set()  # logs whose failure has been reported


def append_snapshot(log_file: LogFile, sample: _record.MemorySample, top_layers: int) -> None:
    """Append one snapshot. A failure is reported once and never raised: training goes on."""
    if isinstance(log_file, str | os.PathLike):
        path = os.fspath(log_file)
        try:
            path_text(path).encode()
        except (UnicodeEncodeError, InvalidArgumentError) as error:
            _report(path, f"cannot write {path!a}: {error}")
            return
        failure = _record.append_text_log(path, sample, top_layers)
        if failure is not None:
            _report(path, failure)
        return
    try:
        if _is_empty(log_file):
            log_file.write(_record.text_log_header(sample.time_ns))
        log_file.write(_record.text_log_snapshot(sample, top_layers))
        log_file.flush()
    except Exception as error:  # the file is the user's object, and may raise anything
        leave_to_program(error)
        name = str(getattr(log_file, "name", "log_file"))
        _report(name, f"cannot write {name}: {error}")


def _is_empty(file: TextIO) -> bool:
    try:
        return file.tell() == 0
    except OSError as error:  # a pipe or a terminal
        leave_to_program(error)
        return False


def _report(name: str, failure: str) -> None:
    if name not in _failed:
        _failed.add(name)
        print(_record.with_rank(f"plimsoll: text log: {failure}"), file=sys.stderr, flush=True)
