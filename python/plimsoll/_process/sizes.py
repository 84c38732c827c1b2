"""Formats sizes for people."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """Return ``"512 B"`` or ``"1.5 GiB"``; a negative difference keeps its sign."""
    value, unit = abs(float(size_bytes)), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        # 1023.95 of a unit would round to 1024.0, which is 1.0 of the next.
        if value < (1024 if unit == "B" else 1023.95) or unit == "TiB":
            break
        value /= 1024
    sign = "-" if size_bytes < 0 else ""
    return f"{sign}{value:.0f} B" if unit == "B" else f"{sign}{value:.1f} {unit}"
