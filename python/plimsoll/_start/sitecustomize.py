"""The first code in a Python that `plimsoll run` starts.

`site` imports it because its folder leads PYTHONPATH. It restores PYTHONPATH, ``sys.path`` and
``sys.modules``, waits for torch, and gives way to the sitecustomize that is installed, if any. The
script then starts as in a plain ``python3 SCRIPT`` (docs/decisions/0010). Nothing is imported here
that Python has not imported by then: the script's folder may hold a module of that name.
"""

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

    from plimsoll._start import torch_import
else:
    import torch_import

_thread = sys.modules["_thread"]


class _OwnImports:
    """Has this thread find modules in `folders`, which do not include the script's."""

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
            raise  # it is the program's
        _print(f"plimsoll: {error}; nothing is recorded")


def _print(text: str) -> None:
    if sys.stderr is None:  # print() would write to stdout
        return
    try:
        print("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text), file=sys.stderr)
    except (OSError, ValueError):
        return  # the script has closed it


def _is_shadowed(name: str) -> bool:
    """Whether the script would import another module of this name than we have."""
    ours = getattr(sys.modules[name], "__spec__", None)
    theirs = torch_import.find_spec(name)
    return ours is not None and theirs is not None and ours.origin != theirs.origin


def _begin_when_torch_is_imported(options: str, folders: list[str]) -> None:
    pid = os.getpid()

    def say_if_there_was_no_torch() -> None:
        if os.getpid() == pid and "torch" not in sys.modules:
            _print("plimsoll: torch was not imported, so nothing was recorded")

    atexit.register(say_if_there_was_no_torch)
    torch_import.call_after_torch(lambda: _begin_or_say(options, folders))


def _restore() -> str:
    """Undoes the changes that started this module; returns the options of `plimsoll run`."""
    here = os.path.dirname(__file__)
    options = os.environ.pop("PLIMSOLL_RUN_OPTIONS")
    python_path = os.environ.pop("PLIMSOLL_RUN_PYTHONPATH", None)
    if python_path is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = python_path
    sys.path[:] = [each for each in sys.path if each != here]
    sys.path_importer_cache.pop(here, None)
    del sys.modules["torch_import"], sys.modules["sitecustomize"]
    return options


_begin_when_torch_is_imported(_restore(), list(sys.path))
__import__("sitecustomize")
