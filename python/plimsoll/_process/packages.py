"""Optional packages, imported when they are used."""

from __future__ import annotations

import importlib
from typing import Any

from plimsoll.errors import Error


class MissingPackageError(Error, ImportError):
    """An optional package is not installed."""


def needed(module: str, extra: str = "fleet") -> Any:
    """Import a module of an optional package, which the extra of plimsoll-profiler installs.

    Raises:
        MissingPackageError: It is not installed; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".", 1)[0]
        raise MissingPackageError(
            "missing_package",
            f"this needs the package {package}: pip install 'plimsoll-profiler[{extra}]'",
        ) from error
