"""The exceptions of plimsoll. Each also derives from the matching builtin exception, if any.

Error                       the base class of all others
├── InvalidArgumentError    also ValueError
├── NotFoundError           also FileNotFoundError
├── NoPermissionError       also PermissionError
├── InputOutputError        also OSError
├── UnreadableError         also ValueError: the file cannot be read as a recording
│   ├── UnsupportedError    no reader knows its format
│   ├── CorruptError        it breaks its own format
│   ├── UnsafeFileError     it would run code; plimsoll never does
│   └── LimitError          it needs more memory than is allowed
├── CancelledError          the work was stopped
├── AdapterError            also RuntimeError: torch's memory cannot be recorded here
└── InternalError           also RuntimeError: a bug in plimsoll
"""

from __future__ import annotations

import errno
from typing import ClassVar


class Error(Exception):
    """The base class of all errors of plimsoll.

    Attributes:
        code: A stable name for the kind of error, such as ``"corrupt"``.
        message: One sentence with the place and what to do; also ``str(error)``.
    """

    code: str
    message: str

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type[Error], tuple[str, ...]]:
        return type(self), (self.code, self.message)


class _SystemError(Error, OSError):
    """An error that the operating system reported: `errno` and `filename` are set."""

    number: ClassVar[int] = errno.EIO

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.errno = self.number
        self.strerror = message


class InvalidArgumentError(Error, ValueError):
    """An argument is invalid, or names something that does not exist."""


class NotFoundError(_SystemError, FileNotFoundError):
    """There is no such file."""

    number = errno.ENOENT


class NoPermissionError(_SystemError, PermissionError):
    """The file may not be read or written: permission denied."""

    number = errno.EACCES


class InputOutputError(_SystemError):
    """Reading or writing failed."""


class UnreadableError(Error, ValueError):
    """The file cannot be read as a recording; subclasses give the reason."""


class UnsupportedError(UnreadableError):
    """No reader knows these bytes, or this build cannot read them."""


class CorruptError(UnreadableError):
    """The file is truncated or damaged."""


class UnsafeFileError(UnreadableError):
    """The file would run code. Do not load it with ``pickle.load`` either."""


class LimitError(UnreadableError):
    """The file needs more memory than plimsoll allows."""


class CancelledError(Error):
    """The work was stopped before it finished."""


class AdapterError(Error, RuntimeError):
    """The adapter for the installed torch could not be compiled or loaded, or is not trusted."""

    def __init__(self, message: str) -> None:
        super().__init__("adapter", message)

    def __reduce__(self) -> tuple[type[Error], tuple[str, ...]]:
        return type(self), (self.message,)


class InternalError(Error, RuntimeError):
    """A bug in plimsoll. Please report it with the file, if you can share it."""


_BY_CODE: dict[str, type[Error]] = {
    "invalid_argument": InvalidArgumentError,
    "not_found": NotFoundError,
    "permission": NoPermissionError,
    "io": InputOutputError,
    "unsupported": UnsupportedError,
    "corrupt": CorruptError,
    "unsafe": UnsafeFileError,
    "limit": LimitError,
    "interrupted": CancelledError,
    "internal": InternalError,
}


def from_code(code: str, message: str) -> Error:
    """Return the exception for an error code of the engine."""
    return _BY_CODE.get(code, Error)(code, message)
