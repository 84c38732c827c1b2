"""Numbers and rows as people read them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def count_text(number: int) -> str:
    """Return the number with separators of thousands."""
    return f"{number:,}"


def time_text(time_ns: int | None) -> str:
    """Return a time since the epoch, as UTC to the minute."""
    if time_ns is None:
        return ""
    return datetime.fromtimestamp(time_ns // 10**9, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def named(by: str, row: dict[str, Any]) -> str:
    """Return what a row of `differences` or `changes` stands for."""
    if by not in ("line", "rank"):
        return row["key"] or f"no {by}"
    text, _, layer = row["key"].rpartition("|")
    words = row["place"] or text
    return f"{words}, layer {layer}" if layer else words
