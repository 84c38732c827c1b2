"""Memory while it trains: measures of a moment and of a block, and monitors of a loop.

The figures are the recorder's: exact bytes of tensors, and the true peak between two moments, not a
sample. Where there is no GPU the lines speak of the CPU's tensors. MB are 1024 x 1024 bytes. The
first monitor that is switched on begins to watch the process (`stop_monitoring` ends it); one that
is switched off installs nothing.

Example:
    >>> import plimsoll
    >>> with plimsoll.track_memory("loading dataset"):  # doctest: +SKIP
    ...     dataset = load()
    [Memory] loading dataset: CPU +450.2 MB, GPU +1250.5 MB
             Peak GPU: 1500.2 MB
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from plimsoll import _record
from plimsoll._profiler_ranges import profiled_mark, profiled_range
from plimsoll._watch import watch
from plimsoll.errors import InvalidArgumentError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MB = 1024 * 1024


class _Writer(Protocol):
    """What is used of a ``SummaryWriter``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


class MemoryMonitor:
    """What is used now."""

    @staticmethod
    def get_cpu_memory_mb() -> float:
        """The resident set of this process."""
        return (_record.current_usage().rss_bytes or 0) / _MB

    @staticmethod
    def get_gpu_memory_mb() -> float:
        """The tensors on all GPUs; 0.0 where there is none."""
        watch()
        gpu = _record.current_usage().gpu
        return (gpu.allocated_bytes or 0) / _MB if gpu is not None else 0.0

    @staticmethod
    def get_memory_summary() -> dict[str, float | None]:
        """All of it in MB; what is not known is None."""
        watch()
        usage = _record.current_usage()
        gpu = usage.gpu
        return {
            "cpu_memory_mb": _mb(usage.rss_bytes),
            "cpu_tensors_mb": _mb(usage.cpu.allocated_bytes),
            "gpu_memory_mb": _mb(gpu.allocated_bytes) if gpu is not None else None,
            "gpu_reserved_mb": _mb(gpu.reserved_bytes) if gpu is not None else None,
        }

    @staticmethod
    def print_memory_usage(prefix: str = "") -> None:
        """One line, ``CPU: 1645.1 MB, GPU: 23.1 MB allocated, 3242.0 MB reserved``."""
        watch()
        _record.print_memory_usage(prefix)


class MemoryTracker(_record.MemoryTracker):
    """Named moments, and what changed between them.

    Example:
        >>> tracker = plimsoll.MemoryTracker()  # doctest: +SKIP
        >>> tracker.record("start")  # doctest: +SKIP
        >>> model = Net()  # doctest: +SKIP
        >>> tracker.record("model")  # doctest: +SKIP
        >>> tracker.print_summary()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        watch()
        super().__init__()


@contextlib.contextmanager
def track_memory(name: str) -> Iterator[None]:
    """Prints how a block changed memory, and its peak, also when the block raises."""
    watch()
    block = _record.TrackMemory(name)
    try:
        with profiled_range(name):
            yield
    finally:
        block.finish()


def monitor_memory(name: str | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """`track_memory` around each call of a function, coroutine function or generator function.

    A generator's block ends with its last value, or when it is closed.

    Args:
        name: In the line that is printed. Default: the function's own name.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        title = name if name is not None else function.__qualname__
        return cast("Callable[_P, _R]", functools.wraps(function)(_tracked(function, title)))

    return decorate


def _tracked(function: Callable[..., Any], title: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with track_memory(title):
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isasyncgenfunction(function):

        async def async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with track_memory(title):
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
            with track_memory(title):
                return (yield from function(*args, **kwargs))

        return generator

    def call(*args: Any, **kwargs: Any) -> Any:
        with track_memory(title):
            return function(*args, **kwargs)

    return call


class EpochMemoryMonitor(_record.EpochMemoryMonitor):
    """A line for the first batches of an epoch, and one with the peak at its end.

    Args:
        enabled: False: every method does nothing.
        verbose_batches: So many batches of each epoch have a line.
    """

    def __init__(self, enabled: bool = True, verbose_batches: int = 5) -> None:
        if enabled:
            watch()
        super().__init__(enabled, verbose_batches)

    def on_batch_end(self, batch_idx: int, loss: Any = None) -> None:
        """`loss` may be a tensor: it is read only if the line is printed."""
        super().on_batch_end(batch_idx, loss)


class OptimizationMemoryMonitor(_record.OptimizationMemoryMonitor):
    """The same for loops that count evaluations of a loss, such as those of L-BFGS."""

    def __init__(self, enabled: bool = True, verbose_evaluations: int = 5) -> None:
        if enabled:
            watch()
        super().__init__(enabled, verbose_evaluations)

    def on_loss_evaluation(self, loss: Any = None) -> None:
        """`loss` may be a tensor: it is read only if the line is printed."""
        super().on_loss_evaluation(loss)


class BatchMemoryProfiler(_record.BatchMemoryProfiler):
    """Where within a batch the memory goes: moments with names, and what was added between them."""

    def __init__(self, enabled: bool = True) -> None:
        if enabled:
            watch()
        super().__init__(enabled)
        self._enabled = enabled

    def checkpoint(self, name: str) -> None:
        """Notes what is used now."""
        super().checkpoint(name)
        if self._enabled:
            profiled_mark(name)

    def disable(self) -> None:
        """Notes nothing from now on, and forgets what was noted."""
        self._enabled = False
        super().disable()


def log_tensor_memory_breakdown(
    writer: _Writer,
    iteration: int,
    interval: int = 50,
    *,
    section: str = "Memory",
    large_tensor_mb: float = 100,
    top_layers: int = 10,
) -> None:
    """Every `interval` iterations, what the tensors hold, to a ``SummaryWriter``.

    The tags are those of docs/monitoring.md: ``Memory/Tensor_Category/parameters_MB`` and so on.

    Args:
        writer: Anything with ``add_scalar(tag, value, step)``.
        iteration: Of the training loop; nothing is done where `interval` does not divide it.
        interval: Positive.
        section: What the tags begin with.
        large_tensor_mb: From which size on a tensor is a large one.
        top_layers: So many of the layers that hold most have tags.

    Raises:
        InvalidArgumentError: `interval` is not positive.
    """
    if interval < 1:
        raise InvalidArgumentError("invalid_argument", f"interval={interval}: it must be positive")
    watch("full")  # also before the first one is due, which then knows what came before it
    if iteration % interval != 0:
        return
    sample = _record.take_sample(iteration, large_tensor_bytes=round(large_tensor_mb * _MB))
    for tag, value in _record.scalars_of(sample, section, top_layers):
        writer.add_scalar(tag, value, iteration)


def _mb(size_bytes: int | None) -> float | None:
    return size_bytes / _MB if size_bytes is not None else None
