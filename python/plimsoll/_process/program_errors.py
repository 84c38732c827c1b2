"""Errors of the program that surface in Plimsoll: exceptions of signal handlers.

A handler may run between any two instructions of the main thread, including Plimsoll's, and may
raise any type, and `TimeoutError`, for example, is an `OSError`. So each ``except`` for a type that
is not Plimsoll's own passes exceptions of signal handlers on to the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from plimsoll import _record

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


def is_of_program(error: BaseException) -> bool:
    """Return whether a signal handler raised the error."""
    return _record.is_raised_by_signal(error)


def leave_to_program(error: BaseException) -> None:
    """Raise the error again if a signal handler raised it."""
    if _record.is_raised_by_signal(error):
        raise error


class Suppressed:
    """Suppresses exceptions like `contextlib.suppress`, except those of signal handlers."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return isinstance(error, self._kinds) and not _record.is_raised_by_signal(error)


def without_memory(
    value: _Value,
) -> Callable[[Callable[_Arguments, _Value]], Callable[_Arguments, _Value]]:
    """Decorate a hook: on a MemoryError it returns `value`, and training continues."""
    return _guarded(MemoryError, lambda error: value)


def without_errors(
    report: Callable[[Exception], None],
) -> Callable[[Callable[_Arguments, None]], Callable[_Arguments, None]]:
    """Decorate a hook that reads the program's objects, whose methods may raise anything.

    An error is passed to `report`, and training continues.
    """
    return _guarded(Exception, report)


def _guarded(
    kind: type[Exception], handle: Callable[[Exception], _Value]
) -> Callable[[Callable[_Arguments, _Value]], Callable[_Arguments, _Value]]:

    def decorated(hook: Callable[_Arguments, _Value]) -> Callable[_Arguments, _Value]:
        @functools.wraps(hook)
        def guarded(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Value:
            try:
                return hook(*args, **kwargs)
            except kind as error:
                leave_to_program(error)
                return handle(error)

        return guarded

    return decorated
