"""Writes files in the user's program without a signal if a write fails.

A buffered file keeps data that it cannot write, and retries when it is closed or at exit. Therefore
the bytes bypass the buffer.
"""

from __future__ import annotations

import os

from plimsoll import _record


def write_all(file: int, content: bytes) -> None:
    """Write the content to a descriptor.

    Raises:
        OSError: The content cannot be written; a part of it may have been written.
    """
    rest = memoryview(content)
    with _record.QuietWriting():
        while rest:
            rest = rest[os.write(file, rest) :]
