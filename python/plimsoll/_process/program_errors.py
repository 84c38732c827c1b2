"""Errors of the program that surface in Plimsoll: exceptions of signal handlers.

A handler runs between any two instructions of the main thread, ours included, and may raise any
type: `TimeoutError` is an `OSError`. Each ``except`` here for a type that is not ours alone leaves
such an error to the program.
"""

from __future__ import annotations

from types import TracebackType

from plimsoll import _record


def is_of_program(error: BaseException) -> bool:
    """Whether the handler of a signal raised it."""
    return _record.is_raised_by_signal(error)


def leave_to_program(error: BaseException) -> None:
    """Raise an error again if the handler of a signal raised it."""
    if _record.is_raised_by_signal(error):
        raise error


class Suppressed:
    """`contextlib.suppress`, except for what the handler of a signal raises."""

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
