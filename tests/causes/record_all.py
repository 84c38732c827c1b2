"""Record the programs of an architecture, one after another in this process.

    python -m tests.causes.record_all FOLDER ARCHITECTURE|PROGRAM...

Prints one JSON object per program, with the findings of its report. Memory that a program leaks is
freed when it returns. With --controls it lists the clean programs.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import torch
from tests.causes import (
    controls,
    cycles,
    everyday,
    evidence,
    forward_only,
    forward_only_controls,
    growing_models,
    held_out_controls,
    held_out_leaks,
    held_out_peaks,
    kept,
    leaks,
    mechanism_controls,
    mechanisms,
    peaks,
    rare_leaks,
    reported,
    second_order,
    small_evaluations,
    without_graph,
)
from tests.causes.training import PROGRAMS

import plimsoll

# Importing registers the programs.
REGISTERED = (
    peaks,
    leaks,
    held_out_leaks,
    held_out_peaks,
    mechanisms,
    forward_only,
    rare_leaks,
    second_order,
    small_evaluations,
    cycles,
    evidence,
    everyday,
    reported,
    without_graph,
    kept,
)
CLEAN = {
    *controls.NAMES,
    *held_out_controls.NAMES,
    *mechanism_controls.NAMES,
    *forward_only_controls.NAMES,
    *growing_models.NAMES,
    *small_evaluations.CLEAN,
    *cycles.CLEAN,
    *everyday.CLEAN,
    *reported.CLEAN,
}


def record(name: str, folder: Path) -> dict:
    path = folder / (name.replace("/", "_") + ".plim")
    torch.manual_seed(0)
    with plimsoll.record(path):
        PROGRAMS[name]()
    gc.collect()
    trace = plimsoll.open(path)
    steps = [row["step"] for row in trace.tables["points_in_time"] if row["name"] == "peak"]
    return {
        "program": name,
        "findings": trace.findings,
        "peak_step": steps[0] if steps else None,
        "path": str(path),
    }


def main() -> None:
    if sys.argv[1] == "--controls":
        print(*(name for name in PROGRAMS if name in CLEAN))
        return
    torch.set_num_threads(1)  # threads that wait for each other are slow on a busy machine
    folder = Path(sys.argv[1])
    for name in PROGRAMS:
        if name in sys.argv[2:] or name.partition("/")[0] in sys.argv[2:]:
            print(json.dumps(record(name, folder)), flush=True)


if __name__ == "__main__":
    main()
