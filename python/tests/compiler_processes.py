"""Helpers for tests of supervised compilers: processes, and a compiler that hangs."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def hanging_compiler(folder: Path) -> Path:
    """A compiler that writes its child's pid to a file and waits for the child."""
    path = folder / "hanging"
    path.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > '{folder}/pid.new'\n"
                    f"mv '{folder}/pid.new' '{folder}/pid'\nwait\n")  # fmt: skip
    path.chmod(0o755)
    return path
