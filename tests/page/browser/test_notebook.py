"""A real notebook: executed by nbconvert, and its HTML opened in Chromium."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from tests.page.contract import parsed

MOST_BYTES = 60_000
# The tags that JupyterLab (for untrusted notebooks) and GitHub keep in an output.
TAGS = {"div", "p", "b", "ul", "li", "img", "table", "thead", "tbody", "tr", "th", "td", "wbr"}

RECORD = """
import plimsoll, torch
net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU())
with plimsoll.record({path!r}) as recording:
    for _ in range(3):
        net(torch.ones(64, 512)).sum().backward()
        plimsoll.step()
recording
"""
OPEN = """
trace = plimsoll.open({path!r})
trace
"""


@pytest.fixture(scope="module")
def notebook(recording, tmp_path_factory) -> Any:
    folder = tmp_path_factory.mktemp("notebook")
    (leak,) = recording("leak")
    sources = [
        RECORD.format(path=str(folder / "run.plim")),
        OPEN.format(path=str(leak)),
        "trace.show(height=600)",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    made = nbformat.v4.new_notebook(cells=cells)
    ExecutePreprocessor(kernel_name="python3", timeout=300).preprocess(
        made, {"metadata": {"path": str(folder)}}
    )
    return made


def html_of(notebook: Any, cell: int) -> str:
    """The output of a cell, without the lines that the first use of torch's adapter prints."""
    (shown,) = (
        output["data"]["text/html"]
        for output in notebook.cells[cell].outputs
        if output.output_type in ("execute_result", "display_data")
    )
    return str(shown)


@pytest.mark.parametrize("cell", [0, 1])
def test_a_trace_and_a_recording_are_shown_without_scripts_and_styles(notebook, cell):
    shown = html_of(notebook, cell)
    assert len(shown.encode()) <= MOST_BYTES
    root = parsed(shown)
    assert {each.tag for each in root.all()} <= TAGS
    (image,) = root.all("img")
    assert image.attributes["src"].startswith("data:image/svg+xml;base64,")
    assert "peak" in image.attributes["alt"].lower()
    assert not [each for each in root.all() if "style" in each.attributes]
    text = root.text()
    assert "Memory on cpu grows" in text if cell == 1 else "Nothing wrong found" in text
    rows = [each for each in root.all("tr") if "data-bytes" in each.attributes]
    assert any(int(row.attributes["data-bytes"]) > 0 for row in rows)


def test_the_notebook_is_readable_in_a_browser(open_page, notebook, tmp_path):
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    path = tmp_path / "notebook.html"
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title></head>'
        f"<body><main>{body}</main></body></html>",
        encoding="utf-8",
    )
    opened = open_page(path)
    for image in opened.page.locator("img").all():
        assert image.evaluate("(image) => image.complete && image.naturalWidth") > 300
    assert opened.page.get_by_text("Memory on cpu grows").first.is_visible()
    (frame,) = opened.page.frames[1:]
    frame.wait_for_selector(".scripted")
    assert "grows" in frame.locator("section[data-section=verdict] h1").inner_text()
    opened.page.evaluate("() => { window.isReached = false; }")
    reach = """() => {
      try { parent.isReached = true; return "reached"; } catch (error) { return error.name; }
    }"""
    assert frame.evaluate(reach) == "SecurityError"
    frame_element = frame.frame_element()
    assert frame_element.get_attribute("sandbox") == "allow-scripts"
    assert frame_element.bounding_box()["height"] == 600


def test_the_frame_has_the_exported_page(notebook, recording, tmp_path):
    import plimsoll

    (leak,) = recording("leak")
    plimsoll.open(leak).export(tmp_path / "page.html")
    (frame,) = parsed(html_of(notebook, 2)).all("iframe")
    assert frame.attributes["srcdoc"] == Path(tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.escape(frame.attributes["srcdoc"]) in html_of(notebook, 2)
