"""`MemoryTracer`: what each layer of a model costs, in the blocks that you trace."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from plimsoll import _record
from plimsoll._process.arguments import flag, whole_number
from plimsoll._process.messages import print_notice
from plimsoll._process.paths import path_text
from plimsoll._torch.hooks import Mode
from plimsoll._torch.traced_models import NO_LAYER, TracedModels
from plimsoll._tracer_results import (
    COLUMNS,
    LayerMemoryStats,
    MemoryEvent,
    TracedLayer,
    event_of,
    first_time_ns,
)
from plimsoll.errors import InvalidArgumentError
from plimsoll.recording import MemoryRecording
from plimsoll.trace import Trace, open_bytes

if TYPE_CHECKING:
    import torch

__all__ = ["NO_LAYER", "LayerMemoryStats", "MemoryEvent", "MemoryTracer"]

_SUMMED_EVENTS = 2_000_000
"""A block keeps at least so many events, some 5 bytes each, for the statistics of its layers."""

_MOST_UNREAD_BYTES = 64 << 20

_tracers: weakref.WeakSet[MemoryTracer] = weakref.WeakSet()


class MemoryTracer:
    """Trace the memory of a model, layer by layer, while a ``with`` block runs.

    The tracer records every tensor allocation in forward, backward and optimizer; nothing is
    sampled. Hooks exist only inside the block; an exception removes them too. Blocks may be nested
    (the outermost counts) and repeated. Layer statistics and events cover all blocks; `report`,
    `print_summary` and the flame graph show the last one.

    A block is analyzed when its results are first requested. Any thread may use the tracer.

    Args:
        max_events: How many events `events` and `export_timeline` list: the newest of all blocks.
            Statistics of layers cover all events of a block, as long as it has no more than 2
            million or `max_events`, whichever is larger; after that the oldest are discarded and
            a line on stderr gives their number.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``. Default: where the first traced model is. A
            CUDA device that does not exist is reported once, and the CPU is traced instead.
        enable_fragmentation_tracking: Whether `get_fragmentation_stats` and
            `get_allocator_stats` return anything.
        mode: ``"full"``, or ``"lite"``: allocations, layers and phases alone, at a few nanoseconds
            an allocation; no operators, no Python lines, no temporaries.

    Example:
        >>> tracer = plimsoll.MemoryTracer()
        >>> with tracer.trace(model):  # doctest: +SKIP
        ...     loss_of(model(x), y).backward()
        >>> tracer.get_layer_stats()["blocks.3.attn"].peak_allocated  # doctest: +SKIP
        4194304
    """

    def __init__(
        self,
        max_events: int = 100_000,
        device: str | torch.device | int | None = None,
        enable_fragmentation_tracking: bool = True,
        mode: Mode = "full",
    ) -> None:
        max_events = whole_number("max_events", max_events, 1)
        if mode not in ("full", "lite"):
            raise InvalidArgumentError("invalid_argument", f"no mode '{mode}': one of full, lite")
        self.max_events = max_events
        self.enable_fragmentation_tracking = flag(
            "enable_fragmentation_tracking", enable_fragmentation_tracking
        )
        self.mode: Mode = mode
        self._device = _device_name(device)
        self._is_device_checked = False
        self._losses: set[str] = set()  # that have been reported
        self._lock = threading.RLock()
        _tracers.add(self)
        self._blocks: set[object] = set()  # those that run
        self._running: MemoryRecording | None = None
        self._models = TracedModels()
        self._unread: list[MemoryRecording] = []
        self._forget()

    def _forget(self) -> None:
        self._unread = []
        self._last: Trace | None = None
        self._layers: dict[str, TracedLayer] = {}
        self._rows: deque[tuple[Any, ...]] = deque(maxlen=self.max_events)
        self._began_ns: int | None = None

    @contextmanager
    def trace(self, model: torch.nn.Module) -> Iterator[MemoryTracer]:
        """Traces while the block runs.

        Args:
            model: The model whose layers are asked for. Others are traced too.

        Raises:
            InvalidArgumentError: `model` is not a ``torch.nn.Module``.
        """
        block = object()
        try:
            self._enter(model, block)
            yield self
        finally:
            self._leave(block)

    @property
    def events(self) -> list[MemoryEvent]:
        """The newest `max_events` events of all blocks, in order."""
        with self._lock:
            self._read()
            name_of = functools.cache(self._models.name_of)
            return [event_of(row, name_of, self._began_ns or 0) for row in self._rows]

    def get_layer_stats(self) -> dict[str, LayerMemoryStats]:
        """Each layer, by its name in ``model.named_modules()``.

        The model itself is listed under its class name. Other models of the process are recorded
        too: their layers have that model's class name as a prefix (``Teacher.up``; ``Net#2.up``
        where the traced model is a ``Net``), and so do all layers once several models have been
        traced. `NO_LAYER` has the memory that belongs to no layer.
        """
        with self._lock:
            self._read()
            stats: dict[str, LayerMemoryStats] = {}
            for path in sorted(self._layers, key=lambda path: path.count(".")):
                name = self._models.name_of(path)
                name = path if name in stats else name  # a child with the name of the class
                stats[name] = self._layers[path].stats(name)
            return stats

    def get_peak_memory_per_layer(self) -> dict[str, int]:
        """The peak bytes of each layer, with the layers inside it; largest first."""
        peaks = {name: each.peak_allocated for name, each in self.get_layer_stats().items()}
        return dict(sorted(peaks.items(), key=lambda item: -item[1]))

    def get_fragmentation_stats(self) -> dict[str, float]:
        """The mean fragmentation ratio of each layer, 0 to 1. Empty if it is not tracked.

        It is 0 on the CPU, where torch's allocator reserves nothing.
        """
        if not self.enable_fragmentation_tracking:
            return {}
        return {name: each.avg_fragmentation for name, each in self.get_layer_stats().items()}

    def get_allocator_stats(self) -> dict[str, int | float | None]:
        """Return the allocator's cached, stranded and other bytes at the end of the last block.

        Empty if fragmentation is not tracked, and on the CPU, where torch reserves nothing.
        """
        totals = self._totals()
        if not self.enable_fragmentation_tracking or not totals or totals["segments"] == 0:
            return {}
        return {
            key: value
            for key, value in totals["fragmentation"].items()
            if value is None or isinstance(value, (int, float))
        }

    def report(self) -> Trace | None:
        """The last block as `plimsoll.open` would give it; None if there was none."""
        with self._lock:
            self._read()
            return self._last

    def export_flame_graph(self, output_path: str | os.PathLike[str]) -> None:
        """Writes profiles of the last block for https://www.speedscope.app.

        It opens with the first one, memory over time. Left Heavy and Sandwich of the others show
        what fills the memory.
        """
        self._report_or_raise().export(output_path, format="speedscope")

    def export_timeline(self, output_path: str | os.PathLike[str]) -> None:
        """Writes all blocks as JSON: ``events``, ``layer_stats`` by name, ``summary``."""
        self._report_or_raise()
        content = {
            "events": [asdict(event) for event in self.events],
            "layer_stats": {name: asdict(each) for name, each in self.get_layer_stats().items()},
            "summary": self._totals(),
        }
        path = path_text(output_path)
        with _record.QuietWriting(), open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)

    def print_summary(self, top: int = 10, file: IO[str] | None = None) -> None:
        """Prints the report of the last block: findings, then memory by layer and category."""
        trace = self.report()
        nothing = "The block has not ended.\n" if self._blocks else "Nothing was traced.\n"
        text = nothing if trace is None else trace.summary(top=top)
        print(text, end="", file=file or sys.stdout)

    def reset(self) -> None:
        """Forgets all that was traced, the models too."""
        with self._lock:
            self._forget()
            if not self._blocks:
                self._models = TracedModels()

    # What runs ------------------------------------------------------------------------------------

    def _enter(self, model: torch.nn.Module, block: object) -> None:
        _check_is_module(model)
        with self._lock:
            self._check_device(model)
            is_first = not self._blocks
            self._blocks.add(block)
            if is_first:
                if self._holds_much():
                    self._read()
                self._running = MemoryRecording(max_events=self._kept_events(), mode=self.mode)
                self._running.start()
            self._models.add(model)

    def _leave(self, block: object) -> None:
        with self._lock:
            try:
                self._end(block)
            except BaseException:  # of a signal's handler: it waits until the block has ended
                self._end(block)
                raise

    def _end(self, block: object) -> None:
        """May be interrupted and called again."""
        self._blocks.discard(block)
        recording = self._running
        if self._blocks or recording is None:
            return
        recording.stop()
        if recording.state and recording not in self._unread:
            self._unread.append(recording)
            self._report_lost(recording.state)
        self._running = None

    def _kept_events(self) -> int:
        return max(self.max_events, _SUMMED_EVENTS)

    def _report_lost(self, state: dict[str, int]) -> None:
        for key, how in (("evicted", "discarded the {:,} oldest"), ("dropped", "lost {:,}")):
            if state[key] and key not in self._losses:
                self._losses.add(key)
                advice = f"trace less in a block, or set max_events above {self._kept_events():,}"
                if key == "dropped":
                    advice = "its threads allocated faster than they could be recorded"
                message = (
                    f"MemoryTracer {how.format(state[key])} events of a block;"
                    f" statistics of layers lack them: {advice}"
                )
                print_notice(message)

    def _holds_much(self) -> bool:
        """Whether unread blocks hold more events, or bytes, than a tracer should keep."""
        return (
            sum(each.state["events"] for each in self._unread) > self._kept_events()
            or sum(len(each.trace) for each in self._unread) > _MOST_UNREAD_BYTES
        )

    def _check_device(self, model: torch.nn.Module) -> None:
        if self._device is None:
            first = next(model.parameters(), None)
            self._device = "cpu" if first is None else str(first.device)
        if self._is_device_checked:
            return
        self._is_device_checked = True
        problem = _problem_of(self._device)
        if problem is not None:
            print_notice(f"{problem}; MemoryTracer traces the CPU")
            self._device = "cpu"

    # What was traced ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Reads the blocks that have not been read yet."""
        unread, self._unread = self._unread, []
        for recording in unread:
            self._last = open_bytes(recording.trace, name=recording.path, top=1_000_000)
            self._add_layers(self._last)
            self._add_rows(self._last)

    def _add_layers(self, trace: Trace) -> None:
        for row in trace.tables["layers"]:
            if row["device"] == self._ordinal():
                self._layers.setdefault(row["layer"], TracedLayer(row)).add(row)

    def _add_rows(self, trace: Trace) -> None:
        here = _same_device(self._device or "cpu")
        table, count = trace.timeline, self.max_events
        while True:  # the newest rows may be those of other devices
            columns = table.to_pydict(max(0, len(table) - count))
            rows = zip(*(columns[name] for name in ("device", *COLUMNS)), strict=True)
            newest = [tuple(row) for device, *row in rows if device in here]
            if len(newest) >= self.max_events or count >= len(table):
                break
            count *= 4
        self._rows.extend(newest)
        if self._began_ns is None:
            self._began_ns = first_time_ns(table)

    def _report_or_raise(self) -> Trace:
        trace = self.report()
        if trace is not None:
            return trace
        problem = "nothing was traced: use trace(model)"
        if self._blocks:
            problem = "the first block of trace(model) has not ended: call this after it"
        raise InvalidArgumentError("invalid_argument", problem)

    def _totals(self) -> dict[str, Any]:
        """The device's totals in the last block; empty if nothing happened there."""
        trace = self.report()
        devices = [] if trace is None else trace.devices
        return next((each for each in devices if each["device"] == self._ordinal()), {})

    def _ordinal(self) -> int:
        name = self._device or "cpu"
        return -1 if name.startswith("cpu") else int(name.partition(":")[2] or 0)


def _check_is_module(model: object) -> None:
    module_type: Any = sys.modules["torch"].nn.Module if "torch" in sys.modules else ()
    if not isinstance(model, module_type):
        raise InvalidArgumentError(
            "invalid_argument",
            f"trace() takes a torch.nn.Module, not {type(model).__name__}: pass the model",
        )


def _problem_of(device: str) -> str | None:
    """Why nothing can be traced on the device; None if it can."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return None
    if kind != "cuda":
        return f"the model is on {device}, whose memory Plimsoll does not record"
    cuda: Any = sys.modules["torch"].cuda
    count = cuda.device_count() if cuda.is_available() else 0
    if count == 0:
        return f"{device} is unavailable: torch finds no CUDA device"
    number = int(device.partition(":")[2] or 0)
    return None if number < count else f"{device} is unavailable: torch finds {count} CUDA devices"


def _same_device(name: str) -> tuple[str, str]:
    """Both ways to write it."""
    kind, _, number = name.partition(":")
    return (kind, f"{kind}:0") if number in ("", "0") else (name, name)


def _device_name(device: Any) -> str | None:
    if device is None:
        return None
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise InvalidArgumentError("invalid_argument", f"no device '{name}': cpu, cuda or cuda:1")
    return name if kind == "cuda" else kind


def _renew_locks() -> None:
    for tracer in list(_tracers):
        tracer._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)
