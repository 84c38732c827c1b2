"""plimsoll dump: the records of a trace file as text."""

import gzip
import re
from pathlib import Path

from .running import complains

PAGE = Path(__file__).resolve().parents[2] / "docs/format.md"


def documented(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return text


def test_the_documented_file_is_dumped_as_documented(plimsoll, tmp_path):
    trace = tmp_path / "example.plimsoll"
    trace.write_bytes(bytes.fromhex(documented("hex")))
    outcome = plimsoll("dump", trace)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == documented("dump")
    packed = tmp_path / "example.plimsoll.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert plimsoll("dump", packed).out == outcome.out


def test_a_cut_file_is_dumped_as_far_as_it_goes(plimsoll, tmp_path):
    trace = tmp_path / "cut.plimsoll"
    trace.write_bytes(bytes.fromhex(documented("hex"))[:-1])
    outcome = plimsoll("dump", trace)
    assert outcome.status == 0
    assert outcome.out.splitlines()[-1] == "cut bytes=30 events=0"


def test_a_file_that_is_not_a_trace_is_refused(plimsoll, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"PK" + bytes(100))
    complains(plimsoll("dump", other), 3, str(other), "not a trace file")
    complains(plimsoll("dump", tmp_path / "missing"), 3, "missing")


def test_the_report_of_the_documented_file_has_its_content(plimsoll, tmp_path):
    trace = tmp_path / "example.plimsoll"
    trace.write_bytes(bytes.fromhex(documented("hex")))
    outcome = plimsoll("report", trace, "--by", "category")
    assert outcome.status == 0
    assert "8.0 KiB" in outcome.out
    assert "activation" in outcome.out
    assert "temporary" in outcome.out
