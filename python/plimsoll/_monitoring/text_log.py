"""Writes samples to the user's text file, path or writer of scalars."""

from __future__ import annotations

import functools
import os
from typing import Any, Protocol, TextIO, TypeAlias

from plimsoll import _record
from plimsoll._process.messages import print_notice
from plimsoll._process.paths import of_rank, path_text
from plimsoll._process.program_errors import leave_to_program
from plimsoll.errors import InvalidArgumentError

LogFile: TypeAlias = "str | os.PathLike[str] | TextIO"

_failed: set[str] = set()  # logs and writers whose failure has been reported


class Writer(Protocol):
    """The used methods of ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


def add_scalars(
    writer: Writer, sample: _record.MemorySample, section: str, top_layers: int
) -> None:
    """Pass on the scalars. An error is printed once and never raised: training continues."""
    try:
        for tag, value in _series_of(section, top_layers).next(sample):
            writer.add_scalar(tag, value, sample.iteration)
    except Exception as error:  # the writer is the user's object, and may raise anything
        leave_to_program(error)
        kind = type(writer).__name__
        _report(kind, f"{kind}.add_scalar raised {_shown(error)}")


@functools.lru_cache(maxsize=64)
def _series_of(section: str, top_layers: int) -> _record.ScalarSeries:
    return _record.ScalarSeries(section, top_layers)


def append_snapshot(log_file: LogFile, sample: _record.MemorySample, top_layers: int) -> None:
    """Append one sample. An error is printed once and never raised: training continues."""
    if isinstance(log_file, str | os.PathLike):
        path = os.fspath(log_file)
        try:
            path_text(path).encode()
            path = of_rank(path)
        except (UnicodeEncodeError, InvalidArgumentError) as error:
            _report(path, f"text log: cannot write {path!a}: {error}")
            return
        failure = _record.append_text_log(path, sample, top_layers)
        if failure is not None:
            _report(path, f"text log: {failure}")
        return
    try:
        with _record.QuietWriting():
            if _is_empty(log_file):
                log_file.write(_record.text_log_header(sample.time_ns))
            log_file.write(_record.text_log_snapshot(sample, top_layers))
            log_file.flush()
    except Exception as error:  # the file is the user's object, and may raise anything
        leave_to_program(error)
        name = str(getattr(log_file, "name", f"a {type(log_file).__name__}"))
        _report(name, f"text log: cannot write {name}: {_shown(error)}")


def _shown(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as broken:  # printing an exception of the user's object may fail
        leave_to_program(broken)
        return type(error).__name__


def _is_empty(file: TextIO) -> bool:
    try:
        return file.tell() == 0
    except OSError as error:  # a pipe or a terminal has no position
        leave_to_program(error)
        return False


def _report(name: str, failure: str) -> None:
    if name not in _failed:
        _failed.add(name)
        print_notice(f"{failure}")
