"""`MemoryTracer`: the memory of each layer of a model, in the blocks that you trace."""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from plimsoll import _core, _record
from plimsoll._process.arguments import check_observation, flag, whole_number
from plimsoll._process.messages import print_notice
from plimsoll._process.paths import path_text
from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll._torch.device_names import device_name, problem_of
from plimsoll._torch.hooks import Mode, Uses
from plimsoll._torch.traced_models import NO_LAYER, TracedModels
from plimsoll._tracer_results import LayerMemoryStats, MemoryEvent, MemoryEvents
from plimsoll.errors import Error, InvalidArgumentError
from plimsoll.recording import MemoryRecording
from plimsoll.trace import Trace

if TYPE_CHECKING:
    import torch

__all__ = ["NO_LAYER", "LayerMemoryStats", "MemoryEvent", "MemoryEvents", "MemoryTracer"]

_SUMMED_EVENTS = 2_000_000
"""Minimum number of events that a block keeps for layer statistics, about 5 bytes each."""

_MOST_UNREAD_BYTES = 64 << 20

_ALL_ROWS = ("", "", 1_000_000)  # a question about the default device and point in time

_NOT_ENDED = "the first block of trace(model) has not ended: call this after it"

_tracers: weakref.WeakSet[MemoryTracer] = weakref.WeakSet()


class MemoryTracer:
    """Trace the memory of a model, layer by layer, while a ``with`` block runs.

    The tracer records every tensor allocation in forward, backward and optimizer; nothing is
    sampled. Hooks exist only inside the block and are removed even after an exception. Blocks may
    be repeated and nested; of nested blocks, only the outermost counts. Layer statistics and events
    cover all blocks; `report`, `print_summary` and the flame graph show the last one.

    A block is analyzed when its results are first requested. Any thread may use the tracer.

    Args:
        max_events: Number of events that `events` and `export_timeline` list: the newest of all
            blocks. Layer statistics cover all events of a block, up to 2 million or `max_events`,
            whichever is larger. Beyond that the oldest are discarded, and a line on stderr states
            their number.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``. Default: the device of the first traced model.
            If a CUDA device does not exist, this is reported once, and the CPU is traced.
        enable_fragmentation_tracking: Whether `get_fragmentation_stats` and
            `get_allocator_stats` return anything.
        mode: ``"full"``, or ``"lite"``: only allocations, layers and phases, at a few nanoseconds
            per allocation; no operators, no Python lines, no temporaries.
        uses: In which steps to record the last use of memory, as for `plimsoll.record`.

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
        uses: Uses = "auto",
    ) -> None:
        max_events = whole_number("max_events", max_events, 1)
        check_observation(mode, uses)
        self.max_events = max_events
        self.enable_fragmentation_tracking = flag(
            "enable_fragmentation_tracking", enable_fragmentation_tracking
        )
        self.mode: Mode = mode
        self.uses: Uses = uses
        self._device = device_name(device)
        self._is_device_checked = False
        self._losses: set[str] = set()  # problems that have been reported
        self._lock = threading.RLock()
        _tracers.add(self)
        self._blocks: set[object] = set()  # blocks that are running
        self._running: MemoryRecording | None = None
        self._models = TracedModels()
        self._unread: list[MemoryRecording] = []
        self._forget()

    def _forget(self) -> None:
        self._unread = []
        self._newest: MemoryRecording | None = None  # the last block that has been read
        self._trace: Trace | None = None  # of the newest block, once it is requested
        self._results: _core.TracedBlocks | None = None  # created on first access

    @contextmanager
    def trace(self, model: torch.nn.Module) -> Iterator[MemoryTracer]:
        """Trace while the ``with`` block runs.

        Args:
            model: The model whose layers the results list. Other models are traced too.

        Raises:
            InvalidArgumentError: `model` is not a ``torch.nn.Module``. Any other problem is
                reported once on stderr, and the block runs untraced.
        """
        block = object()
        try:
            self._enter(model, block)
            yield self
        finally:
            self._leave(block)

    @property
    def events(self) -> MemoryEvents:
        """The newest `max_events` events of all blocks, in order. Later blocks do not change it."""
        with self._lock:
            return MemoryEvents(self._read().events(), self._models.namer())

    def get_layer_stats(self) -> dict[str, LayerMemoryStats]:
        """Return the statistics of each layer, in the order of ``model.named_modules()``.

        The model itself is listed under its class name. Other models of the process are recorded
        too: their layers have that model's class name as a prefix (``Teacher.up``; ``Net#2.up`` if
        the traced model is a ``Net``). After several models have been traced, all layers have
        such a prefix. `NO_LAYER` has the memory that belongs to no layer.
        """
        with self._lock:
            stats: dict[str, LayerMemoryStats] = {}
            name_of = self._models.namer()
            rows = {row[0]: row[1:] for row in self._read().layers()}
            for path in self._models.in_order(rows):
                name = name_of(path)
                name = path if name in stats else name  # a child with the name of the class
                stats[name] = LayerMemoryStats(name, *rows[path])
            return stats

    def get_peak_memory_per_layer(self) -> dict[str, int]:
        """Return the peak bytes of each layer, including the layers inside it; largest first."""
        peaks = {name: each.peak_allocated for name, each in self.get_layer_stats().items()}
        return dict(sorted(peaks.items(), key=lambda item: -item[1]))

    def get_fragmentation_stats(self) -> dict[str, float]:
        """Return the mean fragmentation ratio of each layer, 0 to 1; empty if it is not tracked.

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
        """Return the last block as a `Trace`; None if there was none."""
        with self._lock:
            self._read()
            if self._trace is None and self._newest is not None:
                self._trace = _opened(self._newest)
            return self._trace

    def export_flame_graph(self, output_path: str | os.PathLike[str]) -> None:
        """Write profiles of the last block for https://www.speedscope.app.

        The first profile is memory over time. In the others, the views Left Heavy and Sandwich show
        what fills the memory.
        """
        self._report_or_raise().export(output_path, format="speedscope")

    def export_timeline(self, output_path: str | os.PathLike[str]) -> None:
        """Write all blocks as JSON: ``events``, ``layer_stats`` by name, ``summary``."""
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
        """Print the report of the last block: findings, then memory by layer and category."""
        trace = self.report()
        nothing = "The block has not ended.\n" if self._blocks else "Nothing was traced.\n"
        text = nothing if trace is None else trace.summary(top=top)
        print(text, end="", file=file or sys.stdout)

    def reset(self) -> None:
        """Discard everything that was traced, including the models."""
        with self._lock:
            self._forget()
            if not self._blocks:
                self._models = TracedModels()

    # Running blocks -------------------------------------------------------------------------------

    def _enter(self, model: torch.nn.Module, block: object) -> None:
        _check_is_module(model)
        with self._lock:
            self._check_device(model)
            is_first = not self._blocks
            self._blocks.add(block)
            if is_first:
                self._begin()
            with Suppressed(MemoryError):
                self._models.add(model)

    def _begin(self) -> None:
        try:
            if self._holds_much():
                self._read()
            self._running = MemoryRecording(
                max_events=self._kept_events(), mode=self.mode, uses=self.uses
            )
            self._running.start()
        except (Error, OSError, MemoryError) as error:  # the training continues untraced
            leave_to_program(error)
            self._running = None
            why = "not enough memory" if isinstance(error, MemoryError) else str(error)
            self._report_once("start", f"MemoryTracer cannot trace a block: {why}")

    def _leave(self, block: object) -> None:
        with self._lock:
            try:
                self._end(block)
            except BaseException:  # from a signal handler: raised after the block has ended
                self._end(block)
                raise

    def _end(self, block: object) -> None:
        """End the block. Can be called again after an interruption."""
        self._blocks.discard(block)
        recording = self._running
        if self._blocks or recording is None:
            return
        with Suppressed(MemoryError):
            recording.stop()
        if recording.state and recording not in self._unread:
            self._unread.append(recording)
            self._report_lost(recording.state)
        elif not recording.state:
            self._report_once("memory", "MemoryTracer lost a block: not enough memory")
        self._running = None

    def _kept_events(self) -> int:
        return max(self.max_events, _SUMMED_EVENTS)

    def _report_lost(self, state: dict[str, int]) -> None:
        for key, how in (("evicted", "discarded the {:,} oldest"), ("dropped", "lost {:,}")):
            if state[key]:
                advice = f"trace less in a block, or set max_events above {self._kept_events():,}"
                if key == "dropped":
                    advice = "its threads allocated faster than they could be recorded"
                events = "event" if state[key] == 1 else "events"
                message = (
                    f"MemoryTracer {how.format(state[key])} {events} of a block;"
                    f" layer statistics do not include them: {advice}"
                )
                self._report_once(key, message)

    def _report_once(self, problem: str, message: str) -> None:
        if problem not in self._losses:
            self._losses.add(problem)
            print_notice(message)

    def _holds_much(self) -> bool:
        """Return whether unread blocks have more events or bytes than a tracer should keep."""
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
        problem = problem_of(self._device)
        if problem is not None:
            print_notice(f"{problem}; MemoryTracer traces the CPU instead")
            self._device = "cpu"

    # Results --------------------------------------------------------------------------------------

    def _read(self) -> _core.TracedBlocks:
        """Read the blocks that have not been read yet; return all of them."""
        if self._newest is None and not self._unread and self._blocks:
            self._report_once("early", f"MemoryTracer has no figures yet: {_NOT_ENDED}")
        if self._results is None or self._newest is None:  # the device is known by now
            self._results = _core.TracedBlocks(self._device or "cpu", self.max_events)
        unread, self._unread = self._unread, []
        for recording in unread:
            session = _core.open_bytes(recording.trace, recording.path, None)
            self._results.add(session, session.ask(*_ALL_ROWS, None))
            self._newest, self._trace = recording, None
        return self._results

    def _report_or_raise(self) -> Trace:
        trace = self.report()
        if trace is not None:
            return trace
        problem = "nothing was traced: use trace(model)"
        if self._blocks:
            problem = _NOT_ENDED
        raise InvalidArgumentError("invalid_argument", problem)

    def _totals(self) -> dict[str, Any]:
        """Return the totals of the device in the last block; empty if it has no events."""
        trace = self.report()
        devices = [] if trace is None else trace.devices
        return next((each for each in devices if each["device"] == self._ordinal()), {})

    def _ordinal(self) -> int:
        name = self._device or "cpu"
        return -1 if name.startswith("cpu") else int(name.partition(":")[2] or 0)


def _opened(recording: MemoryRecording) -> Trace:
    return Trace(_core.open_bytes(recording.trace, recording.path, None), _ALL_ROWS)


def _check_is_module(model: object) -> None:
    module_type: Any = sys.modules["torch"].nn.Module if "torch" in sys.modules else ()
    if not isinstance(model, module_type):
        raise InvalidArgumentError(
            "invalid_argument",
            f"trace() takes a torch.nn.Module, not {type(model).__name__}: pass the model",
        )


def _renew_locks() -> None:
    for tracer in list(_tracers):
        tracer._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)
