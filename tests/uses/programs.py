"""Run programs of tests/causes and tests/uses, one after another, and print what they return.

    plimsoll verify -m tests.uses.programs NAME...

The sums are operators: reading the results is a use of them.
"""

from __future__ import annotations

import gc
import random
import sys

import torch
from tests.causes import registry
from tests.causes.registry import PROGRAMS
from tests.uses import mechanisms

from plimsoll._command.digests import tensors_of

registry.load()
CAUSES = [name for name in PROGRAMS if name not in mechanisms.NAMES]


def run(name: str) -> None:
    torch.manual_seed(0)
    random.seed(0)
    result = PROGRAMS[name]()
    sums = [each.detach().double().sum().item() for each in tensors_of(result)]
    print(name, sums or result if isinstance(result, (int, float)) else sums)
    del result
    gc.collect()


def main() -> None:
    torch.set_num_threads(1)  # sums of several threads could differ
    if sys.argv[1] == "--list":
        print(*CAUSES, *mechanisms.NAMES)
        return
    for name in sys.argv[1:]:
        run(name)


if __name__ == "__main__":
    main()
