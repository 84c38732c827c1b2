"""A page does not grow with its recording: here, 8 million events and 1 GB."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.page.contract import assert_self_contained, columns_of, parsed, rows_of
from tests.page.pages import MOST_BYTES, held, make_page

pytestmark = pytest.mark.slow


def cost_of(*words: str) -> tuple[float, int]:
    """The CPU time of a command in seconds, and its peak resident memory in bytes."""
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10


def test_a_page_of_8_million_events_is_small_and_exact(
    plimsoll_command, snapshot_generator, tmp_path
):
    recording, path = tmp_path / "large.pickle", tmp_path / "page.html"
    subprocess.run([snapshot_generator, "training", recording], check=True)
    made = make_page(plimsoll_command, [recording], path)
    assert made.report["source"]["events"] == 8_000_000
    assert path.stat().st_size < MOST_BYTES
    root = parsed(made.text)
    assert_self_contained(root)
    (article,) = root.all("article")
    device = article.attributes["data-device"]
    assert max(columns_of(article)) == held(made.device(device))["peak_bytes"]
    assert sum(rows_of(article, "line").values()) == made.point(device)["live_bytes"]

    # Memory is the same on every machine. Times are only printed.
    text_seconds, text_bytes = cost_of(plimsoll_command, "report", str(recording))
    page_seconds, page_bytes = cost_of(
        *(plimsoll_command, "report", str(recording), "--html", str(path), "--force")
    )
    size = recording.stat().st_size
    print(f"text {text_seconds:.1f} s, {text_bytes / size:.2f} of the file")
    print(f"page {page_seconds:.1f} s, {page_bytes / size:.2f} of the file")
    assert page_bytes <= size
