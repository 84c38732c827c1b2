"""Prints messages on stderr, whatever stderr is and whatever they contain."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from plimsoll import _record
from plimsoll._process.program_errors import Suppressed, without_memory
from plimsoll._process.quiet_files import write_all


@without_memory(None)
def print_notice(message: str) -> None:
    """Print ``plimsoll: MESSAGE`` on stderr, with the rank in a distributed run."""
    print_lines(_record.with_rank("plimsoll: ") + message)


def print_lines(*lines: str) -> None:
    """Print lines on stderr; control and invisible characters are escaped.

    If stderr is closed or full, the lines are lost: no exception, no signal.
    """
    stream = sys.stderr
    if stream is None:  # without stderr, print() would write to stdout
        return
    text = "".join(f"{_printable(line)}\n" for line in lines)
    # The program may have replaced sys.stderr with any object.
    with _record.QuietWriting(), Suppressed(Exception):
        if _is_plain_file(stream):
            # Bypass the stream: it would keep text that it cannot write, and retry at exit.
            stream.flush()
            write_all(stream.fileno(), text.encode(stream.encoding, stream.errors or "strict"))
        else:
            stream.write(text)
            stream.flush()


def _is_plain_file(stream: TextIO) -> bool:
    if type(stream) is not io.TextIOWrapper:
        return False
    raw = getattr(stream.buffer, "raw", stream.buffer)  # python -u: there is no buffer
    return type(raw) is io.FileIO


def _printable(text: str) -> str:
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
