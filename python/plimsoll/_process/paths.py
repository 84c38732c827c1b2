"""Paths from users, and the default path of a recording."""

from __future__ import annotations

import errno
import os
import re
import sys

from plimsoll.errors import InvalidArgumentError


def path_text(path: str | os.PathLike[str]) -> str:
    """Return the path as text.

    Raises:
        TypeError: The path is bytes.
        InvalidArgumentError: The path contains a zero byte, at which the system would cut it off.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(
            f"the path {text!r} is bytes; plimsoll takes str and pathlib.Path: "
            "convert it with os.fsdecode"
        )
    if "\0" in text:
        raise InvalidArgumentError("invalid_argument", f"the path {text!r} contains a zero byte")
    return text


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, because the program may change its working folder.

    Raises:
        FileNotFoundError: The path is relative, and the working folder has been removed.
    """
    text = path_text(path)
    try:
        return os.path.abspath(text)
    except FileNotFoundError:
        reason = "the working folder has been removed; give an absolute path"
        raise FileNotFoundError(errno.ENOENT, reason, text) from None


def number_in_environment(variable: str) -> int | None:
    """Return the number in a variable of the launcher; None unless it has one to nine digits."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def launched_rank() -> int | None:
    """Return the rank that the launcher of a distributed run set."""
    rank = number_in_environment("RANK")
    return number_in_environment("LOCAL_RANK") if rank is None else rank


def default_path() -> str:
    """Return ``plimsoll-SCRIPT-PID.plim``, with the rank in a distributed run."""
    script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    rank = launched_rank()
    middle = "" if rank is None else f"-rank{rank}"
    return f"plimsoll-{script or 'python'}{middle}-{os.getpid()}.plim"


def of_rank(path: str) -> str:
    """Return the path with the rank, if a launcher gives several processes the same path.

    Example:
        >>> from plimsoll._process.paths import of_rank
        >>> of_rank("run.plim")  # with RANK=3 and WORLD_SIZE=8: run.rank3.plim
        'run.plim'
    """
    name = os.path.basename(path)
    rank = launched_rank()
    is_alone = rank is None or number_in_environment("WORLD_SIZE") in (None, 1)
    own = rf"(?<![a-zA-Z])rank[-_]?0*{rank}(?!\d)"  # "rank3", "rank_03", not that of "lora_rank33"
    if is_alone or re.search(own, name) or f"rank{rank}" in path.split(os.sep):
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}.rank{rank}{ending}"
