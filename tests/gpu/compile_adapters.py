"""Compiles both adapters into the cache, at the same time, before the cases need them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import torch

from plimsoll._cuda import cuda_adapter
from plimsoll._torch import adapter
from plimsoll.errors import AdapterError


def main() -> int:
    print(f"adapters for torch {torch.__version__}", flush=True)
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(adapter.compiled, each, lambda line: print(line, flush=True))
            for each in (adapter.CPU, cuda_adapter.CUDA)
        ]
    try:
        for each in both:
            each.result()
    except AdapterError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
