"""The modules of the Python package have no import cycles, not even inside functions."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python/plimsoll"


def module_of(file: Path, folder: Path) -> str:
    words = file.relative_to(folder.parent).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def imports(tree: ast.AST) -> Iterator[str]:
    """The imports that run; those under TYPE_CHECKING are skipped."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield str(node.module)
        else:
            yield from imports(node)


def graph_of(folder: Path) -> dict[str, set[str]]:
    """Each module of the package, and those that it imports."""
    files = {module_of(file, folder): file for file in folder.rglob("*.py")}
    graph = {}
    for module, file in files.items():
        found = set(imports(ast.parse(file.read_text())))
        # `from plimsoll import _record` needs the package's folder, but runs no other module of it.
        graph[module] = {each for each in found if each in files} - {module, folder.name}
    return graph


def test_no_module_imports_itself_through_others() -> None:
    graph = graph_of(PACKAGE)
    assert len(graph) > 50
    assert graph["plimsoll.recording"] >= {"plimsoll._process.recordings", "plimsoll.trace"}
    TopologicalSorter(graph).prepare()


def test_a_cycle_through_a_function_is_found(tmp_path: Path) -> None:
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("from made import second\n")
    (package / "second.py").write_text("def late():\n    from made.first import name\n")
    with pytest.raises(CycleError):
        TopologicalSorter(graph_of(package)).prepare()
