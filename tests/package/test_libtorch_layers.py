"""Layers of a LibTorch model without PLIMSOLL_LAYER: from the parameters of its operators."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import plimsoll

STEPS, OUTPUT = 3, 4 * 32 * 64  # bytes of one activation of 32 rows, float32


def run(*words) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def allocated(path: Path) -> Counter:
    """Allocated bytes by layer and phase; the layer None means no layer."""
    events = plimsoll.open(path).events.to_pydict()
    nothing = [None] * len(events["action"])  # a column is left out if no event has a value
    columns = ("action", "is_adopted", "layer", "phase", "size_bytes", "category")
    rows = zip(*(events.get(column, nothing) for column in columns), strict=True)
    counts: Counter = Counter()
    for action, is_adopted, layer, phase, size, category in rows:
        is_state = category == "optimizer_state"  # it has the layer of its parameter
        if action == "alloc" and not is_adopted:
            counts[None if is_state else layer, phase] += size
    return counts


@pytest.fixture(scope="module")
def layers(libtorch_programs, tmp_path_factory):
    def record(*words) -> Counter:
        path = tmp_path_factory.mktemp("layers") / "run.plim"
        ran = run(libtorch_programs / "layers_program", path, *words)
        assert (ran.returncode, ran.stderr) == (0, "")
        return allocated(path)

    return record


@pytest.fixture(scope="module")
def traced(layers):
    return layers()


def forward(counts: Counter) -> dict:
    return {layer: size for (layer, phase), size in counts.items() if phase == "forward"}


def test_forward_memory_is_that_of_the_module_that_owns_the_parameters(traced):
    rows = forward(traced)
    # body.1 is a ReLU and owns nothing; body.3 is a BatchNorm that owns only buffers. The
    # embedding's matrix also belongs to the head, and `scale` to the model: these three belong to
    # the model.
    assert set(rows) == {None, "Net", "Net.body.0", "Net.body.2", "Net.body.3", "Net.viewed"}
    assert rows["Net.body.0"] == STEPS * 2 * OUTPUT
    assert rows["Net.body.2"] == STEPS * OUTPUT
    assert rows["Net.viewed"] == STEPS * 2 * OUTPUT  # a product with a view, and a sum
    assert rows["Net"] == STEPS * 3 * OUTPUT
    assert rows["Net.body.3"] > STEPS * OUTPUT


def test_backward_memory_has_the_layer_of_its_forward_operator(traced):
    for layer in ("Net", "Net.body.0", "Net.body.2", "Net.body.3", "Net.viewed"):
        assert traced[layer, "backward"] > 0, layer


def test_a_layer_that_the_program_opens_always_wins(layers):
    assert set(forward(layers("scope"))) == {"Scope"}


@pytest.mark.parametrize("words", [(), ("plain-step",)])
def test_an_optimizer_belongs_to_no_layer(layers, traced, words):
    # Weight decay runs an operator on a parameter and its gradient.
    rows = layers(*words)
    owned = {layer: size for layer, size in forward(traced).items() if layer}
    assert {layer: size for layer, size in forward(rows).items() if layer} == owned
    assert not any(layer for layer, phase in rows if phase in ("optimizer", "other"))


def test_lite_mode_finds_no_layers_in_forward(layers):
    assert set(forward(layers("lite"))) <= {None}


def test_recording_changes_no_result(libtorch_programs, tmp_path):
    program = libtorch_programs / "layers_program"
    plain = run(program)
    assert plain.returncode == 0
    assert run(program, tmp_path / "a.plim").stdout == plain.stdout


def test_under_the_command_a_program_without_a_tracer_is_recorded(
    libtorch_programs, plimsoll_command, tmp_path
):
    words = [plimsoll_command, "run", "-o", tmp_path / "run.plim", "--"]
    ran = run(*words, libtorch_programs / "layers_program")
    assert ran.returncode == 0, ran.stderr
    assert "allocations, peak" in ran.stderr
    assert "aten::addmm" in plimsoll.open(tmp_path / "run.plim").events.to_pydict()["operator"]


def test_under_the_command_a_tracer_works_as_without_it(
    libtorch_programs, plimsoll_command, traced, tmp_path
):
    own, run_file = tmp_path / "own.plim", tmp_path / "run.plim"
    words = [plimsoll_command, "run", "-o", run_file, "--", libtorch_programs / "layers_program"]
    ran = run(*words, own)
    assert ran.returncode == 0, ran.stderr
    assert forward(allocated(own)) == forward(allocated(run_file)) == forward(traced)
