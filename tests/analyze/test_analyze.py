"""`plimsoll analyze`: what it prints, word for word, and how it fails.

Each .txt file here is the answer to the log of that name in made_logs.py.
`pytest tests/analyze --bless` writes them anew: read the difference before you commit it.
"""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from . import made_logs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture
def analyze(plimsoll_command, tmp_path):
    def run(*words):
        return subprocess.run(
            [plimsoll_command, "analyze", *words],
            cwd=tmp_path,
            env=dict(os.environ, NO_COLOR="1"),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    return run


def complains(ran, status, *words):
    assert ran.returncode == status, ran
    assert ran.stdout == ""
    assert ran.stderr.startswith("plimsoll: ")
    assert ran.stderr.count("\n") == 1
    for word in words:
        assert word in ran.stderr


@pytest.mark.parametrize("name", made_logs.RECIPES)
def test_golden(name, analyze, tmp_path, request):
    (tmp_path / f"{name}.log").write_text(made_logs.RECIPES[name]())
    ran = analyze(f"{name}.log")
    assert (ran.returncode, ran.stderr) == (0, "")
    golden = HERE / f"{name}.txt"
    if request.config.getoption("--bless"):
        golden.write_text(ran.stdout, encoding="utf-8")
    assert ran.stdout == golden.read_text(encoding="utf-8")
    assert max(map(len, ran.stdout.splitlines())) <= 100


def test_json_is_as_its_schema_says(analyze, plimsoll_command, tmp_path):
    schema = json.loads((ROOT / "docs/analyze.schema.json").read_text())
    printed = subprocess.run(
        [plimsoll_command, "schema", "analyze"], capture_output=True, check=True
    )
    assert json.loads(printed.stdout) == schema
    for name, make in made_logs.RECIPES.items():
        (tmp_path / name).write_text(make())
        summary = json.loads(analyze(name, "--json").stdout)
        jsonschema.validate(summary, schema)
    (tmp_path / "leak").write_text(made_logs.leak())
    summary = json.loads(analyze("leak", "--json").stdout)
    assert summary["source"]["snapshots"] == 16
    assert (summary["first_iteration"], summary["last_iteration"]) == (0, 1500)
    (finding,) = summary["findings"]
    assert finding["id"] == "activations_stay"
    cuda = summary["devices"][1]
    assert cuda["device"] == "cuda:0"
    assert sum(share["end_share"] for share in cuda["categories"]) == pytest.approx(1)


def test_latest_is_the_newest_log(analyze, tmp_path):
    complains(analyze("latest"), 3, "profiles/tensor_profile_*.log")
    complains(analyze(), 3, "profiles/tensor_profile_*.log")
    folder = tmp_path / "runs/7/profiles"
    folder.mkdir(parents=True)
    for age, name in enumerate(["healthy", "leak"]):
        path = folder / f"tensor_profile_{name}.log"
        path.write_text(made_logs.RECIPES[name]())
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert "tensor_profile_healthy.log" in analyze("latest", "--dir", "runs/7").stdout
    os.utime(folder / "tensor_profile_leak.log")
    assert "tensor_profile_leak.log" in analyze("--dir", "runs/7").stdout


def test_a_finding_may_fail_the_command(analyze, tmp_path):
    (tmp_path / "leak").write_text(made_logs.leak())
    assert analyze("leak", "--fail-on", "warning").returncode == 1
    assert analyze("leak", "--fail-on", "activations_stay").returncode == 1
    assert analyze("leak", "--fail-on", "critical,fragmentation").returncode == 0
    complains(analyze("leak", "--fail-on", "leaks"), 2, "--fail-on")
    complains(analyze("leak", "--top", "0"), 2, "--top")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is empty"]),
        (b"\x80\x02}q\x00." * 1000, ["neither a text log"]),
        (b"epoch 1 loss 0.5\n" * 5000, ["neither a text log"]),
        (b"x" * 5_000_000, ["neither a text log"]),
        (made_logs.HEADER.encode(), ["no whole snapshot"]),
        (b"# Plimsoll tensor profile, format 2.\n\n=== Iteration 1 ===\n\n", ["format 2", "later"]),
        (b"+---+\n| NVIDIA-SMI 580.126.09 |\n", ["tables of nvidia-smi", "--query-gpu"]),
        (b"timestamp, utilization.gpu [%]\n2026/04/25 16:06:06, 5 %\n", ["memory in use"]),
    ],
)
def test_what_is_no_log_is_one_sentence(analyze, tmp_path, content, words):
    (tmp_path / "other").write_bytes(content)
    complains(analyze("other"), 3, "other", *words)


def test_a_file_that_cannot_be_read_is_one_sentence(analyze, tmp_path):
    complains(analyze("missing"), 3, "cannot read missing")
    complains(analyze(str(tmp_path)), 3, "Is a directory")


def test_utf_16_is_read_as_well(analyze, tmp_path):
    for name in ("leak", "nvidia_smi"):
        text = made_logs.RECIPES[name]()
        (tmp_path / "a.log").write_text(text)
        plain = analyze("a.log").stdout
        for encoding in ("utf-16-le", "utf-16-be"):
            (tmp_path / "a.log").write_bytes(("\ufeff" + text).encode(encoding))
            assert analyze("a.log").stdout == plain


@pytest.mark.parametrize(
    ("name", "devices", "rounds"), [("nvidia_smi.csv", 8, 6), ("nvidia_smi_gpu_log.csv", 1, 1923)]
)
def test_real_logs_of_nvidia_smi(analyze, samples, name, devices, rounds):
    summary = json.loads(analyze(str(samples / "logs" / name), "--json").stdout)
    assert len(summary["devices"]) == devices
    assert summary["source"]["snapshots"] == rounds
    assert summary["source"]["unread_lines"] == 0
    for device in summary["devices"]:
        (used,) = [figure for figure in device["figures"] if figure["name"] == "used_bytes"]
        assert used["most"] <= device["total_bytes"]
