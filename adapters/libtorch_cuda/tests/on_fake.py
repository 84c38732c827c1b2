"""Runs a case of tests/gpu/cases.py on the fake devices, where torch really trains.

Usage: on_fake.py LIBC10_CUDA LIBFAKE_CUDA_DEVICE CASE [WORD…]
"""

import contextlib
import ctypes
import dataclasses
import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import fake_history
import fake_torch
import torch

from plimsoll._cuda import cuda_adapter

allocator, device, *case = sys.argv[1:]
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "gpu"))

fake = ctypes.CDLL(allocator, mode=ctypes.RTLD_GLOBAL)
for name in ("fake_allocated", "fake_reserved", "fake_total"):
    getattr(fake, name).restype = ctypes.c_uint64
fake.fake_record_stream.argtypes = [ctypes.c_int, ctypes.c_uint64]
fake.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
folders = (Path(allocator).parent,)
cuda_adapter.CUDA = dataclasses.replace(cuda_adapter.CUDA, library_folders=folders)
fake_torch.pretend(fake)
if "FAKE_TORCH_CUDA" in os.environ:  # multiplications and convolutions take workspaces
    libraries = ctypes.CDLL(os.environ["FAKE_TORCH_CUDA"], mode=ctypes.RTLD_GLOBAL)
    torch._C._cuda_clearCublasWorkspaces = libraries.fake_clear_workspaces
ctypes.CDLL(device, mode=ctypes.RTLD_GLOBAL)

if case[0] in ("history", "samples"):
    fake_history.History(fake)
cases = importlib.import_module("cases")  # only after torch reports that it has CUDA


def drive(script):
    """Set the driver's answer for the first device before it is queried."""
    from plimsoll import _record

    ask, total, context, others, driver = _record.device_bar, 8 << 30, 500 << 20, 300 << 20, 9 << 20
    uuid = "-".join("a" * digits for digits in (8, 4, 4, 4, 12))
    pid = os.getpid() if os.environ["FAKE_PIDS"] == "ours" else 1 << 21

    def answer(own):
        used = own + others + (3 << 20)  # which is never reported
        text = f"device H100|GPU-{uuid}|{total}|{used}|{driver}|0\nprocess 1 compute {others}\n"
        if own:
            text += f"process {pid} compute {own}\n"
        partial = f"{script}.partial"
        Path(partial).write_text(text)
        os.replace(partial, script)
        torch.cuda.mem_get_info = lambda device=None: (total - driver - used, total - driver)

    def bar(ordinal, wait_seconds=0.0):
        answer(fake.fake_reserved(0) + context)
        return ask(ordinal, wait_seconds)

    answer(0)
    _record.device_bar = bar
    cases.bars.other_process = contextlib.nullcontext
    torch.cuda.get_device_properties = lambda device: SimpleNamespace(uuid=uuid)


if "FAKE_NVML" in os.environ:
    drive(os.environ["FAKE_NVML"])
# Without mixed precision, whose operators are CUDA's own, and with fewer steps: this is a CPU.
cases.ARGUMENTS = {
    "burgers_unet": "--steps 6 --device cuda",
    "language_model": "--steps 4 --report-every 2 --sample 0 --device cuda --checkpoint",
    "gaussian_splatting": "-i 30 --densify_from_iter 5 --densify_until_iter 25 "
    "--densification_interval 5 --report_every 15 --device cuda",
}
cases.CASES.setdefault("workspaces", importlib.import_module("workspaces").workspaces)
cases.CASES.setdefault("forward_once", importlib.import_module("forward_once").forward_once)
cases.CASES[case[0]](*case[1:])
