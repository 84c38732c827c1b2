"""Recordings and logs of Plimsoll in their most awkward forms, for scaling.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# ---- recordings of Plimsoll ----------------------------------------------------------------------


RECORDED = """
import ctypes, os, sys
from plimsoll import _record
path, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
recording = _record.Recording(os.fsencode(path), True, 0, False, True, True, {})
cpu = _record.device("cpu", 0)
cuda = _record.device("cuda", 0)
# What only adapters report: members of plimsoll_recorder_api, after its two first numbers.
calls = ctypes.cast(_record.api_address() + 8, ctypes.POINTER(ctypes.c_void_p))
here = ctypes.CFUNCTYPE(ctypes.c_void_p)(calls[0])()
word, byte = ctypes.c_uint64, ctypes.c_uint8
mark = ctypes.CFUNCTYPE(None, ctypes.c_void_p, byte, word)(calls[7])
figure = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, byte, byte, word, ctypes.c_uint32, ctypes.c_uint32
)(calls[22])
observe_uses = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(calls[27])
end_uses = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls[29])
if kind == "uses":
    observe_uses(here, 1)
    # Each of them has more than a thousandth of the peak, and is stated.
    lines = [_record.stack([("a.py", "f", line)]) for line in range(1, min(count // 100, 900))]
BACKWARD_BEGIN, BACKWARD_END, FORWARD, BACKWARD, TOTAL, FREE = 3, 4, 1, 2, 0, 1
for i in range(count):
    if kind == "layers":
        _record.begin_layer(f"Net.layer{i}")
    elif kind == "calls":
        _record.begin_layer("Net.inner")
    elif kind == "ends":
        _record.end_layer(f"Net.layer{i}")
    elif kind == "regions":
        _record.begin_region(f"region {i}")
    elif kind == "steps":
        _record.mark_step(i)
    elif kind == "names":
        _record.set_context(f"Net.layer{i}", f"op{i}", 0, i + 1, 1)
    elif kind == "modules":
        _record.set_context(f"Net{i // 8}.layer", "aten::add", 0, i + 1, 1)
    elif kind == "figures":
        figure(here, cuda, TOTAL, 80 << 30, 0, 0)
        figure(here, cuda, FREE, i << 10, 0, 0)
    elif kind == "training":
        _record.set_context(f"Net.layer{i % 8}", "aten::mm", 0, i + 1, FORWARD)
    elif kind == "uses":  # lines that retain memory that no operator uses again
        _record.set_context("", "aten::zeros", lines[i % len(lines)], i + 1, 0)
        if i % 1000 == 999:
            _record.mark_step(i // 1000)
    elif kind == "spans":  # in which uses are observed
        observe_uses(here, 1 - i % 2)
    if kind == "models":
        _record.set_context("", "aten::zeros", _record.stack([("a.py", "f", i + 1)]), i + 1, 0)
        _record.alloc(cpu, 4096 + 16384 * i, 16384)
        if i % 2 == 0:
            weight = _record.tensor(1, f"Net{i}.weight", "float32", "[64, 64]")
            _record.adopt(cpu, 4096 + 16384 * i, 16384, weight)
    else:
        _record.alloc(cpu, 4096 + 512 * i, 512)
        end_uses(here)
    if kind == "training" and i % 8 == 7:  # a step, after which one of its eight stays
        mark(here, BACKWARD_BEGIN, 0)
        _record.set_context("Net", "MmBackward0", 0, i + 1, BACKWARD)
        for each in range(i - 7, i):
            _record.free(cpu, 4096 + 512 * each)
        mark(here, BACKWARD_END, 0)
        _record.mark_step(i // 8)
    if i % 10000 == 0:
        recording.flush()
recording.stop()
"""


def recorded(kind: str) -> Callable[[Path, int], None]:
    def make(path: Path, count: int) -> None:
        words = [sys.executable, "-c", RECORDED, str(path), kind, str(count)]
        subprocess.run(words, check=True)

    return make


# ---- logs ----------------------------------------------------------------------------------------


def text_log(path: Path, count: int) -> None:
    """A log of the monitor in which the last snapshot is repeated."""
    head, body = text_log_parts()
    with open(path, "w") as file:
        file.write(head)
        for number in range(count // 10):
            file.write(body.replace("Iteration 0", f"Iteration {number}"))


LOGGED = """
import sys
from plimsoll import _record
_record.start_watching()
cpu = _record.device("cpu", 0)
for layer in range(10):
    _record.set_context(f"Net.layer{layer}", "aten::add", 0, layer + 1, 1)
    _record.alloc(cpu, 4096 + 512 * layer, 512)
sample = _record.take_sample(0)
_record.stop_watching()
head, body = _record.text_log_header(sample.time_ns), _record.text_log_snapshot(sample, 10)
sys.stdout.write(head + "\\0" + body)
"""


def text_log_parts() -> tuple[str, str]:
    # A separate process, because the context would stay with this thread, and therefore with the
    # tests that measure this.
    words = [sys.executable, "-c", LOGGED]
    ran = subprocess.run(words, check=True, capture_output=True, text=True)
    head, body = ran.stdout.split("\0")
    return head, body


def nvidia_smi(path: Path, count: int) -> None:
    with open(path, "w") as file:
        file.write("timestamp, index, name, memory.used [MiB], memory.total [MiB]\n")
        for i in range(count):
            time = f"2026/01/01 {i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}.000"
            file.write(f"{time}, {i % 8}, GPU, {i % 40000} MiB, 81559 MiB\n")
