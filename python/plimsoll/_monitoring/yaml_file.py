"""Reads YAML files by the rules of src/config: scalars stay text; time and memory are bounded."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plimsoll._process.paths import path_text
from plimsoll._process.program_errors import leave_to_program
from plimsoll.errors import (
    CorruptError,
    Error,
    InputOutputError,
    LimitError,
    NoPermissionError,
    NotFoundError,
    UnsupportedError,
)

_MOST_BYTES = 16 << 20
_MOST_PAIRS = 100_000  # limit for the merged pairs of a mapping


class FileMapping(dict[Any, Any]):
    """A mapping in a file, with the line and column of each key, counted from 1."""

    path = ""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[Any, tuple[int, int]] = {}


def place_in_file(block: Mapping[Any, Any], key: object, place: str) -> str:
    """Return the start of a message about the key: the path, line and column, and the key."""
    if not isinstance(block, FileMapping) or key not in block.places:
        return place
    line, column = block.places[key]
    return f"{block.path}:{line}:{column}: {place.removeprefix(f'{block.path}: ')}"


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; reading fails on kernel files that would block, such as /proc/kmsg."""
    return os.open(path, flags | os.O_NONBLOCK if os.path.isfile(path) else flags)


def read_yaml(path: Path) -> Mapping[Any, Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ModuleNotFoundError:
        raise UnsupportedError(
            "unsupported",
            f"{path}: reading YAML needs PyYAML (pip install pyyaml); or give a dict",
        ) from None
    try:
        with open(path_text(path), "rb", opener=_without_waiting) as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise LimitError("limit", f"{path}: is larger than 16 MiB")
        loader = _text_loader(yaml, str(path))(text.decode("utf-8-sig"))
        root = loader.get_single_node()
        config = loader.construct_document(root) if root is not None else None
    except Error:
        raise
    except FileNotFoundError:
        raise NotFoundError("not_found", f"{path}: there is no such file") from None
    except PermissionError:
        raise NoPermissionError("permission", f"{path}: permission denied") from None
    except OSError as error:
        leave_to_program(error)
        raise InputOutputError("io", f"{path}: {error.strerror}") from error
    except RecursionError:
        raise CorruptError("corrupt", f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        leave_to_program(error)
        raise CorruptError("corrupt", _yaml_trouble(path, error, text)) from error
    if not isinstance(config, Mapping | None):
        place = f"{path}:{root.start_mark.line + 1}:{root.start_mark.column + 1}"
        kind = type(config).__name__
        raise CorruptError("corrupt", f"{place}: holds a {kind}, not names with values")
    return config or {}


def _text_loader(yaml: Any, path: str) -> Any:
    """A loader that keeps scalars as text.

    As in C++ (src/config), the option decides what "yes" or "010" means. An empty value is null,
    and ``<<`` merges.
    """
    resolvers = {
        first: [pair for pair in known if pair[0].endswith((":null", ":merge"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def flatten_mapping(self: Any, node: Any) -> None:
        """Limit merges: PyYAML copies the mappings, so a few lines can become millions of pairs."""
        merged = [value for key, value in node.value if key.tag == "tag:yaml.org,2002:merge"]
        size = 0
        for each in merged:
            for part in each.value if isinstance(each, yaml.SequenceNode) else [each]:
                if isinstance(part, yaml.MappingNode):
                    self.flatten_mapping(part)
                    size += 1 + len(part.value)
                if size > _MOST_PAIRS:
                    raise yaml.constructor.ConstructorError(
                        None, None, "<< merges too much", node.start_mark
                    )
        yaml.SafeLoader.flatten_mapping(self, node)

    def construct_map(self: Any, node: Any) -> Iterator[FileMapping]:
        mapping = FileMapping()
        mapping.path = path
        yield mapping
        mapping.update(self.construct_mapping(node))
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                mark = key.start_mark
                mapping.places[key.value] = (mark.line + 1, mark.column + 1)

    members = {"yaml_implicit_resolvers": resolvers, "flatten_mapping": flatten_mapping}
    loader: Any = type("TextLoader", (yaml.SafeLoader,), members)
    for kind in ("bool", "int", "float", "timestamp"):
        loader.add_constructor(f"tag:yaml.org,2002:{kind}", yaml.SafeLoader.construct_yaml_str)
    loader.add_constructor("tag:yaml.org,2002:map", construct_map)
    return loader


def _yaml_trouble(path: Path, error: Exception, text: bytes) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else f"{path}"
    before = None
    if isinstance(error, UnicodeDecodeError):
        before = error.object[: error.start].decode(errors="replace")
    elif hasattr(error, "position"):  # position of a character that YAML does not allow
        before = text.decode(errors="replace")[: error.position]
    if before is not None:
        column = len(before.rpartition("\n")[2]) + 1
        place = f"{path}:{before.count(chr(10)) + 1}:{column}"
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
    return f"{place}: invalid YAML: {str(problem).splitlines()[0]}"
