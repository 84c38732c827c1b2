"""Lines for a person on stderr: whatever stderr is, and whatever they contain."""

from __future__ import annotations

import sys

from plimsoll import _record
from plimsoll._process.program_errors import Suppressed


def print_notice(message: str) -> None:
    """Print ``plimsoll: MESSAGE`` on stderr, with the rank in a distributed run."""
    print_lines(_record.with_rank("plimsoll: ") + message)


def print_lines(*lines: str) -> None:
    """Print lines on stderr, with escapes in place of what drives a terminal or cannot be seen.

    Where stderr is closed or full, nothing is printed and nothing is raised.
    """
    stream = sys.stderr
    if stream is None:  # print() would write to stdout
        return
    with Suppressed(Exception):  # the program may have put any object there
        stream.write("".join(f"{_printable(line)}\n" for line in lines))
        stream.flush()


def _printable(text: str) -> str:
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
