"""`MemoryTracer`: what each layer of a model costs, traced exactly where you say."""

from __future__ import annotations

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

from plimsoll._arguments import whole_number
from plimsoll._attachment import Mode
from plimsoll._paths import path_text
from plimsoll._tracer_results import (
    COLUMNS,
    LayerMemoryStats,
    MemoryEvent,
    TracedLayer,
    event_of,
    short_name,
)
from plimsoll.errors import InvalidArgumentError
from plimsoll.recording import MemoryRecording
from plimsoll.trace import Trace, open_bytes

if TYPE_CHECKING:
    import torch

__all__ = ["NO_LAYER", "LayerMemoryStats", "MemoryEvent", "MemoryTracer"]

NO_LAYER = "[no layer]"
"""The key of `MemoryTracer.get_layer_stats` for memory that belongs to no layer."""

_MOST_UNREAD_BYTES = 64 << 20


class MemoryTracer:
    """Trace the memory of a model, layer by layer, while a ``with`` block runs.

    The tracer records every tensor allocation in forward, backward and optimizer; nothing is
    sampled. Hooks exist only inside the block; an exception removes them too. Blocks may be nested
    (the outermost counts) and repeated. Layer statistics and events cover all blocks; `report`,
    `print_summary` and the flame graph show the last one.

    A block is analyzed when its results are first requested. Any thread may use the tracer.

    Args:
        max_events: Keep the newest N events, about; what was before is summed up.
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
        self.enable_fragmentation_tracking = enable_fragmentation_tracking
        self.mode: Mode = mode
        self._device = _device_name(device)
        self._is_device_checked = False
        self._lock = threading.RLock()
        self._blocks: set[object] = set()  # those that run
        self._running: MemoryRecording | None = None
        self._model: weakref.ref[torch.nn.Module] | None = None  # whose names were taken last
        self._models: list[set[str]] = []
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
            prefix, began_ns = self._prefix(), self._began_ns or 0
            return [event_of(row, prefix, began_ns) for row in self._rows]

    def get_layer_stats(self) -> dict[str, LayerMemoryStats]:
        """Each layer, by its name in ``model.named_modules()``.

        The model itself is listed under its class name. Layers of other models have that model's
        class name as a prefix, and so do all layers once several models have been traced.
        `NO_LAYER` has the memory that belongs to no layer.
        """
        with self._lock:
            self._read()
            prefix = self._prefix()
            names = {path: short_name(path, prefix) or NO_LAYER for path in self._layers}
            return {name: self._layers[path].stats(name) for path, name in names.items()}

    def get_peak_memory_per_layer(self) -> dict[str, int]:
        """The most bytes that each layer had at once, with the layers inside it; most first."""
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
        with open(path_text(output_path), "w", encoding="utf-8") as file:
            json.dump(content, file)

    def print_summary(self, top: int = 10, file: IO[str] | None = None) -> None:
        """Prints the report of the last block: findings, then memory by layer and category."""
        trace = self.report()
        text = "Nothing was traced.\n" if trace is None else trace.summary(top=top)
        print(text, end="", file=file or sys.stdout)

    def reset(self) -> None:
        """Forgets all that was traced, the models too."""
        with self._lock:
            self._forget()
            self._models = self._models[-1:] if self._blocks else []
            self._model = self._model if self._blocks else None

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
                self._running = MemoryRecording(max_events=self.max_events, mode=self.mode)
                self._running.start()
            self._know(model)

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
        self._running = None

    def _holds_much(self) -> bool:
        """Whether unread blocks hold more events, or bytes, than a tracer should keep."""
        return (
            sum(each.state["events"] for each in self._unread) > self.max_events
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
            print(f"plimsoll: {problem}; MemoryTracer traces the CPU", file=sys.stderr, flush=True)
            self._device = "cpu"

    def _know(self, model: torch.nn.Module) -> None:
        if self._model is not None and self._model() is model:
            return
        self._model = weakref.ref(model)
        names = {name for name, _ in model.named_modules() if name} | {type(model).__name__}
        if names not in self._models:
            self._models.append(names)

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
        columns = trace.timeline.to_pydict()
        here = _same_device(self._device or "cpu")
        rows = zip(*(columns[name] for name in ("device", *COLUMNS)), strict=True)
        self._rows.extend(tuple(row) for device, *row in rows if device in here)
        if self._began_ns is None:
            self._began_ns = min((each for each in columns["time_ns"] if each), default=None)

    def _report_or_raise(self) -> Trace:
        trace = self.report()
        if trace is None:
            raise InvalidArgumentError("invalid_argument", "nothing was traced: use trace(model)")
        return trace

    def _totals(self) -> dict[str, Any]:
        """The device's totals in the last block; empty if nothing happened there."""
        trace = self.report()
        devices = [] if trace is None else trace.devices
        return next((each for each in devices if each["device"] == self._ordinal()), {})

    def _ordinal(self) -> int:
        name = self._device or "cpu"
        return -1 if name.startswith("cpu") else int(name.partition(":")[2] or 0)

    def _prefix(self) -> str | None:
        """The traced model's path in the recording; None: there are several, or it is unsure."""
        if len(self._models) != 1:
            return None
        names = self._models[0]
        paths = self._layers.keys()
        roots = [path for path in paths if path and "." not in path]

        def known(path: str) -> int:
            return sum(f"{path}.{name}" in paths for name in names) + (path in names)

        for candidates in (roots, paths):
            scores = sorted(((known(path), path) for path in candidates if path), reverse=True)
            if scores and scores[0][0] > 0:
                is_sure = len(scores) == 1 or scores[0][0] > scores[1][0]
                return scores[0][1] if is_sure else None
        return None


def _check_is_module(model: object) -> None:
    module_type: Any = sys.modules["torch"].nn.Module if "torch" in sys.modules else ()
    if not isinstance(model, module_type):
        raise InvalidArgumentError(
            "invalid_argument",
            f"trace() takes a torch.nn.Module, not {type(model).__name__}: pass the model",
        )


def _problem_of(device: str) -> str | None:
    """Why nothing can be traced on the device; None if it can."""
    if not device.startswith("cuda"):
        return None
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
    return name
