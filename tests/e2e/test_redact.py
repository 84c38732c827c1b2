"""plimsoll export --redact: what it removes, and what it keeps."""

import json
import os
import re
import sys
from datetime import datetime, timezone

import pytest

from .running import complains

SECRETS = (
    *("acme", "Acme", "zebra", "kiwi", "walrus", "mango", "customer", "otter", "papaya"),
    "home",
)
TRAIN = """
import sys
import torch
import plimsoll
from kiwi_layers import MangoBlock

class ZebraNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.walrus_stack = torch.nn.ModuleList(MangoBlock() for _ in range(3))
        self.papaya = torch.nn.Parameter(torch.zeros(7))
    def forward(self, x):
        for block in self.walrus_stack:
            x = block(x)
        return x.mean() + self.papaya.sum()

def otter_step(kept):
    net = ZebraNet()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(20):
        with plimsoll.region("for the customer"):
            loss = net(torch.randn(64, 32))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(net(torch.randn(64, 32)))

otter_step([])
"""
LAYERS = """
import torch

class MangoBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mango_in = torch.nn.Linear(32, 256)
        self.mango_out = torch.nn.Linear(256, 32)
    def forward(self, x):
        return self.mango_out(torch.relu(self.mango_in(x)))
"""


@pytest.fixture(scope="module")
def recording(plimsoll, tmp_path_factory):
    folder = tmp_path_factory.mktemp("home") / "acme" / "zebra project"
    folder.mkdir(parents=True)
    (folder / "train_zebra.py").write_text(TRAIN)
    (folder / "kiwi_layers.py").write_text(LAYERS)
    path = folder / "run.plim"
    words = ("run", "-o", path, folder / "train_zebra.py", "--for", "Acme customer")
    ran = plimsoll(*words, env={"PLIMSOLL_PYTHON": sys.executable}, timeout=600)
    assert ran.status == 0, ran
    return path


@pytest.fixture(scope="module")
def redacted(plimsoll, recording):
    path = recording.with_name("run.redacted.plim")
    outcome = plimsoll("export", recording, "--redact", cwd=recording.parent)
    assert outcome.status == 0, outcome
    assert outcome.out.startswith("run.redacted.plim (")
    return path


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_no_secret_is_in_the_file(plimsoll, recording, redacted):
    assert secrets_in(recording.read_bytes().decode("latin-1")) == list(SECRETS)
    assert secrets_in(redacted.read_bytes().decode("latin-1")) == []
    assert secrets_in(plimsoll("dump", redacted).out) == []
    assert recording.stat().st_mode & 0o777 == 0o600


def figures_of(rows: list[dict]) -> list[str]:
    """The rows without names, in an order that is independent of the names."""
    names = {"key", "line", "caller", "layer", "layers", "stack", "op", "operator"}
    kept = [{key: row[key] for key in row.keys() - names} for row in rows]
    return sorted(json.dumps(row, sort_keys=True) for row in kept)


def test_the_report_has_the_same_findings_and_bytes(plimsoll, recording, redacted):
    before, after = (
        json.loads(plimsoll("report", "--json", path).out) for path in (recording, redacted)
    )
    assert secrets_in(json.dumps(after["findings"]) + json.dumps(after["tables"])) == []
    assert before["findings"], "a recording without findings shows nothing"
    for key in ("id", "severity", "saving_bytes"):
        assert [f[key] for f in after["findings"]] == [f[key] for f in before["findings"]]
    sizes = [re.findall(r"[\d.]+ [KMG]?i?B", f["title"]) for f in before["findings"]]
    assert [re.findall(r"[\d.]+ [KMG]?i?B", f["title"]) for f in after["findings"]] == sizes
    assert after["devices"] == before["devices"]
    for name, rows in before["tables"].items():
        assert figures_of(after["tables"][name]) == figures_of(rows), name
    for name in ("by_category", "by_operator", "by_phase", "by_dtype"):
        assert after["tables"][name] == before["tables"][name]


def test_a_report_states_the_program_and_a_redacted_one_does_not(plimsoll, recording, redacted):
    before, after = (
        json.loads(plimsoll("report", "--json", path).out)["source"]
        for path in (recording, redacted)
    )
    assert "train_zebra.py" in before["command"]
    assert before["host"] == os.uname().nodename
    assert before["started_ns"] == after["started_ns"]
    assert after["torch"] == before["torch"]
    assert (after["command"], after["host"]) == ("redacted", "redacted")
    started = datetime.fromtimestamp(before["started_ns"] // 10**9, timezone.utc)
    last = plimsoll("report", recording).out.splitlines()[-1]
    assert last.endswith(
        f"torch {before['torch']} \u00b7 {os.uname().nodename} \u00b7 {started:%F %T} UTC"
    )


def test_names_stay_apart_and_readable(plimsoll, redacted):
    text = plimsoll("report", redacted, "--by", "layer,line").out
    assert re.search(r"file_\d\.py:\d+ \(name_\d+", text), text
    assert len(set(re.findall(r"name_\d+", text))) > 4


def test_only_native_recordings_are_redacted(plimsoll, planted, tmp_path):
    refused = plimsoll("export", planted, "--redact", cwd=tmp_path)
    complains(refused, 3, "only recordings of", "--to timeline-csv")
    assert list(tmp_path.iterdir()) == []


def test_usage_errors(plimsoll, recording):
    complains(plimsoll("export", recording), 2, "--to FORMAT", "--redact")
    complains(plimsoll("export", recording, "--redact", "--to", "collapsed"), 2, "--to")
    complains(plimsoll("export", recording, "--redact", "-o", recording), 2, "the recording itself")
