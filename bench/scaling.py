"""The cost of an input by its size: python bench/scaling.py [CASE...] [--to N].

Each case makes inputs of doubling size, the most awkward ones possible, and runs the command on
them. The slope is that of the logarithms of CPU time and size, over the largest sizes: 1 is linear,
2 is quadratic. With --most S, the program fails if a slope is larger.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import math
import os
import pickle
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from scaling_recordings import nvidia_smi, recorded, text_log

FLOOR_S = 0.05  # shorter runs mostly measure the start of the process


# ---- snapshots of PyTorch ------------------------------------------------------------------------


def snapshot(path: Path, **parts: object) -> None:
    """Written entry by entry, because ten million do not fit into Python's memory."""
    with open(path, "wb") as file:
        file.write(b"\x80\x02}(")
        for key, value in {"segments": [], "device_traces": [[]], **parts}.items():
            write_value(file, key)
            write_value(file, value)
        file.write(b"u.")


def write_value(file: BinaryIO, value: object) -> None:
    """Write a value as a part of a pickle; an iterator becomes a list."""
    if isinstance(value, list | Iterator):
        file.write(b"](")  # EMPTY_LIST, MARK
        for each in value:
            write_value(file, each)
        file.write(b"e")  # APPENDS
    else:
        file.write(pickle.dumps(value, protocol=2)[2:-1])  # without PROTO and STOP


def frames(number: int, depth: int = 3) -> list[dict[str, object]]:
    return [
        {"filename": f"/src/file{number % 97}.py", "name": f"f{number}_{i}", "line": number}
        for i in range(depth)
    ]


def event(action: str, number: int, **more: object) -> dict[str, object]:
    found = {"action": action, "addr": 0x7000000000 + 4096 * number, "size": 512, "stream": 0}
    return found | {"time_us": number, "frames": []} | more


def annotations(
    path: Path,
    count: int,
    stages: Callable[[int], str],
    name: Callable[[int], str] = lambda i: f"step {i % 7}",
) -> None:
    events = [event("alloc", i) for i in range(min(count, 1000))]
    reported = (
        {"stage": stages(i), "name": name(i), "device": 0, "time_us": i} for i in range(count)
    )
    snapshot(path, device_traces=[events], external_annotations=reported)


def open_annotations(path: Path, count: int) -> None:
    annotations(path, count, lambda _: "START")


def ended_annotations(path: Path, count: int) -> None:
    annotations(path, count, lambda _: "END")


def nested_annotations(path: Path, count: int) -> None:
    annotations(path, count, lambda i: "START" if i < count // 2 else "END")


def strange_annotations(path: Path, count: int) -> None:
    """Half of the annotations begin; the others end, but none that has begun."""
    half = count // 2
    annotations(path, count, lambda i: "START" if i < half else "END", lambda i: f"step {i}")


def crossed_annotations(path: Path, count: int) -> None:
    """Annotations end in the order in which they begin."""
    half = count // 2
    annotations(path, count, lambda i: "START" if i < half else "END", lambda i: f"step {i % half}")


def live_allocations(path: Path, count: int) -> None:
    snapshot(path, device_traces=[(event("alloc", i, frames=frames(i)) for i in range(count))])


def native_stacks(path: Path, count: int) -> None:
    """Stacks of one Python line that differ only in native frames."""
    line = {"filename": "/src/train.py", "name": "train", "line": 1}
    stacks = ([{"filename": "??", "name": f"f{i}", "line": 0}, line] for i in range(count))
    allocations = (event("alloc", i, frames=stack) for i, stack in enumerate(stacks))
    snapshot(path, device_traces=[allocations])


def frees_alone(path: Path, count: int) -> None:
    snapshot(path, device_traces=[(event("free_completed", i) for i in range(count))])


def waiting_frees(path: Path, count: int) -> None:
    allocations = (event("alloc", i) for i in range(count // 2))
    frees = (event("free_requested", i) for i in range(count // 2))
    snapshot(path, device_traces=[chain(allocations, frees)])


def one_address(path: Path, count: int) -> None:
    """One address is allocated repeatedly and never freed."""
    snapshot(path, device_traces=[(event("alloc", i, addr=4096) for i in range(count))])


def failures(path: Path, count: int) -> None:
    allocations = (event("alloc", i) for i in range(count // 2))
    refused = (event("oom", i, device_free=i) for i in range(count // 2))
    snapshot(path, device_traces=[chain(allocations, refused)])


def streams(path: Path, count: int) -> None:
    snapshot(path, device_traces=[(event("alloc", i, stream=i) for i in range(count))])


def segments(path: Path, count: int) -> None:
    failure = event("oom", 1, size=1 << 30, device_free=0)
    snapshot(path, segments=map(segment, range(count)), device_traces=[[failure]])


def segment(number: int) -> dict[str, object]:
    block = {"size": 1 << 20, "requested_size": 512, "state": "active_allocated", "frames": []}
    address = 0x7000000000 + (number << 21)
    blocks = [block | {"address": address}]
    blocks.append({"size": 1 << 20, "state": "inactive", "address": address + (1 << 20)})
    row = {"device": 0, "address": address, "total_size": 1 << 21, "stream": 0, "blocks": blocks}
    return row | {"allocated_size": 1 << 20, "active_size": 1 << 20, "segment_type": "small"}


def segment_events(path: Path, count: int) -> None:
    mapped = (event("segment_alloc", i, size=1 << 21) for i in range(count // 2))
    unmapped = (event("segment_free", i, size=1 << 21) for i in range(count // 2))
    snapshot(path, device_traces=[chain(mapped, unmapped)])


def settings(path: Path, count: int) -> None:
    snapshot(path, allocator_settings={f"setting {i}": i for i in range(count)})


def long_bytes(path: Path, count: int) -> None:
    """Values that are never used, in gzip."""
    piece = b"C\xff" + bytes(255) + b"0"  # SHORT_BINBYTES, POP
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"\x80\x04}(")
        for _ in range(max(1, count // 4096)):
            file.write(piece * 4096)
        file.write(b"u.")


def page(path: Path, count: int) -> None:
    """A snapshot inside a page, as torch's memory_viz writes it."""
    content = path.with_name("content")
    live_allocations(content, count)
    with open(content, "rb") as pickled, open(path, "wb") as file:
        file.write(b'<html><script>const local_files = [{"name": "snapshot.pickle", "base64": "')
        while piece := pickled.read(3 << 20):
            file.write(base64.b64encode(piece + b"\0" * (-len(piece) % 3)))
        file.write(b'"}]</script></html>')
    content.unlink()


# ---- traces of torch.profiler --------------------------------------------------------------------


def kineto(path: Path, events: Iterable[dict[str, object]]) -> None:
    with open(path, "w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        for number, each in enumerate(events):
            file.write(("," if number else "") + json.dumps(each))
        file.write("]}")


def memory(number: int, size: int = 512) -> dict[str, object]:
    args = {"Total Allocated": 512 * number, "Addr": 4096 + 512 * number, "Device Id": 0}
    args |= {"Device Type": 1, "Bytes": size, "Total Reserved": 1 << 40, "Ev Idx": number}
    return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": number, "args": args}


def kineto_allocations(path: Path, count: int) -> None:
    kineto(path, map(memory, range(count)))


def kineto_nested(path: Path, count: int) -> None:
    """Nested operators, with allocations in all of them."""
    spans = (
        {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": i}
        | {"dur": 2 * count - 2 * i, "args": {}}
        for i in range(count // 2)
    )
    kineto(path, chain(spans, (memory(i) for i in range(count // 2))))


def kineto_overlapping(path: Path, count: int) -> None:
    """Overlapping operators, as in no real program: each ends after the next has begun."""
    spans = (
        {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": i}
        | {"dur": count, "args": {}}
        for i in range(count // 2)
    )
    kineto(path, chain(spans, (memory(2 * i) for i in range(count // 2))))


# ---- text --------------------------------------------------------------------------------------


def oom_messages(path: Path, count: int) -> None:
    """The output of a loop that catches the error and tries again, with a traceback each time."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/src/train.py", line 30, in step\n'
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
        "of which 1.05 GiB is free. Of the allocated memory 74.20 GiB is allocated by PyTorch, and "
        "2.89 GiB is reserved by PyTorch but unallocated.\n"
    )
    with open(path, "w") as file:
        for _ in range(count):
            file.write(text)


def digest(path: Path, count: int, name: str) -> None:
    """Every second key has a function and a line of its own in each digest, so nothing pairs it."""
    key = {"device": "cpu", "category": "activation", "phase": "forward", "operator": "aten::mm"}
    shape = {"shape": "[128]", "instances": 1, "instance_bytes": 512, "uneven": []}
    fields = {
        "digest_version": "1.1",
        "source": dict.fromkeys(("path", "format", "command", "python", "torch"), "")
        | {"plimsoll": "", "threads": "2", "mode": "full", "rank": None, "steps": 8},
        "points": [
            {"device": "cpu", "name": "peak", "bytes": 512 * count}
            | {"step": 2, "phase": "forward", "layer": ""}
        ],
        "keys": [
            key
            | {"layer": f"Net.layer{i}", "example_layer": f"Net.layer{i}", "text": ""}
            | {"function": f"{name if i % 2 else 'f'}{i}", "offset": i % 3, "dtype": "float32"}
            | {"place": f"a.py:{i + 1}"}
            for i in range(count)
        ],
        "rows": [
            {"point": 0, "key": i, "bytes": 512, "count": 1, "largest_bytes": 512} | shape
            for i in range(count)
        ],
        "modules": [],
        "repeats": None,
    }
    path.write_text(json.dumps(fields))


def two_digests(path: Path, count: int) -> None:
    digest(path, count, "new")
    digest(path.with_name("before.json"), count, "old")


REPORT = ["report", "--json"]
CASES: dict[str, tuple[list[str], Callable[[Path, int], None]]] = {
    "annotations that never end": (REPORT, open_annotations),
    "annotations that never begin": (REPORT, ended_annotations),
    "annotations in annotations": (REPORT, nested_annotations),
    "annotations with other names": (REPORT, strange_annotations),
    "annotations that cross": (REPORT, crossed_annotations),
    "annotations, exported": (["export", "--to", "snapshot", "--force"], open_annotations),
    "live allocations": (REPORT, live_allocations),
    "live allocations, printed": (["report"], live_allocations),
    "native stacks, printed": (["report", "--by", "stack", "--top", "10000000"], native_stacks),
    "live allocations, folded": (["export", "--to", "collapsed", "--force"], live_allocations),
    "live allocations, speedscope": (
        ["export", "--to", "speedscope", "--force"],
        live_allocations,
    ),
    "live allocations, totals": (["export", "--to", "timeline", "--force"], live_allocations),
    "live allocations, totals as CSV": (
        ["export", "--to", "timeline-csv", "--force"],
        live_allocations,
    ),
    "live allocations, as a page": (["report", "--html", "page.html", "--force"], live_allocations),
    "segments, as a page": (["report", "--html", "page.html", "--force"], segments),
    "live allocations, as SVG": (["export", "--to", "svg", "--force"], live_allocations),
    "live allocations, as PNG": (["export", "--to", "png", "--force"], live_allocations),
    "live allocations in a page": (REPORT, page),
    "frees alone": (REPORT, frees_alone),
    "frees that wait": (REPORT, waiting_frees),
    "one address": (REPORT, one_address),
    "failures": (REPORT, failures),
    "streams": (REPORT, streams),
    "segments": (REPORT, segments),
    "segments that come and go": (REPORT, segment_events),
    "settings": (REPORT, settings),
    "bytes in gzip": (REPORT, long_bytes),
    "messages in a log": (REPORT, oom_messages),
    "profiler, allocations": (REPORT, kineto_allocations),
    "profiler, nested operators": (REPORT, kineto_nested),
    "profiler, overlapping operators": (REPORT, kineto_overlapping),
    "recording, open layers": (REPORT, recorded("layers")),
    "recording, open calls": (REPORT, recorded("calls")),
    "recording, ends alone": (REPORT, recorded("ends")),
    "recording, open regions": (REPORT, recorded("regions")),
    "recording, steps": (REPORT, recorded("steps")),
    "recording, names": (REPORT, recorded("names")),
    "recording, root modules": (REPORT, recorded("modules")),
    "recording, models": (REPORT, recorded("models")),
    "recording, training": (REPORT, recorded("training")),
    "recording, unused memory": (REPORT, recorded("uses")),
    "recording, observed spans": (REPORT, recorded("spans")),
    "recording, figures of a device": (REPORT, recorded("figures")),
    "recording, as text": (["dump"], recorded("names")),
    "recording, redacted": (["export", "--redact", "--force"], recorded("names")),
    "recording, as a digest": (["export", "--to", "digest", "--force"], recorded("models")),
    "digests, compared": (["diff", "--json", "before.json"], two_digests),
    "text log": (["analyze", "--json"], text_log),
    "nvidia-smi": (["analyze", "--json"], nvidia_smi),
}

# A large case for each folder of src/readers, src/analysis and src/exporters; a report runs all
# passes on every input. tests/e2e/test_scaling.py checks that every folder has one.
CASE_OF = {
    "readers/kineto": "profiler, allocations",
    "readers/native": "recording, names",
    "readers/oom_message": "messages in a log",
    "readers/torch_snapshot": "live allocations",
    "analysis/composition": "live allocations",
    "analysis/device": "recording, figures of a device",
    "analysis/digest": "recording, as a digest",
    "findings": "failures",
    "analysis/fragmentation": "segments",
    "analysis/growth": "recording, training",
    "analysis/layers": "recording, open calls",
    "analysis/oom": "failures",
    "analysis/saved": "recording, training",
    "analysis/sites": "live allocations",
    "analysis/steps": "recording, steps",
    "analysis/timeline": "live allocations",
    "analysis/uses": "recording, unused memory",
    "exporters/collapsed": "live allocations, folded",
    "exporters/digest": "recording, as a digest",
    "exporters/html": "live allocations, as a page",
    "exporters/json": "live allocations",
    "exporters/png": "live allocations, as PNG",
    "exporters/speedscope": "live allocations, speedscope",
    "exporters/svg": "live allocations, as SVG",
    "exporters/terminal": "live allocations, printed",
    "exporters/timeline_csv": "live allocations, totals as CSV",
    "exporters/timeline_json": "live allocations, totals",
    "exporters/torch_snapshot": "annotations, exported",
}


def seconds(command: list[str], folder: Path) -> float:
    """Return the CPU time, which excludes waiting for other programs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if ran.returncode not in (0, 3):  # 3: refused, which must be quick too
        raise SystemExit(f"{' '.join(command)}: {ran.stderr.decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(name: str, sizes: list[int], plimsoll: str) -> list[float]:
    command, make = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for size in sizes:
            path = Path(folder) / "input"
            path.unlink(missing_ok=True)
            make(path, size)
            times.append(seconds([plimsoll, *command, str(path)], Path(folder)))
    return times


def slope(sizes: list[int], times: list[float]) -> float:
    """Return the slope by least squares over the sizes that take long enough; 0 if none does."""
    points = [
        (math.log(size), math.log(time))
        for size, time in zip(sizes, times, strict=True)
        if time > FLOOR_S
    ][-3:]
    if len(points) < 2:
        return 0.0
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    over = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return over / sum((x - mean_x) ** 2 for x, _ in points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="part of a case's name; default: all")
    parser.add_argument("--to", type=int, default=400_000, help="the largest size")
    parser.add_argument("--sizes", type=int, default=3, help="how many, each twice the one before")
    parser.add_argument("--most", type=float, help="fail where a slope is larger")
    parser.add_argument("--plimsoll", default=shutil.which("plimsoll") or "plimsoll")
    options = parser.parse_args()
    sizes = [options.to >> shift for shift in range(options.sizes - 1, -1, -1)]
    print(f"{'seconds at':<34}" + "".join(f"{size:>12,}" for size in sizes) + "   slope")
    steepest = 0.0
    for name in CASES:
        if options.cases and not any(part in name for part in options.cases):
            continue
        times = measured(name, sizes, os.path.abspath(options.plimsoll))
        steepest = max(steepest, slope(sizes, times))
        cells = "".join(f"{time:>12.2f}" for time in times)
        print(f"{name:<34}{cells}   {slope(sizes, times):.2f}", flush=True)
    if options.most is not None and steepest > options.most:
        raise SystemExit(f"the steepest slope is {steepest:.2f}, more than {options.most}")


if __name__ == "__main__":
    main()
