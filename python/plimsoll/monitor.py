"""Memory monitoring while a program trains: measurements, blocks, training loops.

Tensor figures come from the recorder: exact bytes, and the true peak of a block, not a sample.
Without a GPU the lines show tensors in host memory. 1 MB is 1024 x 1024 bytes. The first enabled
monitor starts counting, and `stop_monitoring` ends it; a disabled monitor installs nothing.

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
import threading
from collections.abc import Callable
from numbers import Real
from typing import Any, ParamSpec, TypeVar, overload

from plimsoll import _record
from plimsoll._monitoring.block_calls import in_blocks
from plimsoll._monitoring.profiler_ranges import profiled_mark, profiled_range
from plimsoll._monitoring.text_log import LogFile, Writer, add_scalars, append_snapshot
from plimsoll._monitoring.watch import watch
from plimsoll._process.arguments import (
    bad_argument,
    check_choice,
    flag,
    number_in_loop,
    text,
    whole_number,
)
from plimsoll._process.messages import print_notice
from plimsoll._process.names import name_of
from plimsoll._process.program_errors import Suppressed, without_memory
from plimsoll._torch import attachment
from plimsoll._torch.hooks import Uses

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MB = 1024 * 1024
_MOST_MB = 2**40  # limit, so that the bytes fit into 64 bits
_use_steps = _record.UseSteps()  # of `log_tensor_memory_breakdown`


class MemoryMonitor:
    """Measurements at a point in time."""

    @staticmethod
    def get_cpu_memory_mb() -> float:
        """Return the resident memory of this process; 0.0 if the system does not report it."""
        return (_record.current_usage().rss_bytes or 0) / _MB

    @staticmethod
    def get_gpu_memory_mb() -> float:
        """Return tensor memory on all GPUs; 0.0 without a GPU."""
        watch()
        gpu = _record.current_usage().gpu
        return (gpu.allocated_bytes or 0) / _MB if gpu is not None else 0.0

    @staticmethod
    def get_memory_summary() -> dict[str, float | None]:
        """Return all figures in MB.

        The keys are ``cpu_memory_mb`` (resident memory), ``cpu_tensors_mb``, ``gpu_memory_mb``
        (allocated) and ``gpu_reserved_mb``. None: unknown, or no GPU.
        """
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
        """Print ``CPU: 1645.1 MB | GPU Allocated: 23.1 MB | GPU Reserved: 3242.0 MB``.

        Without a GPU: ``CPU: 1645.1 MB | CPU tensors: 23.1 MB``.

        Args:
            prefix: Printed first, such as ``"After model creation: "``.
        """
        watch()
        _record.print_memory_usage(name_of(prefix))


class MemoryTracker(_record.MemoryTracker):
    """Records named checkpoints and prints each with the change since the previous one.

    Example:
        >>> tracker = plimsoll.MemoryTracker()  # doctest: +SKIP
        >>> tracker.record("initialization")  # doctest: +SKIP
        >>> train()  # doctest: +SKIP
        >>> tracker.record("after_training")  # doctest: +SKIP
        >>> tracker.print_summary()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        watch()
        super().__init__()

    @without_memory(None)
    def record(self, name: str) -> None:
        """Record a checkpoint."""
        attachment.switch_if_ready(print_notice)
        super().record(name_of(name))


class BlockMemory(contextlib.ContextDecorator):
    """The result of a `track_memory` block, in bytes, available after the block has ended.

    Attributes:
        name: Name of the block.
        peak_bytes: Peak of tensor memory inside the block: on all GPUs together, or in host memory
            without a GPU. None if the block has not ended or the peak is unknown.
        added_peak_bytes: The peak minus tensor memory at the beginning: the most that the block
            itself added, whatever was live before it. None if unknown.
        change_bytes: Tensor memory at the end minus tensor memory at the beginning, or None.
        peaks: Peak on each device for which it is known: ``{"cpu": 1024, "cuda:0": 4096}``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.peak_bytes: int | None = None
        self.added_peak_bytes: int | None = None
        self.change_bytes: int | None = None
        self.peaks: dict[str, int] = {}
        # the running blocks, each with its thread
        self._open: list[tuple[int, _record.TrackMemory | None, contextlib.ExitStack]] = []

    def __repr__(self) -> str:
        names = ("peak_bytes", "added_peak_bytes", "change_bytes")
        figures = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<plimsoll.BlockMemory {self.name!r}: {figures}, peaks={self.peaks}>"

    def __enter__(self) -> BlockMemory:
        block, ranges = _measured(self.name), contextlib.ExitStack()
        self._open.append((threading.get_ident(), block, ranges))
        ranges.enter_context(profiled_range(self.name))
        return self

    def __exit__(self, *_error: object) -> None:
        own = [each for each in self._open if each[0] == threading.get_ident()] or self._open
        _, block, ranges = own[-1]
        self._open.remove(own[-1])
        try:
            ranges.close()
        finally:
            if block is not None:
                self._end(block)

    def _recreate_cm(self) -> BlockMemory:
        """A block for each call of a decorated function, which may run on several threads."""
        return BlockMemory(self.name)

    @without_memory(None)
    def _end(self, block: _record.TrackMemory) -> None:
        memory = block.finish()
        before, after = memory.before.cpu.allocated_bytes, memory.after.cpu.allocated_bytes
        if memory.after.gpu is not None:
            after = memory.after.gpu.allocated_bytes
            before = memory.before.gpu.allocated_bytes if memory.before.gpu is not None else 0
        self.change_bytes = self.added_peak_bytes = None
        if before is not None and after is not None:
            self.change_bytes = after - before
        self.peak_bytes = memory.peak_bytes
        if before is not None and self.peak_bytes is not None:
            self.added_peak_bytes = self.peak_bytes - before
        self.peaks = memory.peaks


def _measured(name: str) -> _record.TrackMemory | None:
    """Return the measurement of a block that begins; None if there is no memory for it."""
    with Suppressed(MemoryError):
        watch()
        return _record.TrackMemory(name)
    return None


def track_memory(name: str = "block") -> BlockMemory:
    """Print how a block changes memory, and its peak, even if the block raises.

    May be entered repeatedly, even inside itself, and can decorate a function.

    Example:
        >>> with plimsoll.track_memory("forward") as block:  # doctest: +SKIP
        ...     loss = model(batch)
        >>> block.peak_bytes  # doctest: +SKIP
        1572864000
    """
    return BlockMemory(name_of(name))


@overload
def monitor_memory(name: Callable[_P, _R]) -> Callable[_P, _R]: ...
@overload
def monitor_memory(name: str | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def monitor_memory(name: Any = None) -> Any:
    """Wrap each call of a function, coroutine function or generator function in `track_memory`.

    A generator's block ends when the generator ends or is closed. The parentheses are optional:
    ``@monitor_memory`` is ``@monitor_memory()``.

    Args:
        name: The name to print. Default: the name of the function, with its class.

    Raises:
        InvalidArgumentError: The decorated object is not a function, method or property.
    """

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        if type(function) is property:
            get, put, delete = (
                part and decorate(part) for part in (function.fget, function.fset, function.fdel)
            )
            return property(get, put, delete, function.__doc__)
        if not callable(function) or isinstance(function, type):
            raise bad_argument("function", function, "monitor_memory decorates functions")
        own = getattr(function, "__qualname__", type(function).__name__)
        title = name if isinstance(name, str) else own.rpartition("<locals>.")[2]
        begin = functools.partial(track_memory, title)
        return functools.wraps(function)(in_blocks(function, begin))

    return decorate if name is None or isinstance(name, str) else decorate(name)


class EpochMemoryMonitor(_record.EpochMemoryMonitor):
    """Prints a line for each of the first batches of an epoch, and the peak at its end.

    Creating an enabled monitor prints
    ``Memory monitoring enabled (verbose for first 5 batches)``.

    Args:
        enabled: If False, every method does nothing.
        verbose_batches: Number of batches of each epoch that get a line.
    """

    def __init__(self, enabled: bool = True, verbose_batches: int = 5) -> None:
        enabled = flag("enabled", enabled)
        verbose_batches = whole_number("verbose_batches", verbose_batches)
        if enabled:
            watch()
        super().__init__(enabled, verbose_batches)

    def on_batch_end(self, batch_idx: int, loss: Any = None) -> None:
        """Print the line of a batch; `loss`, a number or a tensor, is read only for that line."""
        number = number_in_loop("EpochMemoryMonitor.on_batch_end()", "batch_idx", batch_idx)
        if number is not None:
            super().on_batch_end(number, loss)
        attachment.switch_if_ready(print_notice)


class OptimizationMemoryMonitor(_record.OptimizationMemoryMonitor):
    """Prints lines for the first loss evaluations of an optimizer, then memory and the peak.

    For optimizers that evaluate a loss function themselves, such as L-BFGS. ``Iteration N`` is the
    Nth evaluation; one step of L-BFGS takes several.

    Args:
        enabled: If False, every method does nothing.
        verbose_evaluations: Number of loss evaluations that get lines.
    """

    def __init__(self, enabled: bool = True, verbose_evaluations: int = 5) -> None:
        enabled = flag("enabled", enabled)
        verbose_evaluations = whole_number("verbose_evaluations", verbose_evaluations)
        if enabled:
            watch()
        super().__init__(enabled, verbose_evaluations)

    def on_loss_evaluation(self, loss: Any = None) -> None:
        """Print the lines of an evaluation; `loss` is read only for them."""
        super().on_loss_evaluation(loss)
        attachment.switch_if_ready(print_notice)


class BatchMemoryProfiler(_record.BatchMemoryProfiler):
    """Shows where memory goes within a batch: named checkpoints and the change between them."""

    def __init__(self, enabled: bool = True) -> None:
        enabled = flag("enabled", enabled)
        if enabled:
            watch()
        super().__init__(enabled)
        self._enabled = enabled

    @without_memory(None)
    def checkpoint(self, name: str) -> None:
        """Record a checkpoint."""
        name = name_of(name)
        super().checkpoint(name)
        if self._enabled:
            profiled_mark(name)
            attachment.switch_if_ready(print_notice)

    def disable(self) -> None:
        """Discard the checkpoints and record no more."""
        self._enabled = False
        super().disable()


def log_tensor_memory_breakdown(
    writer: Writer | None,
    iteration: int,
    interval: int = 500,
    log_file: LogFile | None = None,
    *,
    section: str = "Memory",
    large_tensor_mb: float = 100,
    top_layers: int = 10,
    uses: Uses = "never",
) -> None:
    """Log tensor memory every `interval` iterations to a ``SummaryWriter`` and a text log.

    docs/monitoring-reference.md lists the tags (``Memory/Tensor_Category/parameters_MB`` and so
    on) and the format of the text log, which ``plimsoll analyze`` reads. A log that cannot be
    written, or a writer that raises, is reported once on stderr and does not stop the training. If
    a launcher starts several processes, each appends to its own `log_file` (``memory.rank0.log``).

    Args:
        writer: An object with ``add_scalar(tag, value, step)``; None to write only the text log.
        iteration: Iteration of the training loop. Only multiples of `interval` are sampled. A value
            that is not a whole number is reported once, and the call does nothing.
        interval: Iterations between samples. Positive.
        log_file: A path to append to, or an open text file.
        section: Prefix of the tags.
        large_tensor_mb: The size above which a tensor counts as large.
        top_layers: Number of the largest layers that are listed.
        uses: In which steps the uses of memory are observed, as for `record`. Samples then state
            the memory that no operator has used during the last two iterations.

    Raises:
        InvalidArgumentError: `interval` is not positive, `large_tensor_mb` or `top_layers` is
            negative or infinite, `section` is empty, or `uses` is none of its values.

    Example:
        >>> log_tensor_memory_breakdown(writer, iteration, interval=100, log_file="memory.log")
        ... # doctest: +SKIP
    """
    interval = whole_number("interval", interval, 1)
    number = number_in_loop("log_tensor_memory_breakdown()", "iteration", iteration)
    top_layers = whole_number("top_layers", top_layers, 0)
    section = text("section", section)
    if not section:
        raise bad_argument("section", section, "it must not be empty")
    if not isinstance(large_tensor_mb, Real) or not 0 <= large_tensor_mb < _MOST_MB:
        raise bad_argument("large_tensor_mb", large_tensor_mb, "it must be a number from 0 on")
    check_choice("uses", uses, ("auto", "always", "sampled", "never"))
    if number is None:
        return
    with Suppressed(MemoryError):  # skip the sample; the training continues
        watch(
            uses=uses
        )  # even if no sample is due yet, so that the first one has the earlier tensors
        if uses != "never":
            _use_steps.end_step()
        if number % interval == 0:
            sample = _record.take_sample(
                number,
                large_tensor_bytes=round(large_tensor_mb * _MB),
                use_steps=_use_steps if uses != "never" else None,
            )
            if writer is not None:
                add_scalars(writer, sample, section, top_layers)
            if log_file is not None:
                append_snapshot(log_file, sample, top_layers)
            attachment.learn(_has_activations(sample))
    attachment.observe_if_needed((number + 1) % interval == 0)
    if uses in ("auto", "sampled"):
        is_near = any((number + ahead) % interval == 0 for ahead in (1, 2, 3))
        attachment.observe_uses(log_tensor_memory_breakdown, is_near)


def _has_activations(sample: _record.MemorySample) -> bool:
    """Return whether the sample lies between forward and backward.

    Most tensors are then retained by the graph and have no Python object. Only observed operators
    can describe them.
    """
    live_bytes = sum(device.live_bytes for device in sample.devices)
    shares = [
        dtype for device in sample.devices for dtype in device.dtypes if dtype.name == "unknown"
    ]
    shares += [c for device in sample.devices for c in device.categories if c.name == "activation"]
    return 100 * sum(share.size_bytes for share in shares) > live_bytes


def _mb(size_bytes: int | None) -> float | None:
    return size_bytes / _MB if size_bytes is not None else None
