"""The peak of the CPU during a dry run, as the recorder counts it."""

from __future__ import annotations

import gc

from plimsoll import _record
from plimsoll._watch import stop_monitoring, watch


class RecordedPeak:
    """What the recorder counts in this process: also what CPU kernels allocate for themselves."""

    def __init__(self) -> None:
        self._began_watching = not _record.is_watching()
        watch()
        gc.collect()
        self._span: _record.PeakSpan | None = None
        self._before = self._cpu().live_bytes

    def begin(self) -> None:
        self._span = _record.PeakSpan()

    def peak_bytes(self) -> int:
        """Since `begin`, without what was live before the copy was made; 0: not known."""
        return max((self._cpu().peak_bytes or 0) - self._before, 0)

    def end(self) -> None:
        self._span = None
        if self._began_watching:
            stop_monitoring()

    def _cpu(self) -> _record.DeviceMemory:
        devices = _record.take_sample(peak_since=self._span).devices
        return next(device for device in devices if device.name == "cpu")
