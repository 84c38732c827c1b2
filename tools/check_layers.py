#!/usr/bin/env python3
"""Checks which module includes which; docs/architecture.md describes the modules. Tests run this.

A module is a folder of src/. readers/, analysis/ and exporters/ contain several: each of their
folders is a module, and the files directly in them are one that the others share. Siblings never
include each other, except for the two modules of analysis that all passes share.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# Folders whose subfolders are modules.
FOLDERS_OF_MODULES = {"readers", "analysis", "exporters"}

# What each module may include, in addition to itself: modules, or single public headers. `*` stands
# for any module in the folder.
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "format": {"base"},
    "record": {
        "base", "format", "probes", "plimsoll/recorder.h", "plimsoll/recorder_c.h",
        "plimsoll/last_failure_c.h", "plimsoll/last_use_c.h", "plimsoll/peak_c.h",
        "plimsoll/quiet_writing_c.h",
    },
    "native_stacks": {
        "base", "record", "plimsoll/native_stacks_c.h", "plimsoll/recorder_c.h",
    },
    "model": {"base"},
    "readers": {"base", "model"},
    "readers/native": {"base", "model", "readers", "format", "plimsoll/recorder_c.h"},
    "readers/*": {"base", "model", "readers"},
    "tiles": {"base", "model"},
    "report": {"base"},
    "page": {"base"},
    "charts": {"base", "model", "report", "tiles", "page"},
    "analysis": {"base", "model", "report"},
    "analysis/*": {
        "base", "model", "report", "analysis", "analysis/evidence", "analysis/holders",
        "analysis/whatif",
    },
    "findings": {
        "base", "model", "report", "analysis", "analysis/evidence", "analysis/holders",
        "analysis/whatif",
    },
    "simulator": {"base", "model", "report"},
    "exporters": {"base", "model", "report", "text"},
    "exporters/*": {"base", "model", "report", "exporters"},
    "comparison": {"base", "report"},
    "fleet": {"base", "report"},
    "budgets": {"base", "comparison", "config", "report", "text"},
    "exporters/html": {
        "base", "charts", "comparison", "exporters", "model", "page", "report", "tiles",
        "plimsoll/version.h",
    },
    "exporters/svg": {"exporters", "charts", "page"},
    "exporters/png": {"exporters", "charts", "page"},
    "exporters/terminal": {"base", "comparison", "exporters", "model", "report", "text", "tiles"},
    "attribution": {"base", "model", "readers"},
    "tables": {
        "analysis", "analysis/holders", "base", "fleet", "model", "report", "plimsoll/table.h",
    },
    "redaction": {
        "base", "format", "model", "readers", "plimsoll/session.h", "plimsoll/recorder_c.h",
    },
    "engine": {
        "attribution", "redaction", "tables",
        "base", "format", "model", "report", "readers", "readers/*", "analysis", "analysis/*",
        "findings", "simulator", "comparison", "exporters", "exporters/*",
        "plimsoll/session.h", "plimsoll/diff.h", "plimsoll/tracer_results.h",
    },
    "sample": {"base", "plimsoll/recorder_c.h"},
    "probes": {"base", "plimsoll/process_rank.h"},
    "alerts": {
        "base", "sample", "plimsoll/monitor.h", "plimsoll/monitor_options.h",
        "plimsoll/recorder_c.h", "plimsoll/training_monitor.h",
    },
    "text_log": {"base", "sample", "plimsoll/process_rank.h"},
    "tensorboard": {"base", "page", "sample"},
    "live": {"base", "sample", "probes"},
    "nvtx": set(),
    "monitor": {
        "base", "sample", "probes", "alerts", "text_log", "tensorboard", "live", "nvtx",
        "plimsoll/monitor.h", "plimsoll/monitor_options.h", "plimsoll/process_rank.h",
        "plimsoll/recorder_c.h", "plimsoll/peak_c.h", "plimsoll/tensor_breakdown.h",
        "plimsoll/training_monitor.h",
        "plimsoll/recorder.h",  # only for tests, which use the scopes of a program
        "plimsoll/last_failure_c.h",  # the recorder's last step: part of its C interface
        "plimsoll/last_use_c.h",
    },
    "logs": {"base", "sample", "alerts", "text_log"},
    "text": {"base"},
    "top": {"base", "probes", "live", "text"},
    "nsys": {"base", "text"},
    "config": {"base", "plimsoll/monitor_config.h"},
    "server": {"base", "report", "engine", "monitor", "plimsoll/session.h"},
    "cli": {
        "base", "report", "comparison", "budgets", "exporters", "exporters/html",
        "exporters/terminal", "engine", "redaction", "alerts", "logs", "top", "nsys", "text",
        "sample", "server", "charts", "page", "format", "live", "probes", "plimsoll/session.h",
        "plimsoll/diff.h",
    },
    "include/plimsoll": set(),
    "adapters/cuda_driver": {"plimsoll/recorder_c.h", "plimsoll/quiet_writing_c.h"},
    "adapters/libtorch_cuda": {
        "plimsoll/recorder_c.h", "plimsoll/quiet_writing_c.h", "../libtorch/plimsoll_libtorch.h",
    },
    # recorder.h and tracer_results.h are C++; only memory_tracer.h includes them.
    "adapters/*": {
        "plimsoll/recorder_c.h", "plimsoll/recorder.h", "plimsoll/tracer_results.h",
        "plimsoll/quiet_writing_c.h", "plimsoll/native_stacks_c.h",
    },
    "python/bindings": {
        "include/plimsoll", "alerts", "base", "monitor", "sample", "tensorboard", "text_log",
    },
    "examples": {"include/plimsoll"},
}  # fmt: skip

# Public headers that contain only names, values and rules. Every module may include them.
FOR_ALL = {
    "plimsoll/version.h", "plimsoll/result.h", "plimsoll/memory_sample.h",
    "plimsoll/caching_allocator.h", "plimsoll/finding.h", "plimsoll/holders_c.h",
}  # fmt: skip

# Modules that do not exist yet. All other entries of the tables must be used.
PLANNED = {"simulator", "server"}

# Third-party headers, and the modules that may include them. The recorder runs in users' processes,
# and public headers are part of users' builds: base, format, record and include/plimsoll must not
# appear here.
THIRD_PARTY: dict[str, set[str]] = {
    "plimsoll_backtrace/": {"native_stacks"},
    "rapidjson/": {"readers/kineto", "readers/oom_message", "comparison"},
    "zlib.h": {"readers", "exporters/html"},
    "tsl/": {"model", "readers/*", "analysis/sites"},
    "yaml-cpp/": {"config"},
    "Python.h": {"python/bindings", "adapters/*"},
    "nanobind/": {"python/bindings"},
    "torch/": {"adapters/*", "examples"},
    "c10/": {"adapters/*"},
    "ATen/": {"adapters/*"},
}  # fmt: skip

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SOURCES = {".h", ".cc", ".def"}


def module_of(path: Path) -> str:
    """Return the module of a file of the repository, given its path from the root."""
    parts = path.parts
    if parts[0] == "src":
        deep = parts[1] in FOLDERS_OF_MODULES and len(parts) > 3
        return "/".join(parts[1:3]) if deep else parts[1]
    return parts[0] if parts[0] == "examples" else "/".join(parts[:2])


def included_module(header: str) -> str:
    """Return the module of `#include "header"`, given relative to src/ or include/."""
    top = header.split("/")[0]
    return "include/plimsoll" if top == "plimsoll" else module_of(Path("src") / header)


def row(table: dict[str, set[str]], module: str) -> set[str] | None:
    """Return the table's entry for a module: its own, or the one for all modules of its folder."""
    return table.get(module, table.get(module.split("/")[0] + "/*"))


def matches(module: str, patterns: set[str]) -> bool:
    return any(fnmatch(module, pattern) for pattern in patterns)


def is_allowed(module: str, header: str, is_test: bool) -> bool:
    if "/" not in header:  # in the same folder as the including file
        return True
    if module.startswith("adapters/") and header.startswith("python/"):  # the adapter's own folder
        return True
    if header in FOR_ALL or (is_test and header.startswith("tests/")):
        return True
    allowed = row(MAY_INCLUDE, module) or set()
    target = included_module(header)
    return target == module or header in allowed or matches(target, allowed)


def check_file(root: Path, path: Path) -> Iterator[str]:
    module = module_of(path)
    if row(MAY_INCLUDE, module) is None:
        yield f"{path}: the module '{module}' is not in the table of tools/check_layers.py"
        return
    text = (root / path).read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
        bracket, header = match.groups()
        if bracket == '"':
            if not is_allowed(module, header, path.stem.endswith("_test")):
                yield f"{where}: '{module}' may not include \"{header}\""
            continue
        for prefix, modules in THIRD_PARTY.items():
            if header.startswith(prefix) and not matches(module, modules):
                yield f"{where}: '{module}' may not include <{header}>"


def fenced_files(root: Path) -> list[Path]:
    """Return the files to check, relative to the root."""
    fenced = ("src", "include/plimsoll", "adapters", "python/bindings", "examples")
    files = [p for top in fenced for p in sorted((root / top).rglob("*"))]
    return [p.relative_to(root) for p in files if p.suffix in SOURCES]


def check(root: Path) -> list[str]:
    """Return every forbidden include below root, one line each."""
    return [problem for path in fenced_files(root) for problem in check_file(root, path)]


def unused_permissions(root: Path) -> list[str]:
    """Return the entries of the tables that no file needs, one line each."""
    used: dict[str, set[str]] = {}  # by module: headers and modules that it includes
    for path in fenced_files(root):
        headers = {match.group(2) for match in INCLUDE.finditer((root / path).read_text("utf-8"))}
        of_modules = {included_module(header) for header in headers if "/" in header}
        used.setdefault(module_of(path), set()).update(headers, of_modules)

    def is_used(modules: str, what: str) -> bool:
        return any(
            fnmatch(module, modules) and any(fnmatch(each, what) for each in included)
            for module, included in used.items()
        )

    permissions = [(module, what) for module, row in MAY_INCLUDE.items() for what in sorted(row)]
    permissions += [(m, f"{prefix}*") for prefix, row in THIRD_PARTY.items() for m in sorted(row)]
    return [
        f"'{module}' does not include {what}"
        for module, what in permissions
        if not {module, what} & PLANNED and not is_used(module, what)
    ]


def main() -> int:
    problems = check(Path(__file__).resolve().parent.parent)
    print("\n".join(problems) or "fences: every include is allowed")
    if problems:
        print(
            "Move the code to the module it belongs to; "
            "if the table is wrong, correct it and say why in docs/decisions."
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
