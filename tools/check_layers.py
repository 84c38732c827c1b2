#!/usr/bin/env python3
"""The fences: who may include whom. The table is docs/architecture.md as data; tests run this file.

A room is a folder of src/. In readers/, analysis/ and exporters/ each folder is a room of its own,
and what lies directly in them is the room its members share. Siblings never see each other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# Rooms whose folders are rooms.
HALLS = {"readers", "analysis", "exporters"}

# What each room may include, in addition to itself: rooms, or single public headers. `*` stands for
# any member of a hall.
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "format": {"base"},
    "record": {
        "base", "format", "plimsoll/recorder.h", "plimsoll/recorder_c.h",
        "plimsoll/last_failure_c.h", "plimsoll/quiet_writing_c.h",
    },
    "model": {"base"},
    "readers": {"base", "model"},
    "readers/native": {"base", "model", "readers", "format", "plimsoll/recorder_c.h"},
    "readers/*": {"base", "model", "readers"},
    "report": {"base"},
    "analysis": {"base", "model", "report"},
    "analysis/*": {"base", "model", "report", "analysis"},
    "simulator": {"base", "model", "report"},
    "exporters": {"base", "model", "report"},
    "exporters/*": {"base", "model", "report", "exporters"},
    "comparison": {"base", "report"},
    "exporters/terminal": {"base", "comparison", "exporters", "report", "text"},
    "engine": {
        "base", "format", "model", "report", "readers", "readers/*", "analysis", "analysis/*",
        "simulator", "exporters", "exporters/*", "plimsoll/session.h", "plimsoll/table.h",
        "plimsoll/tracer_results.h", "plimsoll/recorder_c.h",
    },
    "sample": {"base", "plimsoll/recorder_c.h"},
    "probes": {"base", "plimsoll/process_rank.h"},
    "alerts": {
        "base", "sample", "plimsoll/monitor.h", "plimsoll/monitor_options.h",
        "plimsoll/recorder_c.h",
    },
    "text_log": {"base", "sample", "plimsoll/process_rank.h"},
    "tensorboard": {"base", "sample"},
    "live": {"base", "sample", "probes"},
    "nvtx": {"base"},
    "monitor": {
        "base", "sample", "probes", "alerts", "text_log", "tensorboard", "live", "nvtx",
        "plimsoll/monitor.h", "plimsoll/monitor_options.h", "plimsoll/process_rank.h",
        "plimsoll/recorder_c.h", "plimsoll/tensor_breakdown.h", "plimsoll/training_monitor.h",
        "plimsoll/recorder.h",  # tests alone: the scopes of a program
        "plimsoll/last_failure_c.h",  # the recorder's last step: part of its C interface
    },
    "logs": {"base", "sample", "alerts", "text_log"},
    "text": {"base"},
    "top": {"base", "sample", "probes", "live", "text"},
    "nsys": {"base", "text"},
    "config": {"base", "plimsoll/monitor_config.h", "plimsoll/monitor_options.h"},
    "server": {"base", "report", "engine", "monitor", "plimsoll/session.h"},
    "cli": {
        "base", "report", "comparison", "exporters/terminal", "engine", "alerts", "logs", "top",
        "nsys", "text", "probes", "live", "sample", "server", "plimsoll/session.h",
    },
    "include/plimsoll": set(),
    "adapters/cuda_driver": {"plimsoll/recorder_c.h", "plimsoll/quiet_writing_c.h"},
    "adapters/libtorch_cuda": {
        "plimsoll/recorder_c.h", "plimsoll/quiet_writing_c.h", "../libtorch/plimsoll_libtorch.h",
    },
    # The two in C++: memory_tracer.h alone.
    "adapters/*": {
        "plimsoll/recorder_c.h", "plimsoll/recorder.h", "plimsoll/tracer_results.h",
        "plimsoll/quiet_writing_c.h",
    },
    "python/bindings": {
        "include/plimsoll", "alerts", "monitor", "sample", "tensorboard", "text_log",
    },
    "examples": {"include/plimsoll"},
}  # fmt: skip

# Public headers that hold words, not machinery; everyone may use them.
FOR_ALL = {"plimsoll/version.h", "plimsoll/result.h", "plimsoll/memory_sample.h"}

# Third-party headers, and the rooms that may see them. The recorder lives in other people's
# processes and public headers in other people's builds: base, format, record and include/plimsoll
# appear nowhere here.
THIRD_PARTY: dict[str, set[str]] = {
    "rapidjson/": {"readers", "readers/*", "report", "exporters", "exporters/*", "engine", "cli"},
    "zlib.h": {"readers", "readers/*", "exporters", "exporters/*"},
    "tsl/": {"model", "readers", "readers/*", "analysis", "analysis/*", "exporters", "exporters/*"},
    "yaml-cpp/": {"config"},
    "CLI/": {"cli"},
    "Python.h": {"python/bindings", "adapters/*"},
    "nanobind/": {"python/bindings"},
    "torch/": {"adapters/*", "examples"},
    "c10/": {"adapters/*"},
    "ATen/": {"adapters/*"},
}  # fmt: skip

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SOURCES = {".h", ".cc", ".def"}


def room_of(path: Path) -> str:
    """The room a file of the repository belongs to, by its path from the root."""
    parts = path.parts
    if parts[0] == "src":
        deep = parts[1] in HALLS and len(parts) > 3
        return "/".join(parts[1:3]) if deep else parts[1]
    return parts[0] if parts[0] == "examples" else "/".join(parts[:2])


def included_room(header: str) -> str:
    """The room behind `#include "header"`, written from src/ or include/."""
    top = header.split("/")[0]
    return "include/plimsoll" if top == "plimsoll" else room_of(Path("src") / header)


def row(table: dict[str, set[str]], room: str) -> set[str] | None:
    """The table's entry for a room: its own, or the one of its hall's members."""
    return table.get(room, table.get(room.split("/")[0] + "/*"))


def matches(room: str, patterns: set[str]) -> bool:
    return any(fnmatch(room, pattern) for pattern in patterns)


def is_allowed(room: str, header: str, is_test: bool) -> bool:
    if "/" not in header:  # in the folder of the including file
        return True
    if room.startswith("adapters/") and header.startswith("python/"):  # a folder of the adapter
        return True
    if header in FOR_ALL or (is_test and header.startswith("tests/")):
        return True
    allowed = row(MAY_INCLUDE, room) or set()
    target = included_room(header)
    return target == room or header in allowed or matches(target, allowed)


def check_file(root: Path, path: Path) -> Iterator[str]:
    room = room_of(path)
    if row(MAY_INCLUDE, room) is None:
        yield f"{path}: the room '{room}' is not in the table of tools/check_layers.py"
        return
    text = (root / path).read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
        bracket, header = match.groups()
        if bracket == '"':
            if not is_allowed(room, header, path.stem.endswith("_test")):
                yield f"{where}: '{room}' may not include \"{header}\""
            continue
        for prefix, rooms in THIRD_PARTY.items():
            if header.startswith(prefix) and not matches(room, rooms):
                yield f"{where}: '{room}' may not include <{header}>"


def check(root: Path) -> list[str]:
    """Every forbidden include under root, as one line each."""
    fenced = ("src", "include/plimsoll", "adapters", "python/bindings", "examples")
    files = [p for top in fenced for p in sorted((root / top).rglob("*")) if p.suffix in SOURCES]
    return [problem for p in files for problem in check_file(root, p.relative_to(root))]


def main() -> int:
    problems = check(Path(__file__).resolve().parent.parent)
    print("\n".join(problems) or "fences: every include is allowed")
    if problems:
        print(
            "Move the code to the room it belongs to; "
            "if the table is wrong, correct it and say why in docs/decisions."
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
