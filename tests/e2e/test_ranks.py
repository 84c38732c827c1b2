"""The ranks of a distributed run, each a separate process, side by side."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.slow

# Rank 2 keeps what it collects; the other ranks are equal.
RANK = """
import os, sys, torch, plimsoll
torch.set_num_threads(1)
with plimsoll.record(sys.argv[1]):
    net = torch.nn.Linear(1024, 1024)
    kept = []
    for _ in range(3):
        out = net(torch.randn(256, 1024))
        if os.environ["RANK"] == "2":
            kept.append(out)
        out.sum().backward()
        plimsoll.step()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")

    def record(rank: int) -> str:
        path = str(folder / f"run-rank{rank}.plim")
        environment = os.environ | {"RANK": str(rank), "WORLD_SIZE": "4"}
        words = [sys.executable, "-c", RANK, path]
        subprocess.run(words, check=True, env=environment, capture_output=True)
        return path

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(record, range(4)))


def test_ranks_are_compared_and_the_outlier_is_reported_in_full(plimsoll, ranks):
    outcome = plimsoll("report", *ranks)
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("== 4 ranks ==\n\nWARNING Rank 2 peaks at ")
    assert "The largest difference is in activation" in outcome.out
    assert f"== {ranks[2]} ==" in outcome.out
    assert f"== {ranks[0]} ==" not in outcome.out
    assert all(f"run-rank{rank}.plim" in outcome.out for rank in range(4))


@pytest.mark.parametrize("what", ["warning", "ranks_differ"])
def test_fail_on_applies_to_findings_that_compare_ranks(plimsoll, ranks, what):
    assert plimsoll("report", "--fail-on", what, *ranks).status == 1
    assert plimsoll("report", "--fail-on", what, ranks[0], ranks[1]).status == 0


def test_the_peak_is_not_reported_if_another_point_in_time_is_requested(plimsoll, ranks):
    outcome = plimsoll("report", "--at", "end", *ranks)
    assert "Rank 2 peaks at" in outcome.out
    assert "The largest difference" not in outcome.out


def test_json_reports_each_ranks_number(plimsoll, ranks):
    reports = json.loads(plimsoll("report", "--json", *ranks[:2]).out)
    assert [report["source"]["rank"] for report in reports] == [0, 1]


def test_files_of_the_same_rank_are_answered_one_after_the_other(plimsoll, ranks):
    outcome = plimsoll("report", ranks[0], ranks[0])
    assert outcome.out.count(f"== {ranks[0]} ==") == 2
    assert "ranks ==" not in outcome.out


def test_an_unreadable_rank_does_not_stop_the_comparison_of_the_others(plimsoll, ranks, tmp_path):
    missing = str(tmp_path / "run-rank9.plim")
    outcome = plimsoll("report", *ranks, missing)
    assert outcome.status == 3
    assert "run-rank9.plim" in outcome.err
    assert outcome.out.startswith("== 4 ranks ==")
