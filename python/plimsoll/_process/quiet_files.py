"""Files that Plimsoll writes in the user's program: a write that fails sends it no signal.

A buffered file keeps what it cannot write, and tries again where nobody expects it: when it is
closed, or at exit. So the bytes go past the buffer.
"""

from __future__ import annotations

import os

from plimsoll import _record


def write_all(file: int, content: bytes) -> None:
    """Write the content to a descriptor.

    Raises:
        OSError: It cannot be written; a part of it may have been.
    """
    rest = memoryview(content)
    with _record.QuietWriting():
        while rest:
            rest = rest[os.write(file, rest) :]
