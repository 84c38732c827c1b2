"""Record programs, one after another in this process.

    python -m tests.causes.record_all FOLDER GROUP|PROGRAM...

A group is the part of a name before the slash, such as an architecture. Prints one JSON object per
program, with the findings of its report. Memory that a program leaks is freed when it returns. With
--controls it lists the clean programs.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from pathlib import Path

import torch
from tests.causes import registry

import plimsoll


def record(name: str, run: registry.Program, folder: Path) -> dict:
    path = folder / (name.replace("/", "_") + ".plim")
    torch.manual_seed(0)
    try:
        with plimsoll.record(path), contextlib.redirect_stdout(sys.stderr):
            run()
    except ModuleNotFoundError as error:
        return {"program": name, "missing": str(error)}
    gc.collect()
    trace = plimsoll.open(path)
    steps = [row["step"] for row in trace.tables["points_in_time"] if row["name"] == "peak"]
    return {
        "program": name,
        "findings": trace.findings,
        "growth": list(trace.tables["growth"]),
        "peak_step": steps[0] if steps else None,
        "path": str(path),
    }


def main() -> None:
    if sys.argv[1] == "--controls":
        print(*registry.clean())
        return
    torch.set_num_threads(1)  # threads that wait for each other are slow on a busy machine
    folder = Path(sys.argv[1])
    programs = registry.load()
    for name in registry.table():
        if {name, name.partition("/")[0]} & set(sys.argv[2:]):
            print(json.dumps(record(name, programs[name], folder)), flush=True)


if __name__ == "__main__":
    main()
