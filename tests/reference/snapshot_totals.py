"""The totals of a PyTorch memory snapshot, computed the slow and obvious way.

This file is the reference for the engine's totals: it shares no code with the engine and is never
optimized. By hand:  python tests/reference/snapshot_totals.py FILE   prints the totals as JSON.

Definitions, per device (sizes in bytes, events counted from 0 within the device's own trace):

  devices       every device the file names: 0 .. len(device_traces)-1, and that of each segment
  end           the sum over the final segments (see end_bytes)
  delta         what one trace entry adds to a series (see DELTA)
  baseline      end - sum of all deltas: what was there before the first event. It may be negative
                when events and segments of a file disagree.
  peak          the largest value of the running sum, which starts at the baseline
  peak_event    the first event after which the running sum equals the peak; null when the baseline
                itself is the largest value
  peak_time_ns  time_us * 1000 of that event; null when there is no such event or it has no time
  frees_without_alloc
                lifetimes that end in the trace and whose alloc is not in it. A lifetime ends with
                its free_requested or, when that was lost, with its free_completed.
"""

import base64
import gzip
import io
import json
import pickle
import re
import sys

# The states of a final block that count as allocated, and as active.
ALLOCATED_STATES = ("active_allocated",)
ACTIVE_STATES = ("active_allocated", "active_pending_free", "active_awaiting_free")

FREES_AND_ALLOC = ("alloc", "free", "free_requested", "free_completed")

# DELTA: the sign with which an action's size enters each series.
DELTA = {
    "requested_allocated": {"alloc": +1, "free_requested": -1, "free": -1},
    "requested_active": {"alloc": +1, "free_completed": -1, "free": -1},
    "reserved": {"segment_alloc": +1, "segment_map": +1, "segment_free": -1, "segment_unmap": -1},
}


class PlainUnpickler(pickle.Unpickler):
    """Loads dicts, lists, tuples, strings and numbers. Refuses everything that could run code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refused: the pickle asks for {module}.{name}")

    def persistent_load(self, pid):
        raise pickle.UnpicklingError(f"refused: the pickle asks for the persistent object {pid!r}")


def load(path):
    """The snapshot in `path` as a dict: from a pickle, a gzipped pickle, or a trace_plot page."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if not data.startswith(b"\x80"):
        match = re.search(rb'"base64":\s*"([A-Za-z0-9+/=]+)"', data)
        if match is None:
            raise ValueError(f"{path}: neither a pickle nor a trace_plot page")
        data = base64.b64decode(match.group(1))
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    snapshot = PlainUnpickler(io.BytesIO(data)).load()
    return snapshot if isinstance(snapshot, dict) else {"segments": snapshot, "device_traces": []}


def requested_size(block):
    """The requested bytes; torch 2.0 may have them only in the newest history entry."""
    if "requested_size" in block:
        return block["requested_size"]
    history = block.get("history")
    return history[0]["real_size"] if history else block["size"]


def blocks_of(segments):
    return [block for segment in segments for block in segment["blocks"]]


def with_addresses(segments):
    """Yield the address and state of each block; torch 2.0 omits addresses after the first."""
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)
            yield address, block["state"]
            address += block["size"]


def end_bytes(trace, segments, series):
    if series == "reserved":
        return sum(segment["total_size"] for segment in segments)
    states = ACTIVE_STATES
    unrequested = set()
    if series == "requested_allocated":
        states = ALLOCATED_STATES
        unrequested = pending_without_request(trace, segments)
    return sum(
        requested_size(block)
        for block, (address, state) in zip(
            blocks_of(segments), with_addresses(segments), strict=True
        )
        if state in states or address in unrequested
    )


def pending_without_request(trace, segments):
    """The addresses of pending blocks that stay allocated, as no event requests their free."""
    pending = {at for at, state in with_addresses(segments) if state in ACTIVE_STATES[1:]}
    actions = {event["action"] for event in trace}
    if "free" in actions and "free_requested" not in actions:
        return pending
    last = {event["addr"]: event["action"] for event in trace if event["action"] in FREES_AND_ALLOC}
    return {address for address in pending if last.get(address) == "alloc"}


def deltas(trace, series):
    return [DELTA[series].get(event["action"], 0) * event.get("size", 0) for event in trace]


def with_joined_frees(trace, segments):
    """Replace lone free_requested or free_completed events by "free", which stands for both.

    Recordings may omit one of the two kinds. That must be proven, because a file may begin or end
    between the two events of a free: by an allocation in the trace that is completed without a
    request, or by a request without a block that still waits.
    """
    kinds = {event["action"] for event in trace} & {"free_requested", "free_completed"}
    if len(kinds) != 1:
        return trace
    (kind,) = kinds
    waiting = []
    if kind == "free_requested":
        if segments is None:
            return trace
        waiting = [at for at, state in with_addresses(segments) if state in ACTIVE_STATES[1:]]
    else:
        allocated = set()
        for event in trace:
            if event["action"] == "alloc":
                allocated.add(event["addr"])
            elif event["action"] == kind and event["addr"] in allocated:
                break
        else:
            return trace
    joined = []
    for event in reversed(trace):
        if event["action"] == kind and event["addr"] in waiting:
            waiting.remove(event["addr"])
        elif event["action"] == kind:
            joined.append(event | {"action": "free"})
            continue
        joined.append(event)
    return joined[::-1]


def time_ns(event):
    return event["time_us"] * 1000 if "time_us" in event else None


def series_totals(trace, segments, series):
    end = end_bytes(trace, segments, series)
    changes = deltas(trace, series)
    baseline = end - sum(changes)
    peak, peak_event, running = baseline, None, baseline
    for index, change in enumerate(changes):
        running += change
        if running > peak:
            peak, peak_event = running, index
    return {
        "baseline_bytes": baseline,
        "peak_bytes": peak,
        "peak_event": peak_event,
        "peak_time_ns": None if peak_event is None else time_ns(trace[peak_event]),
        "end_bytes": end,
    }


def frees_without_alloc(trace):
    live, freeing, count = set(), set(), 0
    for event in trace:
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            live.add(address)
            freeing.discard(address)
        elif action == "free_requested":
            count += address not in live
            live.discard(address)
            freeing.add(address)
        elif action in ("free_completed", "free"):
            if address in freeing:  # its free_requested has been counted
                freeing.discard(address)
            else:
                count += address not in live
                live.discard(address)
    return count


def plausible(size):
    """Limit a size to 1 PiB, as the engine does, which also reports larger ones."""
    return None if size is None else min(size, 1 << 50)


def out_of_memory_events(trace):
    return [
        {
            "event": index,
            "time_ns": time_ns(event),
            "requested_bytes": event["size"],
            "device_free_bytes": plausible(event.get("device_free")),
        }
        for index, event in enumerate(trace)
        if event["action"] == "oom"
    ]


def device_totals(snapshot, device):
    traces = snapshot.get("device_traces", [])
    trace = traces[device] if device < len(traces) else []
    segments = [s for s in snapshot.get("segments", []) if s.get("device", 0) == device]
    trace = with_joined_frees(trace, segments if "segments" in snapshot else None)
    blocks = blocks_of(segments)
    allocated = [block for block in blocks if block["state"] in ALLOCATED_STATES]
    totals = {"device": device, "events": len(trace)}
    for series in DELTA:
        totals[series] = series_totals(trace, segments, series)
    totals["allocated_bytes_end"] = sum(block["size"] for block in allocated)
    totals["segments"] = len(segments)
    totals["blocks"] = len(blocks)
    totals["blocks_allocated"] = len(allocated)
    totals["frees_without_alloc"] = frees_without_alloc(trace)
    totals["ooms"] = out_of_memory_events(trace)
    return totals


def snapshot_totals(snapshot):
    """The totals of every device that the snapshot names, in device order."""
    devices = set(range(len(snapshot.get("device_traces", []))))
    devices |= {segment.get("device", 0) for segment in snapshot.get("segments", [])}
    return [device_totals(snapshot, device) for device in sorted(devices)]


def main(arguments):
    if len(arguments) != 1:
        print("usage: snapshot_totals.py FILE", file=sys.stderr)
        return 2
    print(json.dumps({"devices": snapshot_totals(load(arguments[0]))}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
