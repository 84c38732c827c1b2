"""The pictures in README and docs/pictures.md, each made from one of the recordings below.

They are compared by size and content, not by pixel: fonts differ between machines. With
PLIMSOLL_BLESS=1 they are written to docs/images.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.page.recordings import ROOT

IMAGES = ROOT / "docs/images"
PAGE = ROOT / "docs/pictures.md"
MOST_BYTES = 250_000  # size limit of a picture

# Name of the picture: the recording of recordings.py, and the arguments of plimsoll plot.
PLOTS = {
    "timeline": ("cpu_training", ["--what", "timeline", "--theme", "light"]),
    "layers": ("cpu_training", ["--what", "layers", "--theme", "light"]),
    "steps": ("leak", ["--what", "steps", "--theme", "light"]),
    "segments": ("fragmented", ["--what", "segments", "--at", "end", "--theme", "light"]),
    "ranks": ("ranks", ["--what", "ranks", "--theme", "light"]),
}
# Name of the picture: the recording, the theme, and the size of the window.
SCREENSHOTS = {
    "page": ("leak", "light", (1280, 1000)),
    "page-dark": ("cpu_training", "dark", (1280, 1000)),
    "page-narrow": ("leak", "light", (390, 844)),
}


def size_of_png(data: bytes) -> tuple[int, int]:
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def compare(name: str, data: bytes) -> None:
    path = IMAGES / f"{name}.png"
    assert len(data) <= MOST_BYTES
    if os.environ.get("PLIMSOLL_BLESS"):
        path.write_bytes(data)
    shown = path.read_bytes()
    (width, height), (shown_width, shown_height) = size_of_png(data), size_of_png(shown)
    assert width == shown_width
    assert abs(height - shown_height) <= 0.1 * height
    assert f"images/{name}.png" in PAGE.read_text() + (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", PLOTS)
def test_the_plots_of_the_tour_are_made_by_plimsoll_plot(
    plimsoll_command, recording, name, tmp_path
):
    source, arguments = PLOTS[name]
    path = tmp_path / f"{name}.png"
    files = [str(each) for each in recording(source)]
    subprocess.run([plimsoll_command, "plot", *files, *arguments, "-o", path], check=True)
    compare(name, path.read_bytes())


@pytest.mark.parametrize("name", SCREENSHOTS)
def test_the_screenshots_of_the_tour_are_the_page(
    plimsoll_command, recording, open_page, name, tmp_path
):
    source, theme, (width, height) = SCREENSHOTS[name]
    path = tmp_path / "report.html"
    files = [str(each) for each in recording(source)]
    subprocess.run([plimsoll_command, "report", *files, "--html", path], check=True)
    opened = open_page(path, width, theme, height=height)
    compare(name, opened.page.screenshot())


def test_every_picture_is_in_the_documentation() -> None:
    text = PAGE.read_text() + (ROOT / "README.md").read_text()
    shown = set(re.findall(r"images/([\w-]+\.\w+)\)", text))
    assert {path.name for path in IMAGES.iterdir()} == shown


def test_every_command_of_the_tour_names_a_picture_of_it() -> None:
    commands = re.findall(r"^plimsoll plot .*-o ([\w-]+)\.png$", PAGE.read_text(), re.M)
    assert set(commands) == set(PLOTS)
    assert all(Path(IMAGES / f"{name}.png").is_file() for name in commands)
