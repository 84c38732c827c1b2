"""The CUDA driver library, preloaded into real programs.

The requests that each program prints must equal those in its trace, to the byte.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from checks import MIB, check

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FORMAT = ("block", "block_stream", "checksum", "dump", "file_state")

CUPY = f"""
import cupy
cupy.cuda.set_allocator(None)  # without its pool each array is a request
held = [cupy.empty(size * {MIB}, dtype=cupy.uint8) for size in (2, 6, 10)]
for array in held:
    print("cuda", array.nbytes)
del array, held
print("end")
"""


def driver(which: str) -> None:
    """Record a program: "shared" or "static" (how it links CUDA's runtime), or "cupy"."""
    if which == "cupy":
        lines, trace = recorded([sys.executable, "-c", CUPY])
    else:
        lines, trace = recorded([built(which)])
    wanted = Counter(line for line in lines if not line.startswith("end"))
    check("the program ends", lines[-1:] == ["end"], lines[-1:] or "it printed nothing")
    if trace is None:
        check("there is a trace", False, "none was written")
        return
    reported, live = allocations_of(dumped(trace))
    missing, more = wanted - reported, reported - wanted
    found = f"{sum(reported.values())} allocations"
    # CuPy and its libraries allocate some memory for themselves.
    check("each request is in the trace", not missing, dict(missing) or found)
    if which != "cupy":
        check("no others are in the trace", not more, dict(more) or found)
        check("all are freed", live == 0, f"{live} are live")


def built(runtime: str) -> str:
    compiler = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    program = Path(f"program_{runtime}").resolve()
    source = str(HERE / "driver_program.cc")
    words = [compiler, "-std=c++17", f"-cudart={runtime}", source, "-o", str(program), "-lcuda"]
    subprocess.run(words, check=True)
    return str(program)


def recorded(words: list[str]) -> tuple[list[str], Path | None]:
    """Return the program's output, and its trace or None."""
    import plimsoll

    library = Path(plimsoll.__path__[0]) / "libplimsoll_cuda_driver.so"
    trace = Path("driver.plim").resolve()
    with subprocess.Popen(
        words,
        env=os.environ | {"LD_PRELOAD": str(library), "PLIMSOLL_CUDA_OUT": str(trace)},
        stdout=subprocess.PIPE,
        text=True,
    ) as ran:
        assert ran.stdout is not None
        lines = ran.stdout.read().splitlines()
    return lines, trace_of(trace, ran.pid)


def trace_of(path: Path, pid: int) -> Path | None:
    """Return the trace of a process: each process writes its own file, with its id in the name."""
    found = path.with_name(f"{path.name}.{pid}")
    return found if found.is_file() else None


def dumped(trace: Path) -> str:
    tool = Path("dump").resolve()
    sources = [str(HERE / "dump.cc"), *(str(ROOT / f"src/format/{each}.cc") for each in FORMAT)]
    folders = [f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}"]
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, "-std=c++20", "-O1", *folders, *sources, "-o", str(tool)], check=True)
    reported = subprocess.run(
        [str(tool), str(trace)], stdout=subprocess.PIPE, text=True, check=True
    )
    return reported.stdout


def allocations_of(text: str) -> tuple[Counter[str], int]:
    """Return the allocations of a dumped trace, as "DEVICE BYTES", and the number still live."""
    types = dict(re.findall(r"^device id=(\d+) type=(\w+)", text, re.MULTILINE))
    sites = dict(re.findall(r"^site id=(\d+) .*?\bdevice=(\d+)", text, re.MULTILINE))
    allocations = Counter(
        f"{types[sites[site]]} {size}"
        for site, size in re.findall(r"^alloc .*?\bsite=(\d+) .*?\bsize=(\d+)", text, re.MULTILINE)
    )
    ends = len(re.findall(r"^free ", text, re.MULTILINE))
    return allocations, sum(allocations.values()) - ends
