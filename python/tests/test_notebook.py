"""How notebooks show a trace and a recording; tests/page/browser uses a real notebook."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

import plimsoll
from plimsoll._notebook import Page

COMPAT = Path(__file__).resolve().parents[2] / "tests/compat/v3.plimsoll"


def test_a_trace_is_a_small_fragment_without_scripts() -> None:
    trace = plimsoll.open(COMPAT)
    shown = trace._repr_html_()
    assert shown.startswith("<div>")
    assert len(shown.encode()) <= 60_000
    assert "<script" not in shown
    assert "data:image/svg+xml;base64," in shown


def test_the_point_in_time_is_the_traces() -> None:
    at_peak, at_end = plimsoll.open(COMPAT), plimsoll.open(COMPAT, at="end")
    assert at_peak._repr_html_() != at_end._repr_html_()


def test_a_recording_is_shown_once_it_has_ended(tmp_path: Path) -> None:
    recording = plimsoll.record(tmp_path / "run.plim", adapter="none")
    assert recording._repr_html_() is None
    with recording:
        assert recording._repr_html_() is None
    assert recording._repr_html_() == plimsoll.open(recording.path)._repr_html_()
    (tmp_path / "run.plim").unlink()
    assert recording._repr_html_() is None


def test_a_page_is_in_a_frame_that_cannot_reach_the_notebook() -> None:
    shown = Page('<p title="a & b">x</p>', 500)._repr_html_()
    assert 'sandbox="allow-scripts"' in shown
    assert 'height="500"' in shown
    assert 'srcdoc="&lt;p title=&quot;a &amp; b&quot;&gt;x&lt;/p&gt;"' in shown


def test_show_displays_the_page_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Page] = []
    shown = types.SimpleNamespace(display=displayed.append)
    shell = types.SimpleNamespace(get_ipython=object, display=shown)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    plimsoll.open(COMPAT).show(height=400)
    (page,) = displayed
    assert 'height="400"' in page._repr_html_()
    assert "&lt;!doctype html&gt;" in page._repr_html_()
    with pytest.raises(plimsoll.errors.InvalidArgumentError, match="height"):
        plimsoll.open(COMPAT).show(height=-1)


def test_show_needs_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with pytest.raises(plimsoll.errors.InvalidArgumentError, match=r"export\(\"report.html\"\)"):
        plimsoll.open(COMPAT).show()
