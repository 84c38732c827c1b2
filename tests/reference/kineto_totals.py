"""Totals of a torch.profiler trace, computed the slow and obvious way: `kineto_totals.py TRACE…`

For each device: the bytes allocated and reserved before the first memory event, the peaks, and the
end, from the memory events in order of time. Prints one JSON object per trace.
"""

import collections
import decimal
import gzip
import json
import sys

DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu"}


def load(path):
    """The document, with times as exact decimals."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data, parse_float=decimal.Decimal)


def device_name(args):
    kind = DEVICE_TYPES.get(args["Device Type"], "other")
    return "cpu" if kind == "cpu" else f"{kind}:{args['Device Id']}"


def memory_events(document):
    """The args of the memory events by device, in order of time; the CPU is last."""
    events = document["traceEvents"] if isinstance(document, dict) else document
    by_device = collections.defaultdict(list)
    for event in events:
        if event.get("name") == "[memory]":
            by_device[device_name(event["args"])].append((event["ts"], event["args"]))
    for timed in by_device.values():
        timed.sort(key=lambda pair: pair[0])
    in_order = sorted(by_device.items(), key=lambda item: (item[0] == "cpu", item[0]))
    return {name: [args for _, args in timed] for name, timed in in_order}


def freed_without_alloc(events):
    """Bytes freed at an address that was not allocated; by size if there are no addresses."""
    live = collections.Counter()
    total = 0
    for args in events:
        size = abs(args["Bytes"])
        key = args.get("Addr", ("size", size))
        if args["Bytes"] > 0:
            live[key] += 1
        elif live[key] > 0:
            live[key] -= 1
        else:
            total += size
    return total


def series(baseline, values):
    return {
        "baseline_bytes": baseline,
        "peak_bytes": max([baseline, *values]),
        "end_bytes": values[-1],
    }


def device_totals(name, events):
    first = events[0]
    if "Total Allocated" in first:
        allocated_before = first["Total Allocated"] - first["Bytes"]
        allocated = [args["Total Allocated"] for args in events]
        running = allocated_before
        for args in events:
            running += args["Bytes"]
            assert running == args["Total Allocated"], (name, args, running)
    else:
        allocated_before = running = freed_without_alloc(events)
        allocated = [running := running + args["Bytes"] for args in events]
    reserved = [args.get("Total Reserved", 0) for args in events]
    return {
        "device": name,
        "memory_events": len(events),
        "allocated": series(allocated_before, allocated),
        "reserved": series(reserved[0], reserved),
    }


def kineto_totals(document):
    return [device_totals(name, events) for name, events in memory_events(document).items()]


def main(paths):
    for path in paths:
        print(json.dumps({"path": path, "devices": kineto_totals(load(path))}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
