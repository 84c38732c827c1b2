"""Imports of optional packages, when Plimsoll needs them."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def needed(name: str, *others: str, pip: str = "") -> Any:
    """Return the first of these modules that is already imported, else the first that can be.

    `pip` is what pip installs; by default, the package of the first module.

    Raises:
        ModuleNotFoundError: None is installed; the message names the package.
    """
    names = (name, *others)
    for one in names:
        if sys.modules.get(one) is not None:
            return sys.modules[one]
    for one in names:
        try:
            return importlib.import_module(one)
        except ModuleNotFoundError as error:
            if error.name != one.split(".")[0]:
                raise  # the module exists, but one of its own imports fails
    package = name.split(".")[0]
    raise ModuleNotFoundError(
        f"{package} is not installed: pip install {pip or package}", name=name
    )
