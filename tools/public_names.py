"""Writes src/redaction/public_names.h: names that Python and torch use themselves.

python3 tools/public_names.py  # with the torch of this Python
"""

from __future__ import annotations

import builtins
import collections
import inspect
import keyword
import re
import textwrap
import types
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "src/redaction/public_names.h"
HEADER = """\
// Names that Python and torch use themselves, separated by spaces: builtins and containers, modules
// and optimizers, what nodes of autograd save. Written by tools/public_names.py.
#pragma once

#include <string_view>

namespace plimsoll::engine {

inline constexpr std::string_view kPublicNames = R"(
"""


def public_names() -> set[str]:
    """Return the names of this Python and its torch."""
    import torch

    names = {*keyword.kwlist, *dir(builtins), *dir(types), *collections.__all__, "args", "kwargs"}
    for package in (torch.nn, torch.nn.utils, torch.optim, torch.utils.data):
        names |= {name for name, each in vars(package).items() if inspect.isclass(each)}
    names |= {"Tensor", "Generator", "Storage", "param_groups", "params", "state", "defaults"}
    for node in vars(torch._C._functions).values():
        saved = dir(node) if inspect.isclass(node) else ()
        names |= {name[11:] for name in saved if name.startswith("_raw_saved_")}
    return {name for name in names if re.fullmatch(r"[A-Za-z]\w*", name)}


def main() -> None:
    """Write the file."""
    lines = textwrap.fill(" ".join(sorted(public_names())), 100)
    FILE.write_text(
        f'{HEADER}{lines}\n)";\n\n}}  // namespace plimsoll::engine\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
