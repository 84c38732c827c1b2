"""Calls a function when ``import torch`` has finished.

Imports only `sys`: it runs before the user's script, which would find its imports already loaded.
For the same reason there is no ``from __future__``.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any


def find_spec(
    name: str,
    path: "Sequence[str] | None" = None,
    target: "types.ModuleType | None" = None,
    *,
    without: object = None,
    folders: "list[str] | None" = None,
) -> "ModuleSpec | None":
    """Return the first spec that the finders of ``sys.meta_path`` find, except one of them.

    Args:
        name: The full name of the module.
        path: Where to search for a submodule.
        target: As in `importlib.abc.MetaPathFinder.find_spec`.
        without: A finder to skip.
        folders: Where to search for a top-level module instead of ``sys.path``.
    """
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None or finder is without:
            continue
        searches_path = getattr(finder, "__name__", "") == "PathFinder"
        spec: ModuleSpec | None = find(name, folders if searches_path and folders else path, target)
        if spec is not None:
            return spec
    return None


class _TorchFinder:
    """A finder for ``sys.meta_path``, removed when torch is loaded.

    It is not removed when torch is found: some programs only test for torch, and import it later.
    """

    def __init__(self, then: "Callable[[], None]") -> None:
        self._then = then

    def find_spec(
        self,
        name: str,
        path: "Sequence[str] | None" = None,
        target: "types.ModuleType | None" = None,
    ) -> "ModuleSpec | None":
        if name != "torch" or self not in sys.meta_path:
            return None
        # Leave the list during the search: otherwise this finder and another of its class
        # (`plimsoll enable`) would call each other.
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name, path, target)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            loader: Any = _ThenLoader(spec.loader, self)
            spec.loader = loader
        return spec

    def torch_is_loading(self) -> "Callable[[], None]":
        """Remove the finder; return the function to call when torch has been loaded."""
        if self not in sys.meta_path:  # torch is loaded again
            return lambda: None
        sys.meta_path.remove(self)
        return self._then


class _ThenLoader:
    """Loads torch, then calls the finder's function."""

    def __init__(self, loader: "Any", finder: _TorchFinder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: "ModuleSpec") -> "types.ModuleType | None":
        module: types.ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: "types.ModuleType") -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        then = self._finder.torch_is_loading()
        self._loader.exec_module(module)
        then()

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)


# Python drops frames with this file name from the tracebacks of imports, and `warnings` does not
# count them. So an error or a warning inside torch shows the same lines as without Plimsoll.
_ThenLoader.exec_module.__code__ = _ThenLoader.exec_module.__code__.replace(
    co_filename="<frozen importlib._bootstrap>"
)


def call_after_torch(then: "Callable[[], None]") -> None:
    """Call `then` when torch has been imported, immediately if it already is."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchFinder(then))


def has_program_failed() -> bool:
    """Return, at exit, whether Python has already printed why the program ended or did not start.

    Example:
        >>> has_program_failed()
        False
    """
    if hasattr(sys, "last_value"):  # the exception whose traceback it has printed
        return True
    # Python gives __main__ another loader when it starts a script or a module.
    loader = getattr(sys.modules.get("__main__"), "__loader__", None)
    is_script = sys.argv[:1] not in ([], [""], ["-"], ["-c"])
    return is_script and getattr(loader, "__name__", "") == "BuiltinImporter"
