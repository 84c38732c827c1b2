"""Wraps functions, coroutine functions and generator functions so that each call is a block."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any


def in_blocks(
    function: Callable[..., Any], begin: Callable[[], AbstractContextManager[Any]]
) -> Callable[..., Any]:
    """Return a function that runs each call of `function` in a separate block."""
    if inspect.iscoroutinefunction(function):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with begin():
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isasyncgenfunction(function):

        async def async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with begin():
                async with contextlib.aclosing(function(*args, **kwargs)) as values:
                    step = anext(values)
                    while True:
                        try:
                            value = await step
                        except StopAsyncIteration:
                            return
                        try:
                            sent = yield value
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            step = values.athrow(error)
                        else:
                            step = values.asend(sent)

        return async_generator
    if inspect.isgeneratorfunction(function):

        def generator(*args: Any, **kwargs: Any) -> Any:
            with begin():
                return (yield from function(*args, **kwargs))

        return generator

    def call(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return function(*args, **kwargs)

    return call
