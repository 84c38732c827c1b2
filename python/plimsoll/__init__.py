"""Plimsoll: what fills the memory of a training run, why it ran out, and what to change.

Example:
    >>> import plimsoll
    >>> trace = plimsoll.open(path)
    >>> trace.devices[0]["device_type"], trace.devices[0]["device"]
    ('cuda', 0)
"""

import os

from plimsoll import _record
from plimsoll._estimation.estimate import LayerEstimate, MemoryEstimate, estimate
from plimsoll._monitoring.watch import stop_monitoring
from plimsoll._record import MemoryAlert, MonitorOptions
from plimsoll.config import add_arguments, load_options
from plimsoll.errors import (
    AdapterError,
    CancelledError,
    CorruptError,
    Error,
    InputOutputError,
    InternalError,
    InvalidArgumentError,
    LimitError,
    NoPermissionError,
    NotFoundError,
    UnreadableError,
    UnsafeFileError,
    UnsupportedError,
)
from plimsoll.monitor import (
    BatchMemoryProfiler,
    BlockMemory,
    EpochMemoryMonitor,
    MemoryMonitor,
    MemoryTracker,
    OptimizationMemoryMonitor,
    log_tensor_memory_breakdown,
    monitor_memory,
    track_memory,
)
from plimsoll.recording import Recording, record, region, step
from plimsoll.training_monitor import TrainingMonitor

try:
    from plimsoll._core import Table
    from plimsoll.difference import Difference, diff
    from plimsoll.memory_tracer import LayerMemoryStats, MemoryEvent, MemoryTracer
    from plimsoll.trace import ExportFormat, Trace, export_formats, open_bytes
    from plimsoll.trace import open as open
except ModuleNotFoundError as error:
    if error.name != "plimsoll._core":
        raise
    # Built without the engine (PLIMSOLL_ENGINE=OFF): this machine only records.

__version__ = _record.version()

if os.environ.get("PLIMSOLL", "0") not in ("", "0"):
    from plimsoll._command.environment import begin_as_environment_says

    begin_as_environment_says()

# Excludes `open`: `from plimsoll import *` must not replace the builtin.
__all__ = [
    "AdapterError",
    "BatchMemoryProfiler",
    "BlockMemory",
    "CancelledError",
    "CorruptError",
    "Difference",
    "EpochMemoryMonitor",
    "Error",
    "ExportFormat",
    "InputOutputError",
    "InternalError",
    "InvalidArgumentError",
    "LayerEstimate",
    "LayerMemoryStats",
    "LimitError",
    "MemoryAlert",
    "MemoryEstimate",
    "MemoryEvent",
    "MemoryMonitor",
    "MemoryTracer",
    "MemoryTracker",
    "MonitorOptions",
    "NoPermissionError",
    "NotFoundError",
    "OptimizationMemoryMonitor",
    "Recording",
    "Table",
    "Trace",
    "TrainingMonitor",
    "UnreadableError",
    "UnsafeFileError",
    "UnsupportedError",
    "__version__",
    "add_arguments",
    "diff",
    "estimate",
    "export_formats",
    "load_options",
    "log_tensor_memory_breakdown",
    "monitor_memory",
    "open_bytes",
    "record",
    "region",
    "step",
    "stop_monitoring",
    "track_memory",
]
