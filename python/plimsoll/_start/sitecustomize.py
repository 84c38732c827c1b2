"""The first code in a Python that `plimsoll run` starts.

`site` imports it because its folder is the first in PYTHONPATH. It restores PYTHONPATH,
``sys.path`` and ``sys.modules``, waits for torch, and runs the installed sitecustomize, if any. The
script then starts as in a plain ``python3 SCRIPT`` (docs/decisions/0010). It imports only modules
that Python has already imported, because the script's folder may have a module of the same name.
"""

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

    from plimsoll._start import next_program, torch_import
else:
    import next_program
    import torch_import

_thread = sys.modules["_thread"]


class _OwnImports:
    """Let this thread find modules in `folders`, which do not include the script's."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders
        self._thread = _thread.get_ident()

    def find_spec(
        self,
        name: str,
        path: "Sequence[str] | None" = None,
        target: "types.ModuleType | None" = None,
    ) -> "ModuleSpec | None":
        if path is not None or _thread.get_ident() != self._thread:
            return None
        return torch_import.find_spec(name, None, target, without=self, folders=self._folders)


def _begin(options: str, folders: list[str]) -> None:
    before = set(sys.modules)
    finder = _OwnImports(folders)
    sys.meta_path.insert(0, finder)
    try:
        from plimsoll._command.environment import begin_run
    finally:
        sys.meta_path.remove(finder)
    for name in set(sys.modules) - before:
        if "." not in name and name != "plimsoll" and _is_shadowed(name):
            del sys.modules[name]
    begin_run(options)


def _begin_or_say(options: str, folders: list[str]) -> None:
    try:
        _begin(options, folders)
    except Exception as error:
        record = sys.modules.get("plimsoll._record")
        if record is not None and record.is_raised_by_signal(error):
            raise  # the program's own exception
        _print(f"plimsoll: {error}; nothing is recorded")


def _print(text: str) -> None:
    """Print like ``plimsoll._process.messages``, which must not be imported here."""
    stream = sys.stderr
    if stream is None:  # without stderr, print() would write to stdout
        return
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text) + "\n"
    signals = sys.modules["_signal"]
    quiet = {signals.SIGPIPE, signals.SIGXFSZ}
    before = signals.pthread_sigmask(signals.SIG_BLOCK, quiet)
    pending = signals.sigpending()
    try:
        stream.flush()
        if type(stream).__name__ == "TextIOWrapper":  # bypass its buffer, which is written at exit
            os.write(stream.fileno(), line.encode(stream.encoding, "backslashreplace"))
        else:
            stream.write(line)
    except (AttributeError, OSError, ValueError):
        pass  # the script closed or replaced stderr
    finally:
        for each in quiet - pending:
            signals.sigtimedwait({each}, 0)
        signals.pthread_sigmask(signals.SIG_SETMASK, before)


def _is_shadowed(name: str) -> bool:
    """Return whether the script would import a different module of this name."""
    ours = getattr(sys.modules[name], "__spec__", None)
    theirs = torch_import.find_spec(name)
    return ours is not None and theirs is not None and ours.origin != theirs.origin


_OTHERS = "; for processes that it starts, use PLIMSOLL=1 after plimsoll enable"


def _seconds_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _begin_when_torch_is_imported(options: str, folders: list[str]) -> None:
    pid = os.getpid()

    def say_if_there_was_no_torch() -> None:
        if os.getpid() != pid or torch_import.has_program_failed():
            return
        if "torch" not in sys.modules:
            others = "" if _seconds_of_children() < 1 else _OTHERS
            _print(f"plimsoll: torch was not imported, so nothing was recorded{others}")

    atexit.register(say_if_there_was_no_torch)
    torch_import.call_after_torch(lambda: _begin_or_say(options, folders))


def _restore() -> str:
    """Undo the changes that started this module; return the options of `plimsoll run`."""
    here = os.path.dirname(__file__)
    options = os.environ.pop("PLIMSOLL_RUN_OPTIONS")
    python_path = os.environ.pop("PLIMSOLL_RUN_PYTHONPATH", None)
    if python_path is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = python_path
    sys.path[:] = [each for each in sys.path if each != here]
    sys.path_importer_cache.pop(here, None)
    del sys.modules["torch_import"], sys.modules["next_program"], sys.modules["sitecustomize"]
    # Do not replace an existing file: --force was for the first program.
    next_program.follow(options.replace('"overwrite": true', '"overwrite": false'), here, _print)
    return options


_begin_when_torch_is_imported(_restore(), list(sys.path))
__import__("sitecustomize")
