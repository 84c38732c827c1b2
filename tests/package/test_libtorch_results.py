"""The results of plimsoll::MemoryTracer in C++: the same fields as in Python, correct figures."""

import json
import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

import plimsoll

STEPS = 3


def run(*words, **how) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **how)


@pytest.fixture(scope="module", params=["memory", "file"])
def results(request, libtorch_programs, tmp_path_factory) -> tuple[str, dict, Path]:
    """The program's output, timeline and folder, for both kinds of recording."""
    folder = tmp_path_factory.mktemp("results")
    path = "memory" if request.param == "memory" else folder / "run.plim"
    ran = run(libtorch_programs / "layers_program", path, f"results:{folder}")
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout, json.loads((folder / "timeline.json").read_text()), folder


def test_events_and_layers_have_the_fields_of_python(results):
    _, timeline, _ = results
    assert set(timeline) == {"events", "layer_stats", "summary"}
    event_fields = [field.name for field in fields(plimsoll.MemoryEvent)]
    layer_fields = [field.name for field in fields(plimsoll.LayerMemoryStats)]
    assert list(timeline["events"][0]) == event_fields
    assert list(timeline["layer_stats"]["Net.body.0"]) == layer_fields


def test_each_event_has_the_true_running_total(results):
    _, timeline, _ = results
    total = 0
    for event in timeline["events"]:
        total += event["size_bytes"] if event["event_type"] in ("alloc", "snapshot") else 0
        total -= event["size_bytes"] if event["event_type"] == "free" else 0
        assert event["allocated_bytes"] == event["reserved_bytes"] == total
    peak = max(event["allocated_bytes"] for event in timeline["events"])
    assert peak == timeline["summary"]["requested_active"]["peak_bytes"]


def calls_of(timeline: dict, layer: str) -> int:
    kinds = [(event["event_type"], event["layer_name"]) for event in timeline["events"]]
    entered = kinds.count(("layer_enter", layer))
    assert entered == kinds.count(("layer_exit", layer)) == timeline["layer_stats"][layer]["calls"]
    assert timeline["layer_stats"][layer]["duration_ms"] > 0
    return entered


def test_an_operator_of_parameters_is_a_call_of_their_layer(results):
    _, timeline, _ = results
    assert calls_of(timeline, "Net.body.0") == 2 * STEPS  # aten::t and aten::addmm
    assert calls_of(timeline, "Net.viewed") > STEPS  # operators of a product, a view and a sum
    types = [event["event_type"] for event in timeline["events"]]
    assert types.count("layer_enter") == types.count("layer_exit")


def test_a_scope_is_a_call_of_its_layer(libtorch_programs, tmp_path):
    ran = run(libtorch_programs / "layers_program", "memory", "scope", f"results:{tmp_path}")
    assert (ran.returncode, ran.stderr) == (0, "")
    timeline = json.loads((tmp_path / "timeline.json").read_text())
    assert calls_of(timeline, "Scope") == STEPS
    assert timeline["layer_stats"]["Scope"]["peak_allocated"] > 0


def test_a_file_gives_the_figures_that_python_reads(libtorch_programs, tmp_path):
    path = tmp_path / "run.plim"
    ran = run(libtorch_programs / "layers_program", path, f"results:{tmp_path}")
    assert (ran.returncode, ran.stderr) == (0, "")
    layers = json.loads((tmp_path / "timeline.json").read_text())["layer_stats"]
    rows = plimsoll.open(path, top=1000).tables["layers"]
    assert {row["layer"] or "[no layer]" for row in rows} == set(layers)
    for row in rows:
        stats, own, calls = layers[row["layer"] or "[no layer]"], row["own"], row["calls"]
        assert stats["peak_allocated"] == row["inclusive"]["peak_bytes"]
        assert stats["peak_reserved"] == calls["peak_reserved_bytes"]
        assert stats["total_allocations"] == calls["allocations"]
        assert stats["total_deallocations"] == calls["frees"]
        assert stats["avg_fragmentation"] == pytest.approx(calls["fragmentation_ratio"])
        assert stats["duration_ms"] == pytest.approx(calls["duration_ns"] / 1e6)
        assert stats["calls"] == calls["calls"]
        assert stats["live_bytes"] == own["bytes"]
        assert {name: stats[name] for name in own if name in stats} == {
            name: size for name, size in own.items() if name in stats
        }


def test_queries_and_exports_agree(results):
    printed, timeline, folder = results
    peaks = {name: int(peak) for name, peak in re.findall(r"^peak (.+) (\d+)$", printed, re.M)}
    layers = timeline["layer_stats"]
    assert peaks == {name: layer["peak_allocated"] for name, layer in layers.items()}
    assert printed.count("fragmentation ") == len(layers)
    assert re.search(rf"^events \d+ then {len(timeline['events'])}$", printed, re.M)
    assert printed.count("export done\n") == 2
    assert f"export {folder}/no/such/folder.json: cannot be written: " in printed
    assert re.search(r"^The same by layer;.*  Net\n.*    body\n", printed, re.M | re.S)
    flame = json.loads((folder / "flame.json").read_text())
    assert flame["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert flame["profiles"]
