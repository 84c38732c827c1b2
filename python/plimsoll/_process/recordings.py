"""The active recordings of this process.

While there are any, runs of Python's garbage collector are marked in them.
"""

from __future__ import annotations

import contextlib
import gc
import os
from typing import TYPE_CHECKING

from plimsoll import _record

if TYPE_CHECKING:
    from plimsoll.recording import Recording

_running: dict[Recording, int] = {}  # process id of each; no lock: each access is atomic


def add(recording: Recording) -> None:
    """Add a recording that has begun."""
    _running[recording] = os.getpid()
    if _record.mark_collection not in gc.callbacks:
        gc.callbacks.append(_record.mark_collection)


def remove(recording: Recording) -> None:
    """Remove a recording that has ended; do nothing for one that never began."""
    _running.pop(recording, None)
    if not _running:
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(_record.mark_collection)


def running() -> list[Recording]:
    """Return this process's recordings (not its parent's) in the order of their start."""
    return [each for each, process in list(_running.items()) if process == os.getpid()]


def stop_all() -> None:
    """End every recording of this process."""
    for recording in running():
        recording.stop()
