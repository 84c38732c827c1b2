"""The findings: their exact text on generated snapshots, and their ids on real ones.

PLIMSOLL_BLESS=1 updates tests/golden/findings; read the difference before you commit it.
"""

import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden" / "findings"

# The findings of each preset, most severe first. A healthy run has none above info; an info finding
# states what fills the peak.
GENERATED = {
    "healthy": ["optimizer_state_dominates"],
    "training": [],
    "random-free": ["activations_dominate"],
    "planted": ["out_of_memory", "memory_growth"],
    "planted-jit": ["out_of_memory", "memory_growth"],
    "planted-2.11": ["out_of_memory", "memory_growth"],
    "oom-large": ["out_of_memory", "optimizer_state_dominates"],
    "oom-too-big": ["out_of_memory", "optimizer_state_dominates"],
    "oom-growth": ["out_of_memory", "memory_growth"],
    "churn": ["optimizer_state_dominates", "churn"],
    "settings-conflict": ["allocator_settings_conflict", "optimizer_state_dominates"],
    "empty": ["recording_was_empty"],
    "wrapped": ["history_truncated", "optimizer_state_dominates"],
    "wrapped-jit-2.11": ["history_truncated", "optimizer_state_dominates"],
}

CAUSES = {
    "planted": "fragmentation",
    "oom-large": "one_large_request",
    "oom-too-big": "too_big",
    "oom-growth": "steady_growth",
}

# Real files, each reviewed by hand; files that are not listed have no finding.
SAMPLES = {
    "by_hand_97_events.pickle": ["activations_dominate"],
    "cut_down_inconsistent.pickle": ["recording_incomplete"],
    "inductor.pickle": ["optimizer_state_dominates"],
    "medium_128_inference.pickle": ["unknown_memory"],
    "medium_512_training.pickle": ["activations_dominate"],
    "small_forward.pickle": ["activations_dominate"],
    "transformer_forward.pickle": ["graph_without_backward"],
    "transformer_step_bf16.pickle": ["activations_dominate"],
    "windows_paths.pickle": ["activations_dominate"],
    "xl_backward.pickle": ["optimizer_scratch", "optimizer_state_dominates"],
    "xl_forward_expandable.pickle": ["graph_without_backward"],
    "xl_full_step_4_devices.pickle": ["optimizer_state_dominates"],
    "attention_blocks_only.pickle": ["recording_was_empty"],
    "kv_cache_blocks_only.pickle": ["recording_was_empty"],
    "recording_never_enabled.pickle": ["recording_was_empty"],
    "torch_2_0_history_layout.pickle": ["recording_was_empty"],
    "two_gpus_expandable_no_trace.pickle": ["recording_was_empty", "allocator_settings_conflict"],
    "ring_wrapped.pickle": ["history_truncated"],
    "no_memory_events.json.gz": ["no_memory_events"],
}


@functools.cache
def report_of(command: str, path: Path) -> dict:
    done = subprocess.run(
        [command, "report", "--json", path], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def text_of_step(step: dict) -> str:
    bound = "≤ " if step["is_upper_bound"] else ""
    return f"{step['text']} (saves {bound}{step['saving_bytes']})"


def text_of(findings: list[dict]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding['severity']} {finding['id']}")
        lines.append(f"  {finding['title']}")
        lines += [f"  - {sentence}" for sentence in finding["evidence"]]
        lines += [f"  > {text_of_step(step)}" for step in finding["steps"]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", GENERATED)
def test_each_preset_has_the_findings_that_were_planted(name, generated, plimsoll_command):
    report = report_of(plimsoll_command, generated[name])
    assert [finding["id"] for finding in report["findings"]] == GENERATED[name]
    if name in CAUSES:
        assert [oom["cause"] for oom in report["devices"][0]["oom_details"]] == [CAUSES[name]]


@pytest.mark.parametrize(
    "name", [name for name, ids in GENERATED.items() if ids and "-2" not in name]
)
def test_findings_read_as_they_should(name, generated, plimsoll_command):
    text = text_of(report_of(plimsoll_command, generated[name])["findings"])
    page = GOLDEN / f"{name}.txt"
    if "PLIMSOLL_BLESS" in os.environ:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    assert text == page.read_text(encoding="utf-8")


SMALL = (
    "by_hand_97_events.pickle",
    "cut_down_inconsistent.pickle",
    "small_forward.pickle",
    "two_gpus_expandable_no_trace.pickle",
    "windows_paths.pickle",
)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_real_file_has_the_findings_that_its_reader_would_make(
    samples, plimsoll_command, name
):
    report = report_of(plimsoll_command, samples / "snapshots" / name)
    assert [finding["id"] for finding in report["findings"]] == SAMPLES[name]


@pytest.mark.slow
def test_real_files_have_the_findings_that_a_reader_of_them_would_make(samples, plimsoll_command):
    found = {}
    for path in sorted([*(samples / "snapshots").iterdir(), *(samples / "kineto").iterdir()]):
        if path.name == "memory_timeline.raw.json.gz":  # not a trace; refused
            continue
        ids = [finding["id"] for finding in report_of(plimsoll_command, path)["findings"]]
        if ids:
            found[path.name] = ids
    assert found == SAMPLES
