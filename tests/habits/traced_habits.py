"""Code shared by the tests of MemoryTracer."""

from habit_models import make

from plimsoll import MemoryTracer

STATS = {
    "layer_name": str,
    "peak_allocated": int,
    "peak_reserved": int,
    "total_allocations": int,
    "total_deallocations": int,
    "avg_fragmentation": float,
    "duration_ms": float,
}
EVENT = {
    "timestamp": float,
    "event_type": str,
    "size_bytes": int,
    "layer_name": (str, type(None)),
    "allocated_bytes": int,
    "reserved_bytes": int,
    "fragmentation_ratio": float,
}
KINDS = {"alloc", "free", "snapshot", "layer_enter", "layer_exit"}


def traced(device, **options):
    """A forward pass, traced."""
    model, x = make(device)
    tracer = MemoryTracer(**options)
    with tracer.trace(model):
        model(x)
    return tracer


def steps(events, *kinds):
    return [event for event in events if event.event_type in kinds]
