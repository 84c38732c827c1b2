"""Calls a function in a new thread, to which no state of the calling thread applies."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")


def call_in_thread(call: Callable[[], _Value]) -> _Value:
    """Return the result of a call in a new thread, or raise its exception.

    The call must not import anything: this thread may be importing torch. `threading` is not used
    because the program may have set a trace function for its threads.
    """
    results: list[_Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.release()

    ended = _thread.allocate_lock()
    ended.acquire()
    _thread.start_new_thread(run, ())
    ended.acquire()
    if errors:
        raise errors[0]
    return results[0]
