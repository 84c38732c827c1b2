"""The fixtures of these tests detect everything that a page must not do."""

from __future__ import annotations

import pytest

POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
HEAD = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>'
BODY = "</head><body><main><h1>A page</h1>"


@pytest.fixture
def written(tmp_path):
    def write(head: str, body: str):
        path = tmp_path / "page.html"
        path.write_text(f"{HEAD}{head}{BODY}{body}</main></body></html>")
        return path

    return write


def test_a_quiet_page_has_no_problem(open_page, axe, written):
    opened = open_page(written(POLICY, "<p>text</p>"))
    assert opened.problems() == []
    assert axe(opened) == []
    assert opened.page.inner_text("p") == "text"


@pytest.mark.parametrize(
    ("head", "body", "problem"),
    [
        ("", '<img alt="" src="http://example.com/x.png">', "request: http://example.com/x.png"),
        ("", '<img alt="" src="file:///etc/hostname">', "request: file:///etc/hostname"),
        ("", "<script>fetch('http://example.com/')</script>", "request: http://example.com/"),
        ("", "<script>console.error('bad')</script>", "console: bad"),
        ("", "<script>throw new Error('bad')</script>", "console: bad"),
        ("", "<script>alert(1)</script>", "dialog: 1"),
        (POLICY, "<script>alert(1)</script>", "Content-Security-Policy: script-src-elem: inline "),
        (POLICY, '<p style="color:red">x</p>', "Content-Security-Policy: style-src-attr: inline "),
    ],
)
def test_what_a_page_may_not_do_is_a_problem(open_page, written, head, body, problem):
    opened = open_page(written(head, body), expect_problems=True)
    opened.page.wait_for_load_state("networkidle")
    assert problem in opened.problems()


def test_a_violation_of_a_page_without_scripts_is_a_problem(open_page, written):
    opened = open_page(written(POLICY, '<p style="x">'), scripts=False, expect_problems=True)
    assert len(opened.messages) == 1
    assert "Content Security Policy" in opened.messages[0]


@pytest.mark.parametrize(
    ("body", "violation"),
    [
        ("<button></button>", "button-name"),
        ('<p><font color="#888888" size="1">pale</font></p>', "color-contrast"),
    ],
)
def test_axe_finds_what_readers_cannot_use(open_page, axe, written, body, violation):
    opened = open_page(written(POLICY, body))
    assert [each.split(" ")[0] for each in axe(opened)] == [violation]


def test_the_theme_and_the_width_are_those_of_the_reader(open_page, written):
    style = "<style>p{color:red}@media (prefers-color-scheme:dark){p{color:blue}}</style>"
    path = written(style, "<p>text</p>")
    color = "() => getComputedStyle(document.querySelector('p')).color"
    assert open_page(path).page.evaluate(color) == "rgb(255, 0, 0)"
    dark = open_page(path, width=360, theme="dark").page
    assert dark.evaluate(color) == "rgb(0, 0, 255)"
    assert dark.evaluate("() => innerWidth") == 360
