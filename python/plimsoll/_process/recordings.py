"""The recordings of this process that have begun and not ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plimsoll.recording import Recording

_running: dict[Recording, int] = {}  # and its process; no lock: each access is one operation


def add(recording: Recording) -> None:
    """A recording has begun."""
    _running[recording] = os.getpid()


def remove(recording: Recording) -> None:
    """It has ended; does nothing for one that never began."""
    _running.pop(recording, None)


def running() -> list[Recording]:
    """In the order in which they began; in the child of a fork, not those of its parent."""
    return [each for each, process in list(_running.items()) if process == os.getpid()]


def stop_all() -> None:
    """Ends every recording of this process."""
    for recording in running():
        recording.stop()
