"""`MemoryTracer`: what each layer of a model costs, traced exactly where you say."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from plimsoll.errors import InvalidArgumentError
from plimsoll.recording import Recording, record
from plimsoll.trace import Trace, open_bytes

if TYPE_CHECKING:
    import torch

NO_LAYER = "[no layer]"
"""The name under which `MemoryTracer.get_layer_stats` tells what belongs to no layer."""


@dataclass(frozen=True)
class LayerMemoryStats:
    """What one layer's own memory was, without that of the layers inside it; in bytes.

    The first nine were live when the device had most in use, and of them the first four sum to
    ``live_bytes``: by the phase in which they were allocated.
    """

    name: str
    forward_bytes: int
    backward_bytes: int
    optimizer_bytes: int
    other_bytes: int
    live_bytes: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_state_bytes: int
    activation_bytes: int
    saved_bytes: int
    """Activations kept for a backward, where the most were."""
    peak_bytes: int
    """The most that this layer ever had."""
    inclusive_peak_bytes: int
    """The most that it and the layers inside it ever had together."""


@dataclass(frozen=True)
class MemoryEvent:
    """One allocation or free."""

    time_ns: int | None
    action: str
    size_bytes: int
    address: int
    layer: str
    operator: str | None
    phase: str | None
    category: str | None


class MemoryTracer:
    """Traces what a model does to memory while a ``with`` block runs, layer by layer.

    All tensors are followed, in forward, backward and optimizer, to the byte; nothing is sampled.
    Hooks are there only while a block runs, and go when it is left, by an exception too. Blocks may
    be nested (the outermost counts) and repeated: `get_layer_stats` then tells each layer as it was
    in the block where it had most, everything else tells of the last block.

    One tracer may be used from any thread.

    Args:
        max_events: Keep the newest so many events of a block, about; what was before is summed up.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``. Default: where the first traced model lives.
        enable_fragmentation_tracking: Whether `get_fragmentation_stats` is to answer.

    Example:
        >>> tracer = plimsoll.MemoryTracer()
        >>> with tracer.trace(model):  # doctest: +SKIP
        ...     loss_of(model(x), y).backward()
        >>> tracer.get_layer_stats()["blocks.3.attn"].activation_bytes  # doctest: +SKIP
        4194304
    """

    def __init__(
        self,
        max_events: int = 100_000,
        device: str | torch.device | int | None = None,
        enable_fragmentation_tracking: bool = True,
    ) -> None:
        if max_events <= 0:
            raise InvalidArgumentError("invalid_argument", "max_events must be positive")
        self.max_events = max_events
        self.enable_fragmentation_tracking = enable_fragmentation_tracking
        self._device = _device_name(device)
        self._lock = threading.RLock()
        self._depth = 0
        self._running: Recording | None = None
        self._models: list[set[str]] = []
        self._unread: bytes | None = None
        self._last: Trace | None = None
        self._layers: dict[str, LayerMemoryStats] = {}

    @contextmanager
    def trace(self, model: torch.nn.Module) -> Iterator[MemoryTracer]:
        """Traces while the block runs.

        Args:
            model: The model whose layers are asked for. Others are traced too.
        """
        self._enter(model)
        try:
            yield self
        finally:
            self._leave()

    def get_layer_stats(self) -> dict[str, LayerMemoryStats]:
        """Each layer, by its name in ``model.named_modules()``.

        The model itself has the name of its class, other models' layers stand behind the name of
        theirs, and what belongs to no layer is `NO_LAYER`.
        """
        with self._lock:
            self._read()
            prefix = self._prefix()
            stats = (
                replace(each, name=_short(each.name, prefix)) for each in self._layers.values()
            )
            return {each.name: each for each in stats}

    def get_peak_memory_per_layer(self) -> dict[str, int]:
        """The most bytes that each layer had at once, with the layers inside it; most first."""
        peaks = {name: each.inclusive_peak_bytes for name, each in self.get_layer_stats().items()}
        return dict(sorted(peaks.items(), key=lambda item: -item[1]))

    def get_fragmentation_stats(self) -> dict[str, int | float | None]:
        """Where bytes that the allocator holds are not allocated, at the end of the last block.

        Empty if it is not tracked, and for the CPU, where torch has no allocator that holds memory.
        """
        totals = self._totals()
        if not self.enable_fragmentation_tracking or not totals or totals["segments"] == 0:
            return {}
        return {
            key: value
            for key, value in totals["fragmentation"].items()
            if value is None or isinstance(value, (int, float))
        }

    def get_events(self) -> list[MemoryEvent]:
        """What happened in the last block, in order; without what `max_events` left out."""
        trace = self.report()
        if trace is None:
            return []
        columns = trace.events.to_pydict()
        prefix = self._prefix()
        names = [field.name for field in fields(MemoryEvent)]
        absent = [None] * len(columns["action"])
        rows = zip(*(columns.get(name, absent) for name in ("device", *names)), strict=True)
        here = _same_device(self._device or "cpu")
        events = (MemoryEvent(*row) for device, *row in rows if device in here)
        return [replace(event, layer=_short(event.layer or "", prefix)) for event in events]

    def report(self) -> Trace | None:
        """The last block as `plimsoll.open` would give it; None if there was none."""
        with self._lock:
            self._read()
            return self._last

    def export_flame_graph(self, path: str | os.PathLike[str]) -> None:
        """Writes flame graphs of the last block for https://www.speedscope.app."""
        self._report_or_raise().export(path, format="speedscope")

    def export_timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes the last block as JSON: ``events``, ``layer_stats`` by name, ``summary``."""
        self._report_or_raise()
        content = {
            "events": [asdict(event) for event in self.get_events()],
            "layer_stats": {name: asdict(each) for name, each in self.get_layer_stats().items()},
            "summary": self._totals(),
        }
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)

    def print_summary(self, top: int = 10, file: IO[str] | None = None) -> None:
        """Prints the report of the last block: findings, then memory by layer and category."""
        trace = self.report()
        text = "Nothing was traced.\n" if trace is None else trace.summary(top=top)
        print(text, end="", file=file or sys.stdout)

    def reset(self) -> None:
        """Forgets all that was traced, the models too."""
        with self._lock:
            self._unread, self._last, self._layers = None, None, {}
            self._models = self._models[-1:] if self._depth else []

    # What runs ------------------------------------------------------------------------------------

    def _enter(self, model: torch.nn.Module) -> None:
        with self._lock:
            if self._device is None:
                first = next(model.parameters(), None)
                self._device = "cpu" if first is None else str(first.device)
            if self._depth == 0:
                self._read()
                self._start()
            self._depth += 1
            names = {name for name, _ in model.named_modules() if name} | {type(model).__name__}
            if names not in self._models:
                self._models.append(names)

    def _start(self) -> None:
        handle, path = tempfile.mkstemp(prefix="plimsoll-", suffix=".plim")
        os.close(handle)
        try:
            self._running = record(path, max_events=self.max_events).start()
        except BaseException:
            os.unlink(path)
            raise

    def _leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth > 0 or self._running is None:
                return
            recording, self._running = self._running, None
            try:
                recording.stop()
                self._unread = Path(recording.path).read_bytes()
            finally:
                os.unlink(recording.path)

    # What was traced ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Reads what the last block left, if nobody has yet."""
        if self._unread is None:
            return
        unread, self._unread = self._unread, None
        self._last = open_bytes(unread, name="MemoryTracer", top=1_000_000)
        for row in self._last.tables["layers"]:
            stats = _stats_of(row)
            known = self._layers.get(stats.name)
            if row["device"] != self._ordinal():
                continue
            if known is None or stats.inclusive_peak_bytes >= known.inclusive_peak_bytes:
                self._layers[stats.name] = stats

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


def _stats_of(row: dict[str, Any]) -> LayerMemoryStats:
    own = row["own"]
    return LayerMemoryStats(
        name=row["layer"],
        forward_bytes=own["forward_bytes"],
        backward_bytes=own["backward_bytes"],
        optimizer_bytes=own["optimizer_bytes"],
        other_bytes=own["other_bytes"],
        live_bytes=own["bytes"],
        parameter_bytes=own["parameter_bytes"],
        gradient_bytes=own["gradient_bytes"],
        optimizer_state_bytes=own["optimizer_state_bytes"],
        activation_bytes=own["activation_bytes"],
        saved_bytes=own["saved_bytes"],
        peak_bytes=own["peak_bytes"],
        inclusive_peak_bytes=row["inclusive"]["peak_bytes"],
    )


def _short(path: str, prefix: str | None) -> str:
    """The layer's name as the model's named_modules() has it."""
    if not path:
        return NO_LAYER
    return path.removeprefix(f"{prefix}.") if prefix else path


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
