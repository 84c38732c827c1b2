"""The results of `plimsoll.MemoryTracer`, which the engine computes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from plimsoll._core import TracedEvents


@dataclass(frozen=True)
class LayerMemoryStats:
    """One layer over all blocks of a tracer. Sizes are bytes.

    The first seven fields include the layers inside this one. The other fields cover this layer
    alone. The fields from ``forward_bytes`` to ``activation_bytes`` describe the device's peak in
    the block in which this layer had the most memory. The first four of them sum to ``live_bytes``.
    """

    layer_name: str
    peak_allocated: int
    """Peak of the bytes that belong to the layer."""
    peak_reserved: int
    """Maximum that the device's allocator had reserved while the layer ran or its memory changed.
    On the CPU, where torch reserves nothing: maximum that the device had allocated."""
    total_allocations: int
    total_deallocations: int
    avg_fragmentation: float
    """Mean of ``MemoryEvent.fragmentation_ratio``, 0 to 1, over the events while the layer ran and
    the events of its memory."""
    duration_ms: float
    """Wall time of the layer's forward, summed over its calls; nested calls count once."""
    calls: int
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
    """Activations saved for backward, in the block in which the layer's peak was highest. In a
    mixture of experts, layers reach it in different blocks: the sum can exceed one backward's."""
    peak_bytes: int
    """Peak of the layer alone, without the layers inside it."""


@dataclass(frozen=True)
class MemoryEvent:
    """An event on the traced device, and the device's totals after it.

    ``event_type`` is one of

    - ``"alloc"``, ``"free"``;
    - ``"layer_enter"``, ``"layer_exit"``: a forward begins or ends;
    - ``"snapshot"``: the totals at the start and end of a block; also the first event of memory
      that was allocated before the block, with its size.
    """

    timestamp: float
    """Seconds since the tracer's first block began."""
    event_type: str
    size_bytes: int
    layer_name: str | None
    """For an alloc or free, the layer that owns the memory."""
    allocated_bytes: int
    reserved_bytes: int
    fragmentation_ratio: float
    """(reserved - allocated) / reserved, 0 to 1; 0 if nothing is reserved."""
    time_ns: int
    address: int | None
    operator: str | None
    """The operator that allocated the memory; `phase` is the phase of that allocation."""
    phase: str | None
    category: str | None


class MemoryEvents(Sequence[MemoryEvent]):
    """Events of a tracer; immutable. An event becomes a `MemoryEvent` when it is read."""

    def __init__(self, events: TracedEvents, name_of: Callable[[str], str]) -> None:
        self._events = events
        self._name_of = functools.cache(name_of)

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> MemoryEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[MemoryEvent]: ...
    def __getitem__(self, index: int | slice) -> MemoryEvent | list[MemoryEvent]:
        rows = range(len(self))[index]
        return self._event(rows) if isinstance(rows, int) else [self._event(row) for row in rows]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self):,} memory events>"

    def to_pydict(self) -> dict[str, list[Any]]:
        """Return the events as columns: a list for each field of `MemoryEvent`."""
        columns: dict[str, list[Any]] = {field.name: [] for field in fields(MemoryEvent)}
        for row in range(len(self)):
            for column, value in zip(columns.values(), self._fields(row), strict=True):
                column.append(value)
        return columns

    def _event(self, row: int) -> MemoryEvent:
        return MemoryEvent(*self._fields(row))

    def _fields(self, row: int) -> list[Any]:
        values = [
            sys.intern(value) if isinstance(value, str) else value
            for value in self._events.fields_of(row)
        ]
        if values[_LAYER_NAME] is not None:
            values[_LAYER_NAME] = self._name_of(values[_LAYER_NAME])
        return values


_LAYER_NAME = [field.name for field in fields(MemoryEvent)].index("layer_name")
