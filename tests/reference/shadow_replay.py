"""Checks a trace against its own final segments: replays every event on a set of address ranges.

The start state is the final one rolled back, so a trace that begins in the middle of a program can
be replayed too. Returns a list of contradictions; a consistent file has none.
"""

import bisect

from . import snapshot_sets as sets


class Ranges:
    """Disjoint ranges [start, start + size), sorted by start."""

    def __init__(self):
        self.starts = []
        self.sizes = {}

    def add(self, start, size):
        """Add a range; return whether it overlapped no other."""
        at = bisect.bisect_right(self.starts, start)
        before = self.starts[at - 1] if at > 0 else None
        after = self.starts[at] if at < len(self.starts) else None
        is_free = (before is None or before + self.sizes[before] <= start) and (
            after is None or start + size <= after
        )
        if start not in self.sizes:
            self.starts.insert(at, start)
        self.sizes[start] = size
        return is_free

    def remove(self, start):
        if start in self.sizes:
            del self.sizes[start]
            self.starts.remove(start)

    def covers(self, start, size):
        """Whether adjacent ranges cover [start, start + size) without a gap."""
        at = bisect.bisect_right(self.starts, start) - 1
        cursor = start
        while 0 <= at < len(self.starts) and self.starts[at] <= cursor < start + size:
            cursor = max(cursor, self.starts[at] + self.sizes[self.starts[at]])
            at += 1
        return cursor >= start + size


def segment_ranges(snapshot, device):
    """Memory reserved before the first event: address -> size, one entry per segment or mapping."""
    reserved = {s["address"]: s["total_size"] for s in sets.segments_of(snapshot, device)}
    for event in reversed(sets.trace_of(snapshot, device)):
        if event["action"] in ("segment_alloc", "segment_map"):
            owner = max((a for a in reserved if a <= event["addr"]), default=None)
            if owner is not None:  # an expandable segment ends where its last mapping ends
                reserved[owner] -= event["size"]
                if reserved[owner] <= 0:
                    del reserved[owner]
        elif event["action"] in ("segment_free", "segment_unmap"):
            reserved[event["addr"]] = event["size"]
    return reserved


def complaints(snapshot, device):
    found = []
    reserved, live = Ranges(), Ranges()
    for address, size in segment_ranges(snapshot, device).items():
        reserved.add(address, size)
    for address, block in sets.baseline_live_set(snapshot, device).items():
        if not live.add(address, block.size):
            found.append(f"baseline: block {address:#x} overlaps another")
    for index, event in enumerate(sets.trace_of(snapshot, device)):
        action, address, size = event["action"], event.get("addr"), event.get("size", 0)
        if action in ("segment_alloc", "segment_map"):
            if not reserved.add(address, size):
                found.append(f"event {index}: {action} {address:#x} overlaps a segment")
        elif action in ("segment_free", "segment_unmap"):
            if reserved.sizes.get(address) != size:
                found.append(f"event {index}: {action} {address:#x} does not match a segment")
            reserved.remove(address)
        elif action == "alloc":
            if not reserved.covers(address, size):
                found.append(f"event {index}: alloc {address:#x} lies in no segment")
            if not live.add(address, size):
                found.append(f"event {index}: alloc {address:#x} overlaps a live block")
        elif action in ("free_requested", "free_completed"):
            if live.sizes.get(address) != size:
                found.append(f"event {index}: {action} {address:#x} matches no live block")
            if action == "free_completed":
                live.remove(address)
    final = {a: b.size for a, b in sets.final_live_set(snapshot, device).items()}
    if live.sizes != final:
        found.append(f"end: {len(live.sizes)} live blocks, but {len(final)} in the segments")
    for segment in sets.segments_of(snapshot, device):
        if not reserved.covers(segment["address"], segment["total_size"]):
            found.append(f"end: segment {segment['address']:#x} was never reserved")
    return found
