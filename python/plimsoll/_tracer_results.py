"""The results of `plimsoll.MemoryTracer`, built from rows of the engine's tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plimsoll._core import Table


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


@dataclass
class TracedLayer:
    """Accumulates one layer over all blocks that were read."""

    most: dict[str, Any]  # its row in the block in which it had the most
    calls: int = 0
    duration_ns: int = 0
    allocations: int = 0
    frees: int = 0
    peak_reserved_bytes: int = 0
    ratios: float = 0.0  # sum of fragmentation ratios over `rows` rows
    rows: int = 0

    def add(self, row: dict[str, Any]) -> None:
        if row["inclusive"]["peak_bytes"] >= self.most["inclusive"]["peak_bytes"]:
            self.most = row
        calls = row["calls"]
        self.calls += calls["calls"]
        self.duration_ns += calls["duration_ns"]
        self.allocations += calls["allocations"]
        self.frees += calls["frees"]
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, calls["peak_reserved_bytes"])
        self.ratios += calls["fragmentation_ratio"] * calls["rows"]
        self.rows += calls["rows"]

    def stats(self, name: str) -> LayerMemoryStats:
        own = self.most["own"]
        return LayerMemoryStats(
            layer_name=name,
            peak_allocated=self.most["inclusive"]["peak_bytes"],
            peak_reserved=self.peak_reserved_bytes,
            total_allocations=self.allocations,
            total_deallocations=self.frees,
            avg_fragmentation=self.ratios / self.rows if self.rows else 0.0,
            duration_ms=self.duration_ns / 1e6,
            calls=self.calls,
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
        )


COLUMNS = (
    "time_ns",
    "event_type",
    "size_bytes",
    "layer",
    "allocated_bytes",
    "reserved_bytes",
    "address",
    "operator",
    "phase",
    "category",
)


def event_of(row: tuple[Any, ...], name_of: Callable[[str], str], began_ns: int) -> MemoryEvent:
    time_ns, event_type, size_bytes, layer, allocated, reserved, *memory = row
    time_ns = began_ns if time_ns is None else time_ns
    return MemoryEvent(
        (time_ns - began_ns) / 1e9,
        event_type,
        size_bytes,
        name_of(layer) if layer else None,
        allocated,
        reserved,
        (reserved - allocated) / reserved if reserved > allocated else 0.0,
        time_ns,
        *memory,
    )


def first_time_ns(timeline: Table) -> int | None:
    """Return the time of the first row that has one: totals at the start of a block have none."""
    count = 64
    while True:
        times = timeline.to_pydict(0, count)["time_ns"]
        first = next((each for each in times if each), None)
        if first is not None or count >= len(timeline):
            return first
        count *= 4
