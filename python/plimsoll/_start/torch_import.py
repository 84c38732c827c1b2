"""Calls a function when ``import torch`` has finished.

Imports nothing but `sys`, because it runs before the user's script: a module that is imported here
would be the script's module too. For the same reason there is no ``from __future__``.
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
    """What the finders of ``sys.meta_path`` find, without one of them.

    Args:
        name: The full name of the module.
        path: Where to search for a submodule.
        target: As in `importlib.abc.MetaPathFinder.find_spec`.
        without: A finder that is not asked.
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
    """A finder for ``sys.meta_path``, which it leaves when torch is loaded.

    Not when torch is found: some programs only ask whether it is there, and import it later.
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
        # Out of the list meanwhile: another one of these (`plimsoll enable`) would ask this one.
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
        """Leave ``sys.meta_path``; what to call when torch has been loaded."""
        if self not in sys.meta_path:  # it is loaded again
            return lambda: None
        sys.meta_path.remove(self)
        return self._then


class _ThenLoader:
    """Loads torch, then calls the function of a finder."""

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
# count them. An error or a warning inside torch shows the same lines as without us.
_ThenLoader.exec_module.__code__ = _ThenLoader.exec_module.__code__.replace(
    co_filename="<frozen importlib._bootstrap>"
)


def call_after_torch(then: "Callable[[], None]") -> None:
    """Calls `then` when torch has been imported, immediately if it is imported already."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchFinder(then))
