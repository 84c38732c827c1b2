"""Waits for other processes or threads."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the timeout only ends a hang."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "the condition is still false after 120 s"
        time.sleep(0.01)
