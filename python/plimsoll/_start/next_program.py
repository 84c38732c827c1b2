"""Records the program that replaces this one through ``os.exec*``, if it is the same Python.

Programs restart themselves to change a variable that the linker or CUDA reads. This module imports
only `os` and `sys`, for the reason that `torch_import` gives.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAMES = ("PYTHONPATH", "PLIMSOLL_RUN_OPTIONS", "PLIMSOLL_RUN_PYTHONPATH")


def follow(options: str, folder: str, say: "Callable[[str], None]") -> None:
    """Wrap `os.execv` and `os.execve`, on which the other ``exec`` functions are based.

    Args:
        options: The value of PLIMSOLL_RUN_OPTIONS for the next program.
        folder: The first entry of its PYTHONPATH.
        say: Prints a line.
    """
    posix: Any = sys.modules["posix"]
    plain_execv, plain_execve = posix.execv, posix.execve
    pid = os.getpid()

    def prepare(path: object, argv: object) -> bool:
        """Return whether the next program records. The file is flushed before this one ends."""
        if os.getpid() != pid:
            return False  # in a forked child: the recorded program continues
        recordings = sys.modules.get("plimsoll._process.recordings")
        for each in recordings.running() if recordings is not None else ():
            each.flush()
        if _is_this_python(path, argv):
            return True
        is_possible = isinstance(argv, list | tuple) and argv and _can_be_run(path)
        if is_possible:  # os.execvp tries each folder of PATH
            say(f"plimsoll: the program becomes {_shown(path)}, which is not recorded")
        return False

    def execv(path: "Any", argv: "Any", /) -> "Any":
        if not prepare(path, argv):
            return plain_execv(path, argv)
        for name, value in _additions(os.environb.get(b"PYTHONPATH"), options, folder).items():
            posix.putenv(name, value)
        try:
            return plain_execv(path, argv)
        finally:
            for each in map(os.fsencode, _NAMES):
                before = os.environb.get(each)
                posix.unsetenv(each) if before is None else posix.putenv(each, before)

    def execve(path: "Any", argv: "Any", env: "Any") -> "Any":
        if not prepare(path, argv) or not isinstance(env, type(os.environ) | dict):
            return plain_execve(path, argv, env)
        names: Any = {os.fsencode(name): name for name in env if isinstance(name, str | bytes)}
        old = env[names[b"PYTHONPATH"]] if b"PYTHONPATH" in names else None
        added = _additions(os.fsencode(old) if old is not None else None, options, folder)
        rest = {name: env[name] for name in env if name != names.get(b"PYTHONPATH")}
        return plain_execve(path, argv, rest | added)

    for plain, ours in ((plain_execv, execv), (plain_execve, execve)):
        ours.__module__, ours.__doc__ = plain.__module__, plain.__doc__
        ours.__name__ = ours.__qualname__ = plain.__name__
        setattr(posix, plain.__name__, ours)
        setattr(os, plain.__name__, ours)
        if plain in os.supports_fd:
            os.supports_fd.add(ours)


def _additions(python_path: "bytes | None", options: str, folder: str) -> "dict[bytes, bytes]":
    first = os.fsencode(folder)
    added = {b"PLIMSOLL_RUN_OPTIONS": os.fsencode(options), b"PYTHONPATH": first}
    if python_path is not None:
        added[b"PLIMSOLL_RUN_PYTHONPATH"] = python_path
        added[b"PYTHONPATH"] = first + b":" + python_path if python_path else first
    return added


def _is_this_python(path: object, argv: object) -> bool:
    """Return whether it is the same Python, without options to ignore PYTHONPATH or `site`."""
    if not isinstance(argv, list | tuple) or not isinstance(path, str | bytes | os.PathLike):
        return False
    for word in argv[1:]:
        text = os.fsdecode(word) if isinstance(word, str | bytes) else ""
        if not text.startswith("-") or text[:2] in ("-c", "-m", "-"):
            break
        if not text.startswith(("--", "-W", "-X")) and set("EIS") & set(text):
            return False
    try:
        return os.path.samefile(path, sys.executable)
    except (OSError, ValueError):
        return False


def _can_be_run(path: "Any") -> bool:
    try:
        return os.access(path, os.X_OK) and not os.path.isdir(path)
    except (OSError, TypeError, ValueError):
        return False


def _shown(path: object) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else "another one"
