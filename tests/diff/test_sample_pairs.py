"""The first cause of the pairs of programs among the samples is the right one."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow

# The title, id and place of the first cause; None: there is no difference.
PAIRS = {
    "loss_in_one_piece": "Highest point of forward on cpu grew, new at model.py:96 (Decoder.loss)",
    "wider_but_fewer": "Peak on cpu grew, size_changed at train.py:14 (Expert.__init__)",
    "network_renamed": None,
}


@pytest.mark.parametrize("pair", PAIRS)
def test_first_cause_of_a_sample_pair(pair, samples, plimsoll_command, tmp_path):
    for side in ("before", "after"):
        shutil.copytree(samples / "diff" / pair / side, tmp_path / side)
        words = [plimsoll_command, "run", "-o", f"{side}.plim", f"{side}/train.py"]
        subprocess.run(words, cwd=tmp_path, check=True, timeout=300)
    words = [plimsoll_command, "diff", "before.plim", "after.plim", "--json"]
    out = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    result = json.loads(out.stdout)
    if PAIRS[pair] is None:
        assert result["findings"] == []
        return
    first = result["findings"][0]
    causes = [cause for point in result["points"] for cause in point["causes"]]
    cause = next(each for each in causes if each["title"] in first["evidence"][0])
    verdict = first["title"].split(" by ")[0]
    assert f"{verdict}, {cause['id']} at {cause['place'].split('/')[-1]}" == PAIRS[pair]
