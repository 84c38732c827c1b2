"""A mutated program runs, and keeps its first finding and the line that it names.

`python -m tests.causes.mutations` measures all programs.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.causes.mutations import in_place, lines, sizes
from tests.causes.mutations.judging import Variant, judged
from tests.causes.mutations.recording import MUTATIONS, planted
from tests.causes.mutations.source import Source, applied

import plimsoll

ROOT = Path(__file__).parents[2]
GATE = ("causal/mask_in_each_layer", "mlp/adam_state")
GATE_MUTATIONS = ("bfloat16", "wrapped")
SAMPLE = ("--sample", "10", "--seed", "1")

TEXT = '''
def train(model, steps=64):
    """A loop."""
    for step in range(32):
        x = torch.relu(model(torch.zeros(128, 64), f"{step}", [1, 2]))  # comment
        x = x + torch.ones(128, 64)
    return x
'''


def mutated(edits) -> str:
    source = Source(Path("text.py"), TEXT)
    return applied(source, edits({Path("text.py"): source})[Path("text.py")])


def test_calls_over_several_lines_are_the_same_program():
    source = Source(Path("text.py"), TEXT)
    edits = lines.edits({Path("text.py"): source})[Path("text.py")]
    text = applied(source, edits)
    assert ast.dump(ast.parse(text)) == ast.dump(source.tree)
    maps = lines.original_lines(source, edits)
    original = TEXT.splitlines()
    for number, line in enumerate(text.splitlines()):
        assert line in original[maps[number] - 1]
    assert "\nmodel(\n" in text


def test_sizes_grow_and_repetitions_do_not():
    text = mutated(lambda sources: sizes.edits(sources, 1))
    assert "torch.zeros(129, 65)" in text
    assert "range(32)" in text
    text = mutated(lambda sources: sizes.edits(sources, 4, 1))
    assert "torch.zeros(129, 68)" in text


def test_operators_work_in_place():
    text = mutated(lambda sources: in_place.edits(sources, True))
    assert "torch.relu_(model(torch.empty(128, 64).zero_()" in text
    assert "x += torch.empty(128, 64).fill_(1)" in text


def record(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "tests.causes.mutations", "--keep", str(folder), *words]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def differs(variant: Variant) -> bool:
    before, after = variant.before, variant.after
    return (before.id, before.place) != (after.id, after.place)


def test_variants_have_the_same_first_finding(tmp_path):
    chosen = (word for mutation in GATE_MUTATIONS for word in ("--mutation", mutation))
    record(tmp_path, "--jobs", "2", *chosen, *GATE)
    variants = judged(tmp_path, GATE)
    assert len(variants) == len(GATE) * len(GATE_MUTATIONS)
    assert [each for each in variants if each.reason or differs(each)] == []
    wrapped = plimsoll.open(tmp_path / "wrapped" / "mlp_adam_state.plim")
    assert any(row["layer"].startswith("Wrapped.inner") for row in wrapped.tables["layers"])
    small = plimsoll.open(tmp_path / "bfloat16" / "mlp_adam_state.plim")
    assert small.tables["by_dtype"][0]["key"] == "bfloat16"


@pytest.mark.slow
def test_every_mutation_runs_programs_of_a_sample(tmp_path):
    """The share of equal first findings is a measure of the rules, and no condition here."""
    record(tmp_path, *SAMPLE)
    variants = judged(tmp_path, planted(set()))
    ran = {each.mutation for each in variants if not each.reason}
    assert ran == set(MUTATIONS)
    assert [each for each in variants if "process ended early" in each.reason] == []
