"""How a case says what it has found."""

from __future__ import annotations

import json

MIB = 1 << 20


def check(what: str, holds: bool, found: object) -> None:
    """Says what table.py is to print."""
    print(json.dumps({"check": what, "holds": bool(holds), "found": str(found)}), flush=True)
