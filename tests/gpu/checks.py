"""Prints the results of a case."""

from __future__ import annotations

import json

MIB = 1 << 20


def check(what: str, holds: bool, found: object) -> None:
    """Print a check for table.py."""
    print(json.dumps({"check": what, "holds": bool(holds), "found": str(found)}), flush=True)
