"""``snapshot_at``: writes a trace of each chosen iteration and, on CUDA, PyTorch's snapshot."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from plimsoll._process.messages import print_notice
from plimsoll._process.program_errors import leave_to_program
from plimsoll._torch.hooks import Adapter
from plimsoll.recording import Recording, record


class Snapshots:
    """Records one iteration at a time. Errors are printed on stderr and never raised."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._recording: Recording | None = None
        self._path = ""

    def begin(self, path: str) -> None:
        """Record into a trace file that does not exist yet."""
        self._path = path
        _attempt(self._start)

    def _start(self) -> None:
        self._recording = record(self._path, adapter=self._adapter)
        self._recording.start()

    def end(self) -> None:
        """Close the trace. If CUDA is used, dump PyTorch's snapshot next to it."""
        recording, self._recording = self._recording, None
        if recording is not None:
            _attempt(recording.stop)
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            pickle = os.path.splitext(self._path)[0] + ".pickle"
            _attempt(lambda: torch.cuda.memory._dump_snapshot(pickle))


def _attempt(action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as error:  # torch raises many types; training continues
        leave_to_program(error)
        print_notice(f"snapshot: {error}")
