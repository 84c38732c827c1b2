"""Plimsoll: what fills the memory of a training run, why it ran out, and what to change.

Example:
    >>> import plimsoll
    >>> trace = plimsoll.open(path)
    >>> trace.devices[0]["device_type"], trace.devices[0]["device"]
    ('cuda', 0)
"""

from plimsoll import _core
from plimsoll._core import Table
from plimsoll.errors import (
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
from plimsoll.trace import ExportFormat, Trace, export_formats, open, open_bytes

__version__ = _core.version()

__all__ = [
    "CancelledError",
    "CorruptError",
    "Error",
    "ExportFormat",
    "InputOutputError",
    "InternalError",
    "InvalidArgumentError",
    "LimitError",
    "NoPermissionError",
    "NotFoundError",
    "Table",
    "Trace",
    "UnreadableError",
    "UnsafeFileError",
    "UnsupportedError",
    "__version__",
    "export_formats",
    "open",
    "open_bytes",
]
