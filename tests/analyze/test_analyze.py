"""`plimsoll analyze`: its exact output, and its errors.

Each .txt file here is the output for the log of the same name in generated_logs.py. `pytest
tests/analyze --bless` rewrites the files: read the difference before you commit it.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

from . import generated_logs

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
            timeout=120,
        )

    return run


def complains(ran, status, *words):
    assert ran.returncode == status, ran
    assert ran.stdout == ""
    assert ran.stderr.startswith("plimsoll: ")
    assert ran.stderr.count("\n") == 1
    for word in words:
        assert word in ran.stderr


@pytest.mark.parametrize("name", generated_logs.RECIPES)
def test_golden(name, analyze, tmp_path, request):
    (tmp_path / f"{name}.log").write_text(generated_logs.RECIPES[name]())
    ran = analyze(f"{name}.log")
    assert (ran.returncode, ran.stderr) == (0, "")
    golden = HERE / f"{name}.txt"
    if request.config.getoption("--bless"):
        golden.write_text(ran.stdout, encoding="utf-8")
    assert ran.stdout == golden.read_text(encoding="utf-8")
    assert max(map(len, ran.stdout.splitlines())) <= 100


def test_json_matches_its_schema(analyze, plimsoll_command, tmp_path):
    schema = json.loads((ROOT / "docs/analyze.schema.json").read_text())
    printed = subprocess.run(
        [plimsoll_command, "schema", "analyze"], capture_output=True, check=True
    )
    assert json.loads(printed.stdout) == schema
    for name, make in generated_logs.RECIPES.items():
        (tmp_path / name).write_text(make())
        summary = json.loads(analyze(name, "--json").stdout)
        jsonschema.validate(summary, schema)
    (tmp_path / "leak").write_text(generated_logs.leak())
    summary = json.loads(analyze("leak", "--json").stdout)
    assert summary["source"]["snapshots"] == 20
    assert (summary["first_iteration"], summary["last_iteration"]) == (0, 1900)
    (finding,) = summary["findings"]
    assert finding["id"] == "activations_stay"
    cuda = summary["devices"][1]
    assert cuda["device"] == "cuda:0"
    assert sum(share["end_share"] for share in cuda["categories"]) == pytest.approx(1)


def test_the_last_of_several_runs_is_summarized(analyze, tmp_path):
    leak, healthy = generated_logs.leak(), generated_logs.healthy()
    for name, joined in {
        "header": leak + healthy,
        "iterations": leak + without_header(healthy),
    }.items():
        (tmp_path / "healthy.log").write_text(healthy)
        (tmp_path / f"{name}.log").write_text(joined)
        alone = json.loads(analyze("healthy.log", "--json").stdout)
        last = json.loads(analyze(f"{name}.log", "--json").stdout)
        assert (alone["source"].pop("runs"), last["source"].pop("runs")) == (1, 2)
        for summary in (alone, last):
            summary["source"] |= {"path": "", "bytes": 0}
        assert last == alone
        text = analyze(f"{name}.log").stdout
        assert text.startswith("This log has 2 runs; the last one is summarized.\n\n")


def without_header(log):
    return "".join(line for line in log.splitlines(keepends=True) if not line.startswith("#"))


def test_a_log_without_readable_figures_of_a_device_is_an_error(analyze, tmp_path):
    (tmp_path / "comma.log").write_text(without_header(generated_logs.leak()).replace(".", ","))
    complains(analyze("comma.log"), 3, "the first unrecognized line is 4,", "Device: NAME")


def test_a_log_without_devices_is_summarized_by_what_it_has(analyze, tmp_path):
    log = without_header(generated_logs.leak()).lstrip().replace("Device: cuda:0\n", "")
    (tmp_path / "part.log").write_text(log)
    ran = analyze("part.log")
    assert "Activations on the device keep growing" in ran.stdout
    assert "What fills the device at the end" in ran.stdout
    assert "unrecognized" not in ran.stdout
    lines = [f"step {i}: GPU {20 + 10 * i}.0 MB, CPU 1645.1 MB, loss=0.5\n" for i in range(30)]
    (tmp_path / "train.txt").write_text("".join(lines))
    summary = json.loads(analyze("train.txt", "--json").stdout)
    assert summary["source"]["format"] == "printed_log"
    assert (summary["first_iteration"], summary["last_iteration"]) == (0, 29)
    assert [finding["id"] for finding in summary["findings"]] == ["memory_growth"]


OUT_OF_MEMORY = """\
Traceback (most recent call last):
  File "train.py", line 30, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity \
of 8.00 GiB of which 1.00 GiB is free.
"""


def printed(form, growth=0):
    """What a loop prints in 30 steps; `form` has the fields i and mb."""
    return "".join(form.format(i=i, mb=100.0 + growth * i) for i in range(30))


@pytest.mark.parametrize(
    "form",
    [
        "step {i}: GPU {mb} MB allocated\n",
        "[utils.py:786:see_memory_usage] MA {i} GB Max_MA 2 GB CA 3 GB Max_CA 3 GB\n",
        "=== Iteration {i} ===\nAllocated: {mb} MB\n\n",
    ],
)
def test_a_message_in_a_printed_log_is_first(form, analyze, tmp_path):
    (tmp_path / "train.log").write_text(printed(form, growth=20) + OUT_OF_MEMORY)
    first = json.loads(analyze("train.log", "--json").stdout)["findings"][0]
    assert (first["id"], first["device"]) == ("out_of_memory", "cuda:1")
    assert "2.0 GiB" in first["title"]
    assert any("train.py:30" in line for line in first["evidence"])
    assert analyze("train.log").stdout.startswith("CRITICAL cuda:1 ran out of memory")
    assert analyze("train.log", "--fail-on", "critical").returncode == 1


def test_a_log_with_only_a_message_has_its_finding(analyze, tmp_path):
    (tmp_path / "train.log").write_text("step 1: loss 0.5\n" + OUT_OF_MEMORY)
    summary = json.loads(analyze("train.log", "--json").stdout)
    assert summary["source"]["format"] == "messages"
    assert [each["id"] for each in summary["findings"]] == ["out_of_memory"]
    (tmp_path / "prose.log").write_text("See the docs: CUDA out of memory. Tried to allocate.\n")
    assert analyze("prose.log").returncode == 3


def test_a_quotation_in_a_printed_log_is_no_finding(analyze, tmp_path):
    prose = "See the docs: CUDA out of memory. Tried to allocate 2.00 GiB, OOMKilled.\n"
    (tmp_path / "train.log").write_text(prose + printed("step {i}: GPU {mb} MB\n"))
    assert json.loads(analyze("train.log", "--json").stdout)["findings"] == []


@pytest.mark.parametrize("tag", ["[rank{}]: ", "{}: ", "[default{}]:", "[1,{}]<stdout>:"])
def test_ranks_that_print_into_one_log_are_devices(tag, analyze, tmp_path):
    lines = [
        f"{tag.format(rank)}step {i}: GPU {100 + rank * (50 + 10 * i)}.0 MB\n"
        for i in range(30)
        for rank in range(2)
    ]
    (tmp_path / "train.log").write_text("".join(lines))
    summary = json.loads(analyze("train.log", "--json").stdout)
    assert [each["device"] for each in summary["devices"]] == ["rank 0", "rank 1"]
    assert [each["snapshots"] for each in summary["devices"]] == [30, 30]
    (finding,) = summary["findings"]
    assert (finding["id"], finding["device"]) == ("memory_growth", "rank 1")


def test_one_unit_for_all_sizes(analyze, tmp_path):
    for name, make in generated_logs.RECIPES.items():
        (tmp_path / "a.log").write_text(make())
        assert " MB" not in analyze("a.log").stdout, name


def test_growth_blames_nothing_that_a_log_does_not_know(analyze, tmp_path):
    (tmp_path / "a.log").write_text(generated_logs.leak())
    (finding,) = json.loads(analyze("a.log", "--json").stdout)["findings"]
    assert finding["next_step"].startswith("Record some iterations with plimsoll run")
    assert "graph" not in json.dumps(finding)


def write_log(path, recipe, age=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(generated_logs.RECIPES[recipe]())
    os.utime(path, (1_000_000 - age, 1_000_000 - age))


def test_what_a_log_of_another_tool_lacks_is_not_shown_as_0(analyze, tmp_path):
    snapshot = (
        "Iteration {}\nMemory Allocated: 8073.4 MB\nTotal Tensors: 1267\nTensor Categories:\n"
        "  parameters : 5224.7 MB ( 64.1%)\n  activations : 2860.4 MB ( 35.1%)\n"
        "Large Tensors (>100MB): 7\n\n"
    )
    log = tmp_path / "old.log"
    log.write_text("".join(snapshot.format(50 * i) for i in range(1, 25)))
    ran = analyze(log)
    assert ran.returncode == 0
    assert re.search(r"^ +large tensors +7 ", ran.stdout, re.MULTILINE)
    assert "used by large ones" not in ran.stdout
    assert re.search(r"^ +bytes +share +at the start +category$", ran.stdout, re.MULTILINE)
    assert not re.search(r"\b0 B\b", ran.stdout)


def test_latest_is_the_newest_log_below_the_project(analyze, tmp_path):
    complains(analyze("latest"), 3, "profiles/tensor_profile_*.log")
    complains(analyze(), 3, "profiles/tensor_profile_*.log")
    write_log(tmp_path / "output/ship/profiles/tensor_profile_healthy.log", "healthy", 1)
    write_log(tmp_path / "output/sea/profiles/tensor_profile_leak.log", "leak", 2)
    (tmp_path / "output/loop").symlink_to(tmp_path)
    for words in (["latest"], [], ["--dir", "output"], ["output/ship"], ["latest", "--top", "3"]):
        ran = analyze(*words)
        assert "tensor_profile_healthy.log" in ran.stdout, words
        assert ran.stderr == ""
    assert "tensor_profile_leak.log" in analyze("latest", "--dir", "output/sea/profiles").stdout
    os.utime(tmp_path / "output/sea/profiles/tensor_profile_leak.log")
    assert "tensor_profile_leak.log" in analyze("latest").stdout


def test_the_summary_has_the_form_that_profiler_users_know(analyze, tmp_path):
    (tmp_path / "a.log").write_text(generated_logs.healthy())
    block = analyze("a.log").stdout.split("=" * 80)[2]
    for line in (
        "Iteration Range: 0 - 1900",
        "Total Snapshots: 20",
        "Memory Allocated:         Start: 8073.4 MiB  \u2192  End: 8273.4 MiB",
        "Memory Reserved:          Start: 10000.0 MiB  \u2192  End: 10200.0 MiB",
        "Fragmentation:            Start: 19.3%  \u2192  End: 18.9%",
        "Total Tensors:            Start: 40  \u2192  End: 40",
        "Tensor Categories (at end):",
        "  activations    :   4200.0 MiB  ( 51.2%)",
        "  optimizer_state:    500.0 MiB  (  6.1%)",
        "Data Types (at end):",
        "  float32        :   6200.0 MiB  ( 75.6%)",
        "Large Tensors (>100 MiB): 2",
    ):
        assert f"\n{line}\n" in block


def test_a_line_of_large_tensors_that_cannot_be_read_is_left_out(analyze, tmp_path):
    text = generated_logs.healthy()
    assert "each at least 100.0 MB" in text
    (tmp_path / "a.log").write_text(text.replace("each at least 100.0 MB", "each at least ?"))
    assert "Large Tensors" not in analyze("a.log").stdout


@pytest.mark.parametrize(
    ("percent", "severity", "word"),
    [(25, None, ""), (35, "info", "is moderate: 34.0%"), (45, "warning", "45.0%")],
)
def test_fragmentation_is_judged_by_its_percentage(analyze, tmp_path, percent, severity, word):
    (tmp_path / "a.log").write_text(generated_logs.fragmented(percent))
    findings = json.loads(analyze("a.log", "--json").stdout)["findings"]
    if severity is None:
        assert findings == []
        return
    (finding,) = findings
    assert (finding["id"], finding["severity"]) == ("fragmentation", severity)
    assert word in finding["title"]
    said = " ".join(analyze("a.log").stdout.split())
    assert "torch.cuda.empty_cache() does not fix it" in said
    assert "expandable_segments:True" in said
    assert analyze("a.log", "--fail-on", "warning").returncode == (severity == "warning")


def test_a_cache_that_the_peak_needs_is_no_fragmentation(analyze, tmp_path):
    """Samples right after backward: the activations are freed, and the next step needs them."""
    text = generated_logs.fragmented(95).replace("Peak: 60.0 MB", "Peak: 980.0 MB")
    assert "Peak: 980.0 MB" in text
    (tmp_path / "a.log").write_text(text)
    assert json.loads(analyze("a.log", "--json").stdout)["findings"] == []
    assert "Fragmentation:            Start: 95.0%" in analyze("a.log").stdout
    assert analyze("a.log", "--fail-on", "warning").returncode == 0


def test_two_runs_are_compared_side_by_side(analyze, tmp_path):
    write_log(tmp_path / "out/good/profiles/tensor_profile_1.log", "healthy")
    write_log(tmp_path / "out/bad/profiles/tensor_profile_1.log", "leak")
    ran = analyze("out/good", "out/bad/profiles/tensor_profile_1.log")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = " ".join(ran.stdout.split())
    verdict = "bad uses 1.6 GiB more than good at the highest sample: 9.7 GiB, not 8.2 GiB."
    assert said.startswith(verdict)
    assert "category activation differs most: +1.7 GiB (+40.5%)" in said
    assert "warning: Activations on cuda:0 keep growing" in said
    assert max(map(len, ran.stdout.splitlines())) <= 100
    assert analyze("out/good", "out/bad", "--fail-on", "activations_stay").returncode == 1


def test_ranks_are_compared_and_the_odd_one_is_named(analyze, plimsoll_command, tmp_path):
    for rank in range(6):
        place = f"out/run/rank{rank}/profiles/tensor_profile_1.log"
        write_log(tmp_path / place, "leak" if rank == 4 else "healthy")
    for words in (["latest"], ["out/run"], ["out/run/rank0", "out/run/rank1", "out/run/rank4"]):
        ran = analyze(*words)
        assert ran.stdout.startswith("rank4 is the outlier: "), ran
    ran = analyze("latest", "--json")
    comparison = json.loads(ran.stdout)
    schema = json.loads((ROOT / "docs/analyze-comparison.schema.json").read_text())
    printed = subprocess.run(
        [plimsoll_command, "schema", "comparison"], capture_output=True, check=True
    )
    assert json.loads(printed.stdout) == schema
    jsonschema.validate(comparison, schema)
    assert comparison["outlier"] == 4
    assert [run["label"] for run in comparison["runs"]] == [f"rank{rank}" for rank in range(6)]
    (most,) = [
        figure
        for figure in comparison["figures"]
        if (figure["name"], figure["at"]) == ("allocated_bytes", "max")
    ]
    assert most["outlier"] == 4
    assert most["values"][4] == pytest.approx(9973.4 * 2**20, rel=1e-6)


def test_a_log_that_cannot_be_compared_is_reported(analyze, tmp_path):
    write_log(tmp_path / "a.log", "healthy")
    (tmp_path / "b.log").write_text("")
    ran = analyze("a.log", "b.log", "a.log")
    assert ran.returncode == 3
    assert ran.stderr == "plimsoll: b.log is empty\n"
    assert "not compared: b.log is empty" in ran.stdout
    assert analyze("b.log", "c.log").stdout == ""


def test_a_finding_may_fail_the_command(analyze, tmp_path):
    (tmp_path / "leak").write_text(generated_logs.leak())
    assert analyze("leak", "--fail-on", "warning").returncode == 1
    assert analyze("leak", "--fail-on", "activations_stay").returncode == 1
    assert analyze("leak", "--fail-on", "critical,fragmentation").returncode == 0
    complains(analyze("leak", "--fail-on", "leaks"), 2, "--fail-on")
    complains(analyze("leak", "--top", "0"), 2, "--top")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is empty"]),
        (b"\x80\x02}q\x00." * 1000, ["no text log"]),
        (b"epoch 1 loss 0.5\n" * 5000, ["no text log"]),
        (b"x" * 5_000_000, ["no text log"]),
        (generated_logs.HEADER.encode(), ["holds no complete sample"]),
        (
            b"=== Iteration 5 ===\nAllocated: 5,0 MB\n\n" * 201,
            ["201 of 201 lines with figures of devices cannot be read"],
        ),
        (b"# Plimsoll tensor profile, format 2.\n\n=== Iteration 1 ===\n\n", ["format 2", "later"]),
        (b"+---+\n| NVIDIA-SMI 580.126.09 |\n", ["tables of nvidia-smi", "--query-gpu"]),
        (b"timestamp, utilization.gpu [%]\n2026/04/25 16:06:06, 5 %\n", ["memory in use"]),
    ],
)
def test_a_file_that_is_not_a_log_gives_one_sentence(analyze, tmp_path, content, words):
    (tmp_path / "other").write_bytes(content)
    complains(analyze("other"), 3, "other", *words)


def test_the_components_of_a_log_are_a_table(analyze, tmp_path):
    components = "Components: f_rest/optimizer_state 6.0 MB in 2, xyz/parameters 3.0 MB in 1\n"
    log = generated_logs.HEADER + generated_logs.snapshot(5, loss=0.5)
    (tmp_path / "run.log").write_text(log.replace("Large tensors:", components + "Large tensors:"))
    lines = analyze("run.log").stdout.splitlines()
    header = next(at for at, line in enumerate(lines) if line.endswith("component"))
    assert lines[header + 1].split()[:3] == ["6.0", "MiB", "0.1%"]
    assert [line.split()[-1] for line in lines[header + 1 : header + 3]] == [
        "f_rest/optimizer_state",
        "xyz/parameters",
    ]


def test_too_few_snapshots_to_judge_growth_are_noted_next_to_other_findings(analyze, tmp_path):
    snapshots = "".join(generated_logs.snapshot(i, loss=0.5) for i in range(2))
    failed = snapshots.replace("| loss 0.5", "| loss 0.5 | out of memory")
    note = "Judging growth takes 20 snapshots; this log has 2."
    (tmp_path / "run.log").write_text(generated_logs.HEADER + failed)
    text = analyze("run.log").stdout
    assert text.startswith("CRITICAL ")
    assert f"\n\n{note}\n" in text
    assert note not in analyze("run.log", "--json").stdout


def test_a_file_that_cannot_be_read_is_one_sentence(analyze, tmp_path):
    complains(analyze("missing"), 3, "cannot read missing")
    complains(analyze(str(tmp_path)), 3, "there is no text log")


def test_pipes_devices_and_huge_files_are_rejected(analyze, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    complains(analyze("pipe"), 3, "cannot read pipe: it is not a regular file")
    complains(analyze("/dev/zero"), 3, "not a regular file")
    with (tmp_path / "huge.log").open("w") as file:
        file.write(generated_logs.healthy())
        file.truncate(2**40)
    complains(analyze("huge.log"), 3, "huge.log has 1099511627776 bytes")


def test_utf_16_is_read_as_well(analyze, tmp_path):
    for name in ("leak", "nvidia_smi"):
        text = generated_logs.RECIPES[name]()
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
        assert used["max"] <= device["total_bytes"]
