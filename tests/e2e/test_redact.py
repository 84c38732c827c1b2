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
    names = {"key", "line", "caller", "layer", "layers", "class", "stack", "op", "operator"}
    of_holders = {"name", "path", "type", "place", "other", "edit"}
    if rows and "depth" in rows[0]:
        names |= of_holders
    kept = [{key: row[key] for key in row.keys() - names} for row in rows]
    return sorted(json.dumps(row, sort_keys=True) for row in kept)


def sizes_in(text: str) -> list[str]:
    return re.findall(r"[\d.]+ [KMG]?i?B", text)


def test_the_report_has_the_same_findings_and_bytes(plimsoll, recording, redacted):
    before, after = (
        json.loads(plimsoll("report", "--json", path).out) for path in (recording, redacted)
    )
    assert secrets_in(json.dumps(after["findings"]) + json.dumps(after["tables"])) == []
    assert before["findings"], "a recording without findings shows nothing"
    for key in ("id", "severity", "saving_bytes"):
        assert [f[key] for f in after["findings"]] == [f[key] for f in before["findings"]]
    sizes = [sizes_in(f["title"]) for f in before["findings"]]
    assert [sizes_in(f["title"]) for f in after["findings"]] == sizes
    for device in before["devices"] + after["devices"]:
        if device.get("last_use"):
            device["last_use"]["text"] = sizes_in(device["last_use"]["text"])
            device["last_use"]["rows"] = figures_of(device["last_use"]["rows"])
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
    last = plimsoll("report", "--full", recording).out.splitlines()[-1]
    assert last.endswith(
        f"torch {before['torch']} \u00b7 {os.uname().nodename} \u00b7 {started:%F %T} UTC"
    )


def test_pseudonyms_are_distinct_and_readable(plimsoll, redacted):
    text = plimsoll("report", redacted, "--by", "layer,line").out
    assert re.search(r"file_\d\.py:\d+ \(name_\d+", text), text
    assert len(set(re.findall(r"name_\d+", text))) > 4


def test_a_snapshot_is_redacted_as_a_snapshot_with_the_same_findings(plimsoll, recording, tmp_path):
    snapshot = tmp_path / "run.pickle"
    assert plimsoll("export", recording, "--to", "snapshot", "-o", snapshot).status == 0
    assert set(secrets_in(snapshot.read_bytes().decode("latin-1"))) > {"zebra", "home"}
    outcome = plimsoll("export", snapshot, "--redact", cwd=tmp_path)
    assert outcome.status == 0, outcome
    redacted = tmp_path / "run.redacted.pickle"
    assert secrets_in(redacted.read_bytes().decode("latin-1")) == []
    before, after = (
        json.loads(plimsoll("report", "--json", path).out) for path in (snapshot, redacted)
    )
    assert before["findings"]
    for key in ("id", "severity", "saving_bytes"):
        assert [f[key] for f in after["findings"]] == [f[key] for f in before["findings"]]
    for device in before["devices"] + after["devices"]:
        if device.get("last_use"):
            device["last_use"]["text"] = sizes_in(device["last_use"]["text"])
            device["last_use"]["rows"] = figures_of(device["last_use"]["rows"])
    assert after["devices"] == before["devices"]
    for name, rows in before["tables"].items():
        assert figures_of(after["tables"][name]) == figures_of(rows), name


@pytest.mark.parametrize("form", ["json", "html", "speedscope", "collapsed", "notebook"])
def test_no_secret_is_in_an_exported_report(plimsoll, recording, tmp_path, form):
    out = tmp_path / "report"
    outcome = plimsoll("export", recording, "--redact", "--to", form, "-o", out)
    assert outcome.status == 0, outcome
    found = secrets_in(out.read_text())
    if form == "html":  # base64 has any four letters
        found = [secret for secret in found if len(secret) > 5]
    assert found == []


def test_a_private_file_keeps_the_names_and_decodes_a_reply(
    plimsoll, recording, redacted, tmp_path
):
    names = redacted.with_name("run.redacted.plim.names")
    assert names.stat().st_mode & 0o777 == 0o600
    lines = names.read_text().splitlines()
    assert lines[0].startswith("# plimsoll names 1")
    known = dict(line.split("\t", 1) for line in lines[1:])
    assert {"ZebraNet", "MangoBlock", "otter_step", "walrus_stack"} <= set(known.values())
    pseudonym = next(name for name, text in known.items() if text == "walrus_stack")
    reply = tmp_path / "reply.txt"
    reply.write_text(f"checkpoint {pseudonym}.0, not x{pseudonym}\n")
    expected = f"checkpoint walrus_stack.0, not x{pseudonym}\n"
    assert plimsoll("decode", names, reply).out == expected
    text = plimsoll("report", redacted, "--by", "layer").out
    assert "walrus_stack" not in text
    (tmp_path / "report.txt").write_text(text)
    assert "walrus_stack" in plimsoll("decode", names, tmp_path / "report.txt").out


def test_nothing_is_replaced_without_force(plimsoll, recording, tmp_path):
    words = ("export", recording, "--redact", "-o", tmp_path / "a.plim")
    (tmp_path / "a.plim.names").write_text("mine")
    complains(plimsoll(*words), 2, "a.plim.names exists", "--force")
    assert [each.name for each in tmp_path.iterdir()] == ["a.plim.names"]
    assert plimsoll(*words, "--force").status == 0
    assert (tmp_path / "a.plim.names").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_map_is_an_error(plimsoll, recording):
    complains(plimsoll("decode", recording), 3, "is not a file of names")
    complains(plimsoll("decode", recording.with_name("none")), 3, "cannot read")


def test_usage_errors(plimsoll, recording):
    complains(plimsoll("export", recording), 2, "--to FORMAT", "--redact")
    complains(plimsoll("export", recording, "--redact", "--at", "end"), 2, "leave out --at")
    complains(plimsoll("export", recording, "--redact", "-o", recording), 2, "the recording itself")
