"""What every page must satisfy, checked in its HTML without a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
# Attributes that may make a browser load something.
LOADING = {"action", "background", "data", "formaction", "href", "poster", "src", "srcset"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str = "", **attributes: str | None) -> Iterator[Element]:
        """The elements inside this one; `data_table="line"` requires that value, None any value."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        for child in self.children:
            if isinstance(child, str):
                continue
            if tag in ("", child.tag) and all(
                name in child.attributes and value in (None, child.attributes[name])
                for name, value in wanted.items()
            ):
                yield child
            yield from child.all(tag, **attributes)

    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text() for each in self.children)

    def has_class(self, name: str) -> bool:
        return name in self.attributes.get("class", "").split()


class StrictParser(HTMLParser):
    """A parser that fails where browsers would repair."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = self._add(tag, attrs)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        inside_svg = any(each.tag == "svg" for each in self.open)
        assert inside_svg or tag in VOID, f"<{tag}/> is open in HTML"
        self._add(tag, attrs)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Element:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        return element

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data[:80]}")


def parsed(page: str) -> Element:
    parser = StrictParser()
    parser.feed(page)
    parser.close()
    assert len(parser.open) == 1, f"<{parser.open[-1].tag}> is not closed"
    return parser.root


def source_of(content: str) -> str:
    """The source of a Content-Security-Policy that allows exactly this script or style."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def assert_self_contained(root: Element) -> None:
    """The page refers to nothing outside, and its policy allows only its own script and style."""
    for element in root.all():
        for name, value in element.attributes.items():
            assert not name.startswith("on"), f"<{element.tag} {name}=…>"
            assert name != "style", f"<{element.tag} style={value!r}>"
            if name.split(":")[-1] in LOADING:
                assert value.startswith(("#", "data:")), f"<{element.tag} {name}={value[:80]!r}>"
    (style,) = root.all("style")
    assert not re.search(r"url\(|@import|expression\(", style.text())
    scripts = [each for each in root.all("script") if "type" not in each.attributes]
    (script,) = scripts
    (policy,) = root.all("meta", http_equiv="Content-Security-Policy")
    directives = dict(
        each.strip().split(" ", 1) for each in policy.attributes["content"].split(";")
    )
    assert directives["default-src"] == "'none'"
    assert directives["style-src"] == source_of(style.text())
    assert directives["script-src"] == source_of(script.text())
    assert not set(directives) - {
        *("default-src", "style-src", "script-src", "base-uri", "form-action")
    }


def rows_of(article: Element, table: str) -> dict[str, int]:
    """The bytes of each row of a table, by its key; rows with the same key are added."""
    rows: dict[str, int] = {}
    for found in article.all("table", data_table=table):
        for row in found.all("tr", data_key=None, data_bytes=None):
            key = row.attributes["data-key"]
            rows[key] = rows.get(key, 0) + int(row.attributes["data-bytes"])
    return rows


def columns_of(article: Element) -> list[int]:
    """The bytes of each column of the chart over time, in its widest form."""
    for over_time in article.all("div"):
        if not over_time.has_class("over-time"):
            continue
        (chart,) = (each for each in over_time.all("svg") if each.has_class("wide"))
        (columns,) = (each for each in chart.all("g") if each.has_class("columns"))
        return [int(each.attributes["data-bytes"]) for each in columns.all("rect")]
    return []
