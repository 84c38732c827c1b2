"""Runs a case of tests/gpu/cases.py on the fake devices, where torch really trains.

Usage: on_fake.py LIBC10_CUDA LIBFAKE_CUDA_DEVICE CASE [WORD…]
"""

import ctypes
import dataclasses
import importlib
import sys
from pathlib import Path

import fake_torch

from plimsoll import _cuda_half

allocator, device, *case = sys.argv[1:]
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "gpu"))

fake = ctypes.CDLL(allocator, mode=ctypes.RTLD_GLOBAL)
for name in ("fake_allocated", "fake_reserved"):
    getattr(fake, name).restype = ctypes.c_uint64
fake.fake_record_stream.argtypes = [ctypes.c_int, ctypes.c_uint64]
fake.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
folders = (Path(allocator).parent,)
_cuda_half.HALF = dataclasses.replace(_cuda_half.HALF, library_folders=folders)
fake_torch.pretend(fake)
ctypes.CDLL(device, mode=ctypes.RTLD_GLOBAL)

cases = importlib.import_module("cases")  # torch must believe first

cases.CASES[case[0]](*case[1:])
