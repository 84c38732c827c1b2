"""`plimsoll check` on digests: baselines, environments, ranks, errors and formats."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from tests.e2e.running import complains

HEAD = "Net.head/parameter=500"
MORE = "Net.head/parameter=500 Net.body/activation=200"


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_a_missing_budget_file_is_named(project):
    complains(project.check(), 3, "plimsoll.budgets.yaml: there is no such file")
    complains(project.check("other.yaml"), 3, "other.yaml")


def test_mistakes_in_the_file_are_usage_errors(project):
    project.budget("net:\n  recording: run.json\n  peek: 5\n")
    complains(project.check(), 2, "plimsoll.budgets.yaml:3:3: net: unknown key", "peak?")
    project.budget("net: {recording: run.json, peak: 5}\nnet: {recording: run.json, peak: 6}\n")
    complains(project.check(), 2, 'plimsoll.budgets.yaml:2:1: duplicate key "net"')


@pytest.mark.parametrize(
    "yaml",
    [b"\xff\xfe", b"a: [", b"a: " + b"[" * 5000, b"a: &a [*a, *a]", b"\0", b"a: b\n" * 20, b"a:\n"],
)
def test_malformed_files_give_a_one_line_error(project, yaml):
    (project.folder / "plimsoll.budgets.yaml").write_bytes(yaml)
    complains(project.check(), 2, "plimsoll.budgets.yaml")


def test_a_missing_recording_does_not_stop_the_check_of_other_budgets(project):
    project.write("run.json", HEAD)
    project.budget(
        "first: {recording: build/*.plim, peak: 5}\nsecond: {recording: run.json, peak: 5}\n"
    )
    outcome = project.check()
    assert outcome.status == 3
    assert "first: no file matches recording: build/*.plim" in outcome.err
    assert outcome.out.startswith("FAILED second: peak on cpu is 500 B")
    complains(project.check("--only", "first"), 3, "no file matches")
    assert project.check("--only", "second").status == 1
    complains(project.check("--only", "secnod"), 2, "did you mean second?")


def test_limits_that_do_not_fit_the_recording_are_errors(project, net):
    project.write("run.json", HEAD)
    complains(net('peak: {"cuda:0": 5}'), 2, "no device cuda:0, only cpu")
    complains(net('by_layer: {"*.attn": 5}'), 2, "no layer matches *.attn", "Net.head")
    complains(net("growth_per_step: 0"), 2, "needs a recording, not a digest")
    complains(net("findings: none"), 2, "needs a recording, not a digest")


def test_a_baseline_is_written_once_and_then_compared(project, net):
    project.write("run.json", HEAD)
    keys = "baseline: made/base.json, peak: 600"
    complains(net(keys), 3, "there is no baseline made/base.json yet", "check --update")
    outcome = net(keys, "--update")
    assert outcome.status == 0, outcome.err
    assert "UPDATED net: made/base.json is new" in outcome.out
    written = (project.folder / "made/base.json").read_bytes()
    assert json.loads(written)["source"]["threads"] == "1"
    again = net(keys, "--update")
    assert "UPDATED" not in again.out
    assert "made/base.json is unchanged" in again.err
    assert (project.folder / "made/base.json").read_bytes() == written
    assert net(keys).status == 0

    project.write("run.json", MORE)
    assert net(keys).status == 1
    outcome = net(keys, "--update")
    assert outcome.status == 1  # the limit is not raised
    assert outcome.out.startswith("FAILED net: peak on cpu is 700 B, 100 B over the limit")
    assert "Peak on cpu grew by 200 B (+40.0%), from 500 B to 700 B" in outcome.out
    assert [path.name for path in (project.folder / "made").iterdir()] == ["base.json"]


def test_memory_below_the_baseline_passes_with_a_reminder_to_update(project, net):
    project.write("base.json", MORE)
    project.write("run.json", HEAD)
    outcome = net("baseline: base.json")
    assert outcome.status == 0
    assert "INFO net: peak on cpu is 200 B below the baseline" in outcome.out
    assert "Run plimsoll check --update to keep the gain." in outcome.out
    assert "below" not in net("baseline: base.json, may_grow: 200").out


def test_another_environment_is_a_warning(project, net):
    project.write("base.json", HEAD, torch="2.12.0", threads="8", plimsoll="0.0.9")
    project.write("run.json", HEAD)
    outcome = net("baseline: base.json")
    assert outcome.status == 0
    for words in (
        "WARNING net: the baseline was recorded under other conditions",
        "The version of PyTorch differs: 2.12",
        "The version of Plimsoll differs: 0.0.9 before, 0.1.0 after.",
        "The number of threads differs: 8 before, 1 after.",
    ):
        assert words in unwrapped(outcome.out)


def test_a_baseline_of_an_earlier_version_is_read(project, net):
    old = json.loads(project.write("base.json", HEAD).read_text())
    del old["repeats"], old["source"]["threads"], old["source"]["mode"]
    (project.folder / "base.json").write_text(json.dumps(old | {"digest_version": "1.0"}))
    project.write("run.json", HEAD)
    outcome = net("baseline: base.json")
    assert outcome.status == 0, outcome.err
    assert "unknown before, 1 after" in unwrapped(outcome.out)


def test_unusable_baselines_are_errors(project, net):
    project.write("run.json", HEAD)
    (project.folder / "base.json").write_text("{}")
    complains(net("baseline: base.json"), 3, "base.json is not a digest")
    (project.folder / "base.json").write_text('{"digest_version": "1.1", "source":')
    complains(net("baseline: base.json"), 3, "base.json: not JSON at byte")
    outcome = net("baseline: base.json", "--update")
    assert outcome.status == 0
    assert "base.json replaces a damaged digest" in outcome.out
    project.write("base.json", "@cuda:0 Net.head/parameter=500")
    complains(net("baseline: base.json"), 2, "no device and point in common")
    project.write("base.json", HEAD, incomplete="1 x dropped_events: Events were lost")
    complains(net("baseline: base.json"), 3, "base.json is of an incomplete recording", "dropped")


@pytest.mark.parametrize("path", ["/dev/full", "run.json/base.json", "."])
def test_a_baseline_that_cannot_be_written_is_an_error(project, net, path):
    project.write("run.json", HEAD)
    outcome = net(f"baseline: {path}", "--update")
    complains(outcome, outcome.status, path)
    assert outcome.status in (2, 4)


def test_several_files_are_checked_as_ranks(project):
    for rank in range(2):
        project.write(f"rank{rank}.json", HEAD, rank=rank)
    project.budget("net: {recording: 'rank*.json', baseline: base.json, peak: 600}\n")
    assert project.check("--update").status == 0
    assert (project.folder / "base.rank1.json").exists()
    project.write("rank1.json", MORE, rank=1)
    outcome = project.check()
    assert outcome.status == 1
    assert outcome.out.startswith("FAILED net: rank 1: peak on cpu is 700 B")
    project.write("rank1.json", HEAD, rank=0)
    complains(project.check(), 2, "are of the same rank, 0")
    project.write("rank1.json", HEAD)
    complains(project.check(), 2, "rank1.json does not name its rank")


def test_paths_are_relative_to_the_budget_file(project):
    project.write("run.json", HEAD)
    project.budget("net: {recording: run.json, baseline: base.json}\n")
    outcome = project.plimsoll("check", "--update", project.folder / "plimsoll.budgets.yaml")
    assert outcome.status == 0, outcome.err
    assert (project.folder / "base.json").exists()


@pytest.fixture
def exceeded(project):
    project.write("base.json", HEAD)
    project.write("run.json", MORE)
    project.budget("net:\n  recording: run.json\n  peak: 600\n  baseline: base.json\n")
    return project


def test_json_follows_its_schema(exceeded):
    outcome = exceeded.check("--format", "json")
    assert outcome.status == 1
    result = json.loads(outcome.out)
    schema = json.loads(exceeded.plimsoll("schema", "check").out)
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(schema).validate(result)
    peak, baseline = result["budgets"][0]["limits"]
    assert (peak["bytes"], peak["limit_bytes"], peak["verdict"]) == (700, 600, "exceeded")
    assert (baseline["bytes"], baseline["limit_bytes"]) == (200, 0)
    assert baseline["findings"][0]["id"] == "peak_grew"
    assert baseline["point"] == "peak on cpu"


def test_markdown_names_the_cause_first(exceeded):
    out = exceeded.check("--format", "markdown").out
    assert out.startswith(
        "**FAILED net: peak on cpu is 700 B, 100 B over the limit of 600 B; +200 B"
    )
    assert out.endswith("<!-- plimsoll check -->\n")


def test_junit_has_a_case_for_each_limit(exceeded):
    suite = ElementTree.fromstring(exceeded.check("--format", "junit").out)[0]
    assert suite.attrib["tests"] == suite.attrib["failures"] == "2"
    assert [case.attrib["name"] for case in suite] == ["peak on cpu", "baseline"]
    failure = suite[1].find("failure")
    assert failure is not None
    assert "Net.body" in failure.attrib["message"]


def test_github_annotates_the_line_of_the_limit(exceeded):
    lines = exceeded.check("--format", "github").out.splitlines()
    assert lines[0].startswith(
        "::error file=plimsoll.budgets.yaml,line=3,title=plimsoll check::net:"
    )
    assert lines[1].startswith("::error file=plimsoll.budgets.yaml,line=4,")
    assert "%0A" in lines[0]


def test_output_writes_the_format_to_a_file_and_prints_the_text(exceeded):
    outcome = exceeded.check("--format", "markdown", "-o", "comment.md")
    assert outcome.status == 1
    assert outcome.out.startswith("FAILED net: ")
    assert (exceeded.folder / "comment.md").read_text().startswith("**FAILED net")
    outcome = exceeded.check("--format", "json", "-o", "plimsoll.budgets.yaml")
    assert outcome.status == 2
    outcome = exceeded.check("--format", "json", "-o", "/dev/full")
    assert outcome.status == 4


def test_repeat_accepts_only_numbers_from_1_to_1000(exceeded):
    for text in ("0", "-1", "x", "1001", ""):
        assert exceeded.check("--repeat", text).status == 2
