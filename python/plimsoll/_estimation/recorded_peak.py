"""Measures the peak of CPU memory during a dry run, with the recorder."""

from __future__ import annotations

import gc

from plimsoll import _record
from plimsoll._monitoring.watch import stop_monitoring, watch


class RecordedPeak:
    """Counts all memory of this process, including workspaces of CPU kernels."""

    def __init__(self) -> None:
        self._began_watching = not _record.is_watching()
        watch(waits=True)
        gc.collect()
        self._span: _record.PeakSpan | None = None
        cpu = self._cpu()
        self._before = cpu.live_bytes if cpu is not None else 0

    def begin(self) -> None:
        self._span = _record.PeakSpan()

    def peak_bytes(self) -> int:
        """Return the peak since `begin`, less the memory before the copy; 0 if unknown."""
        cpu = self._cpu()
        peak_bytes = cpu.peak_bytes if cpu is not None else None
        return max((peak_bytes or 0) - self._before, 0)

    def end(self) -> None:
        self._span = None
        if self._began_watching:
            stop_monitoring()

    def _cpu(self) -> _record.DeviceMemory | None:
        """Return the CPU's usage; None if the program has stopped monitoring."""
        devices = _record.take_sample(peak_since=self._span).devices
        return next((device for device in devices if device.name == "cpu"), None)
