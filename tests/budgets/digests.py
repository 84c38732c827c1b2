"""Builds digests from a line of text, for the tests of budgets."""

from __future__ import annotations

from typing import Any

Digest = dict[str, Any]


def digest(text: str, **source: Any) -> Digest:
    """Return the digest that a text describes.

    Args:
        text: `Net.head/parameter=500` is 500 bytes of a layer and a category. `@cuda:0` selects the
            device of the words after it, `#end` their point. The defaults are `cpu` and `peak`.
        source: Fields of the source that differ from the defaults.
    """
    points: list[dict[str, Any]] = []
    keys: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    device, point = "cpu", "peak"
    for word in text.split():
        if word[0] == "@":
            device, point = word[1:], "peak"
            continue
        if word[0] == "#":
            point = word[1:]
            continue
        place, size = word.split("=")
        layer, category = place.split("/")
        rows.append(
            row(
                index_of(points, {"device": device, "name": point}),
                index_of(keys, key(device, layer, category)),
                int(size),
            )
        )
    for index, each in enumerate(points):
        total = sum(row["bytes"] for row in rows if row["point"] == index)
        each.update({"bytes": total, "step": None, "phase": "", "layer": ""})
    layers = sorted({each["layer"] for each in keys})
    return {
        "digest_version": "1.1",
        "source": usual_source() | source,
        "points": points,
        "keys": keys,
        "rows": rows,
        "modules": [module(layer) for layer in layers],
        "repeats": None,
    }


def usual_source() -> dict[str, Any]:
    return {
        "path": "run.plim",
        "format": "plimsoll",
        "rank": None,
        "command": "train.py",
        "python": "3.11.2",
        "torch": "2.13.0",
        "plimsoll": "0.1.0",
        "steps": 6,
        "threads": "1",
        "mode": "full",
    }


def index_of(items: list[dict[str, Any]], item: dict[str, Any]) -> int:
    """Return the index of the first item with these values. Append the item if there is none."""
    for index, each in enumerate(items):
        if each | item == each:
            return index
    items.append(item)
    return len(items) - 1


def key(device: str, layer: str, category: str) -> dict[str, Any]:
    return {
        "device": device,
        "category": category,
        "phase": "forward",
        "layer": layer,
        "operator": "aten::linear",
        "function": "forward",
        "text": "",
        "offset": 3,
        "dtype": "",
        "place": "",
        "example_layer": layer.replace("*", "0"),
    }


def row(point: int, key: int, size: int) -> dict[str, Any]:
    return {
        "point": point,
        "key": key,
        "bytes": size,
        "count": 1,
        "largest_bytes": size,
        "shape": "",
        "instances": 1,
        "instance_bytes": size,
        "uneven": [],
    }


def module(path: str) -> dict[str, Any]:
    return {"path": path, "type": "", "instances": 1, "indices": "", "parameter_bytes": 0}
