"""Writes a file that appears under its name only when it is complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from plimsoll import _record

Write = Callable[[Callable[[bytes], Any]], object]
"""Called with the function that writes bytes to the file."""


def write_replacing(target: str, write: Write) -> None:
    """Write a file; an existing one is kept until the new one is complete.

    Raises:
        OSError: The file cannot be written; its name is `target`.
    """
    if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe
        with _record.QuietWriting(), open(target, "wb") as file:
            write(file.write)
        return
    real = os.path.realpath(target)  # keep a symbolic link
    partial = f"{real}.{os.getpid()}.partial"
    is_made = False
    try:
        with _record.QuietWriting(), open(partial, "xb") as file:
            is_made = True
            write(file.write)
        os.replace(partial, real)
    except BaseException as error:
        if is_made:
            os.unlink(partial)
        if isinstance(error, OSError) and error.filename == partial:
            # Name the file that the caller requested, not the temporary one.
            raise OSError(error.errno, error.strerror, target) from None
        raise


def is_same_file(one: str, other: str) -> bool:
    """Return whether both paths lead to one existing file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
