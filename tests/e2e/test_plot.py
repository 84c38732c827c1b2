"""plimsoll plot: the kinds of charts, where they are written, and which arguments are errors."""

import json
import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .running import complains

COMPAT = Path(__file__).parents[1] / "compat"
NATIVE = str(COMPAT / "v3.plimsoll")
SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path, tag: str = "text") -> list[str]:
    root = ElementTree.parse(path).getroot()
    return ["".join(element.itertext()) for element in root.iter(SVG + tag)]


def png_rows(path: Path) -> tuple[int, int, bytes]:
    """Return width, height and the inflated rows of a PNG, checking every chunk's CRC."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, width, height, packed = 8, 0, 0, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    return width, height, zlib.decompress(packed)


def mib(text: str) -> float:
    number, unit = re.search(r"([\d.]+) (B|KiB|MiB|GiB)", text).groups()
    return float(number) * {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 1024}[unit]


@pytest.mark.parametrize("theme", ["print", "light", "dark"])
@pytest.mark.parametrize("what", ["timeline", "segments"])
def test_a_chart_is_svg_and_png(plimsoll, planted, tmp_path, what, theme):
    for suffix in ("svg", "png"):
        place = tmp_path / f"x.{suffix}"
        outcome = plimsoll("plot", planted, "--what", what, "--theme", theme, "-o", place)
        assert outcome.status == 0, outcome.err
        assert outcome.out.startswith(f"{place} (")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    assert root.get("role") == "img"
    assert root.find(SVG + "title").text
    width, height, rows = png_rows(tmp_path / "x.png")
    assert (width, height) == (2 * int(root.get("width")), 2 * int(root.get("height")))
    background = {"print": b"\xff\xff\xff", "light": b"\xfb\xfa\xf7", "dark": b"\x14\x17\x1b"}
    assert rows[1:4] == background[theme]
    assert len(rows) == height * (3 * width + 1)


@pytest.mark.parametrize("what", ["timeline", "segments"])
def test_a_pdf_is_one_page_of_paths(plimsoll, planted, tmp_path, what):
    place = tmp_path / "x.pdf"
    words = ("--what", what, "--width", 700, "--height", 300)
    outcome = plimsoll("plot", planted, *words, "-o", place)
    assert outcome.status == 0, outcome.err
    data = place.read_bytes()
    assert b"/MediaBox [0 0 525.00 225.00 ]" in data
    stream = data.partition(b"stream\n")[2].partition(b"\nendstream")[0]
    operators = [line.split()[-1] for line in zlib.decompress(stream).splitlines()]
    known = b"cm j q Q rg RG gs w d m l c h re f n S J".split()
    assert set(operators) <= {*known}
    assert operators.count(b"l") > 100


def test_the_peak_is_that_of_the_report(plimsoll, planted, tmp_path):
    report = json.loads(plimsoll("report", planted, "--json").out)
    (device,) = report["devices"]
    plimsoll("plot", planted, "-o", tmp_path / "x.svg")
    (title,) = texts(tmp_path / "x.svg", "title")[:1]
    peak = device["requested_active"]["peak_bytes"]
    assert mib(title) == pytest.approx(peak / 2**20, rel=0.01)
    # The tooltips of the bands are the rows of the table: the same bytes at the same point.
    shown = texts(tmp_path / "x.svg", "title")[1:]
    table = report["tables"]["by_category"] or report["tables"]["by_line"]
    for row in table[:3]:
        name = row["key"].replace("_", " ")
        (band,) = [text for text in shown if text.startswith(name + ":")]
        assert mib(band) == pytest.approx(row["bytes"] / 2**20, rel=0.01)


def test_the_segments_add_up_as_in_the_report(plimsoll, planted, tmp_path):
    report = json.loads(plimsoll("report", planted, "--json").out)
    (device,) = report["devices"]
    place = tmp_path / "x.svg"
    plimsoll("plot", planted, "--what", "segments", "--at", "end", "-o", place)
    (description,) = texts(place, "desc")
    pinned = re.search("free but pinned ([^,]*),", description).group(1)
    assert mib(pinned) == pytest.approx(device["fragmentation"]["pinned_bytes"] / 2**20, rel=0.004)


def test_groups_axes_and_sizes_can_be_chosen(plimsoll, planted, tmp_path):
    place = tmp_path / "x.svg"
    words = (
        "--by",
        "line",
        "--axis",
        "event",
        "--width",
        700,
        "--height",
        300,
        "--title",
        "Fig. 1",
    )
    outcome = plimsoll("plot", planted, *words, "-o", place)
    assert outcome.status == 0, outcome.err
    root = ElementTree.parse(place).getroot()
    assert (root.get("width"), root.get("height")) == ("700", "300")
    assert root.find(SVG + "title").text == "Fig. 1"
    assert "live bytes by line" in " ".join(texts(place))
    assert "event 0" in texts(place)


def test_an_existing_file_is_kept(plimsoll, planted, tmp_path):
    place = tmp_path / "x.svg"
    place.write_text("mine")
    complains(plimsoll("plot", planted, "-o", place), 2, "x.svg exists", "--force")
    assert place.read_text() == "mine"
    assert plimsoll("plot", planted, "-o", place, "--force").status == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-o", "x.jpg"), "-o x.jpg: the name must end in .svg, .pdf or .png"),
        (("-o", "x.svg", "--width", "10"), "--width 10 is not a number of pixels from 200 to 8000"),
        (("-o", "x.svg", "--height", "1e3"), "--height 1e3 is not"),
        (
            ("-o", "x.png", "--width", "8000", "--height", "8000"),
            "a PNG of 8,000 x 8,000 is too large",
        ),
        (("-o", "x.svg", "--at", "end"), "--at does not apply to --what timeline"),
        (
            ("-o", "x.svg", "--what", "steps", "--by", "line"),
            "--by does not apply to --what steps",
        ),
        (("-o", "x.svg", "--what", "layers", "--axis", "time"), "--axis does not apply"),
        (("-o", "x.svg", "--what", "layer"), "did you mean layers?"),
        (
            ("-o", "x.svg", "--what", "ranks"),
            "compares the recordings of several ranks; got 1 file",
        ),
        (("-o", "x.svg", "--what", "layers"), "has no layers; plimsoll run"),
        (("-o", "x.svg", "--what", "steps"), "no steps are marked on cuda:0"),
        (("-o", "x.svg", "--axis", "step"), "mark steps with plimsoll.step()"),
        (("-o", "x.svg", "--device", "cuda:7"), "cuda:7"),
    ],
)
def test_what_has_no_meaning_or_no_data_is_refused(plimsoll, planted, tmp_path, words, complaint):
    complains(plimsoll("plot", planted, *words, cwd=tmp_path), 2, complaint)
    assert not list(tmp_path.iterdir())


def test_several_files_are_for_ranks(plimsoll, planted, healthy, tmp_path):
    place = tmp_path / "x.svg"
    complains(
        plimsoll("plot", planted, healthy, "-o", place), 2, "plots one recording; got 2 files"
    )
    outcome = plimsoll("plot", planted, healthy, "--what", "ranks", "-o", place)
    complains(outcome, 2, "the rank of the process is unknown")


def test_a_native_recording_has_every_chart(plimsoll, tmp_path):
    for what in ("timeline", "layers", "steps"):
        place = tmp_path / f"{what}.svg"
        outcome = plimsoll("plot", NATIVE, "--what", what, "-o", place)
        assert outcome.status == 0, outcome.err
        assert "cuda:0" in texts(place, "title")[0] or "cpu" in texts(place, "title")[0]


def test_two_runs_write_the_same_bytes(plimsoll, planted, tmp_path):
    for name in ("a.png", "b.png"):
        assert plimsoll("plot", planted, "-o", tmp_path / name).status == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_file_that_cannot_be_read_leaves_nothing(plimsoll, tmp_path):
    (tmp_path / "garbage").write_bytes(b"not a recording")
    complains(plimsoll("plot", "garbage", "-o", "x.svg", cwd=tmp_path), 3, "garbage")
    assert [path.name for path in tmp_path.iterdir()] == ["garbage"]
