"""The page of a fleet: its map names the ranks that matter, at any number of ranks and width."""

from __future__ import annotations

import sys

import pytest
from tests.page.recordings import ROOT

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
sys.path.insert(0, str(ROOT / "python/tests"))

from generated_ranks import GIB, paths, runner

from plimsoll import fleet
from plimsoll.fleet.page import page

ODD = 5


def change(rank, row, sizes):
    sizes[0] += (rank % 2) * 5 * GIB
    sizes[4] += 2 * GIB if rank == ODD else 0


@pytest.fixture(scope="module", params=[8, 4_096])
def written(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    mesh = f"dp={request.param // 2},tp=2"
    fleet.add(folder / "runs", paths(request.param), run="a", mesh=mesh, runner=runner(change))
    opened = fleet.open(folder / "runs")
    (folder / "page.html").write_text(page(opened, opened.show()))
    return folder / "page.html"


OVERLAPS = """() => [...document.querySelectorAll(".map > div")].flatMap((side) => {
  const boxes = [...side.querySelectorAll("span")].map((each) => each.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right
    && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  return boxes.filter((a, i) => boxes.slice(i + 1).some((b) => meet(a, b))).map((a) => [a.x, a.y]);
})"""


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_the_map_has_readable_labels_and_names_the_odd_rank(open_page, axe, written, width, theme):
    opened = open_page(written, width=width, theme=theme)
    found = opened.page
    assert axe(opened) == []
    assert found.evaluate("document.documentElement.scrollWidth") <= width
    assert found.evaluate(OVERLAPS) == []
    assert found.locator(".left span").count() >= 8
    assert found.locator(".below span").count() >= 5
    odd = found.locator(".odd")
    assert odd.text_content() == f"◂ {ODD} differs"
    # At its height, the map has the color of ranks above the median.
    mark, canvas = odd.bounding_box(), found.locator("canvas").bounding_box()
    found.mouse.move(canvas["x"] + canvas["width"] / 2, mark["y"] + mark["height"] / 2)
    text = found.locator("#here").text_content()
    assert text.startswith(f"rank {ODD} dp2 tp1, step 1")
    assert text.endswith("+2.0 GiB from the median")
