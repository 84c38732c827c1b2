"""Memory limits in tests are exact to the byte.

Expected sizes are computed by hand: a float32 tensor of N elements takes 4 N bytes.
"""

import json
import re
from collections import Counter
from itertools import accumulate, takewhile
from pathlib import Path

import pytest

import plimsoll
from plimsoll._testing.limits import UnusedLimit
from plimsoll._testing.session_recording import EVENTS, blocks_of
from plimsoll._testing.tensors import AllocatedTensors, Tensor
from plimsoll._testing.verdicts import unused_verdict

ROOT = Path(__file__).resolve().parents[2]

pytest_plugins = ["pytester"]

TITLE = "peak * > limit * (plimsoll): {} is exceeded by {}: the peak of {} memory on cpu is {}"


PEAK = """
@pytest.mark.limit_memory("{limit} B")
def test_peak():
    first = torch.zeros(500_000)   # 2,000,000 B
    second = torch.zeros(300_000)  # 1,200,000 B: the peak is 3,200,000 B
    del first
    third = torch.zeros(400_000)   # 1,600,000 B
"""


def test_a_peak_that_equals_the_limit_passes(suite):
    suite(PEAK.format(limit=3_200_000)).assert_outcomes(passed=1)


def test_a_peak_one_byte_over_the_limit_fails_and_lists_the_largest_lines(suite, pytester):
    result = suite(PEAK.format(limit=3_199_999))
    result.assert_outcomes(failed=1)
    file = "test_a_peak_one_byte_over_the_limit_fails_and_lists_the_largest_lines.py"
    result.stdout.fnmatch_lines(
        [
            TITLE.format('limit_memory("3199999 B")', "1 B", "allocated", "3.1 MiB (3,200,000 B)"),
            f"  - 1.9 MiB (2,000,000 B) in 1 tensor: *{file}:6 (test_peak), aten::zeros, other",
            f"  - 1.1 MiB (1,200,000 B) in 1 tensor: *{file}:7 (test_peak), aten::zeros, other",
            "  → Reduce what is live at the peak by 1 B. *:6 (test_peak) has the most, 1.9 MiB.",
            f"  Trace of the test: .plimsoll/traces/{file}/test_peak.plim",
        ],
        consecutive=True,
    )
    trace = plimsoll.open(pytester.path / f".plimsoll/traces/{file}/test_peak.plim")
    assert trace.devices[0]["requested_allocated"]["peak_bytes"] == 3_200_000
    assert trace.report["source"]["diagnostics"] == []
    assert (pytester.path / ".plimsoll/traces/.gitignore").read_text() == "*\n"


def test_only_what_the_test_function_allocates_counts(suite):
    suite(
        """
old = [torch.zeros(1_000_000)]

@pytest.fixture
def model():
    yield torch.zeros(2_000_000)
    torch.zeros(3_000_000)

def setup_function():
    torch.zeros(4_000_000)

@pytest.mark.limit_memory("4000 B")
def test_peak(model, memory):
    old.clear()  # frees of older tensors are not subtracted
    small = torch.zeros(1_000)
    assert memory.peak_bytes == 4_000
"""
    ).assert_outcomes(passed=1)


def test_the_peak_is_the_sum_of_live_tensors(suite):
    """Compare some 20,000 events, in many blocks of the file, with a running sum."""
    suite(
        """
import random

@pytest.mark.parametrize("seed", range(3))
def test_peak(memory, seed):
    random.seed(seed)
    live, total, peak = {}, 0, 0
    for number in range(10_000):
        if live and random.random() < 0.48:
            total -= 4 * live.pop(random.choice(list(live))).numel()
        else:
            elements = random.randrange(1, 3_000)
            live[number] = torch.empty(elements)
            total += 4 * elements
        peak = max(peak, total)
    assert memory.peak_bytes == peak
"""
    ).assert_outcomes(passed=3)


def assert_parts_are_exact(file: bytes, most: int) -> None:
    """Compare the peaks of parts that begin at a block of events with those of the whole file."""
    head, blocks = file[:16], list(blocks_of(file, 16))
    whole = AllocatedTensors(file, "whole").by_device()
    begins = [at for at, (kind, _) in enumerate(blocks) if kind == EVENTS]
    for begin in begins[:: max(1, len(begins) // most)]:
        before = plimsoll.open_bytes(head + b"".join(block for _, block in blocks[:begin]))
        older = Counter(before.events.to_pydict()["device"])
        expected = {
            device: peak_of([each for each in tensors if each.born >= older[device]])
            for device, tensors in whole.items()
        }
        part = [block for at, (kind, block) in enumerate(blocks) if kind != EVENTS or at >= begin]
        peaks = AllocatedTensors(head + b"".join(part), "part").peaks()
        found = {each.device: each.size_bytes for each in peaks}
        assert found == {device: peak for device, peak in expected.items() if device in found}
        assert not any(peak for device, peak in expected.items() if device not in found)


def peak_of(tensors: list[Tensor]) -> int:
    changes = [(each.born, each.size_bytes) for each in tensors]
    changes += [(each.freed, -each.size_bytes) for each in tensors if each.freed is not None]
    return max(accumulate(change for _, change in sorted(changes)), default=0)


@pytest.mark.parametrize("version", ["v1", "v3"])
def test_a_part_of_a_recording_counts_only_tensors_allocated_in_it(version):
    assert_parts_are_exact((ROOT / f"tests/compat/{version}.plimsoll").read_bytes(), most=9)


@pytest.mark.slow
def test_a_part_of_a_gpu_recording_counts_only_tensors_allocated_in_it(samples):
    files = sorted(samples.glob("gpu/recordings/*.plim"), key=lambda each: each.stat().st_size)
    for file in files[:12]:
        assert_parts_are_exact(file.read_bytes(), most=4)


def test_tensors_of_other_threads_count(suite):
    suite(
        """
from threading import Thread

def test_peak(memory):
    thread = Thread(target=lambda: kept.append(torch.zeros(1_000)))
    thread.start()
    thread.join()
    assert memory.peak_bytes == 4_000
"""
    ).assert_outcomes(passed=1)


TRAINING = """
@pytest.mark.limit_memory("{limit} B", {what})
def test_training():
    model = torch.nn.Linear(8, 8)  # 64 + 8 parameters: 288 B
    optimizer = torch.optim.Adam(model.parameters())  # 2 x 288 B, and 2 x 4 B of step counts
    model(torch.zeros(2, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("what", "size_bytes"),
    [
        ("category='parameter'", 288),
        ("category='gradient'", 288),
        ("category='optimizer_state'", 584),
    ],
)
def test_a_limit_can_apply_to_one_category(suite, what, size_bytes):
    suite(TRAINING.format(limit=size_bytes, what=what)).assert_outcomes(passed=1)
    result = suite(TRAINING.format(limit=size_bytes - 1, what=what))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*limit_memory* exceeded by 1 B: * is {size_bytes:,} B"])


def test_a_limit_can_apply_to_one_phase(suite):
    source = """
@pytest.mark.limit_memory("{limit} B", phase="forward")
def test_forward():
    weight = torch.zeros(16, 16, requires_grad=True)  # 1,024 B outside the phase
    kept.append((weight @ weight).detach())  # 1,024 B
"""
    suite(source.format(limit=1024)).assert_outcomes(passed=1)
    suite(source.format(limit=1023)).assert_outcomes(failed=1)


def test_the_evidence_names_only_what_all_tensors_of_a_line_share(suite):
    result = suite(
        """
@pytest.mark.limit_leaks("0 B")
def test_leak():
    for make in (torch.zeros, torch.ones):
        kept.append(make(1_000))
"""
    )
    line = "  - 7.8 KiB (8,000 B) in 2 tensors: *:7 (test_leak), other, held by *.kept"
    result.stdout.fnmatch_lines([line])


def test_the_evidence_sums_to_the_peak(suite):
    """Use a training step: its tensors differ in category, phase, layer and line."""
    lines = suite(TRAINING.format(limit=0, what="device='cpu'")).outlines
    begin = next(i for i, line in enumerate(lines) if "the peak of allocated memory" in line)
    title = lines[begin]
    # Stop after the message: if CI is set, pytest repeats it in its summary.
    parts = list(takewhile(lambda line: line.startswith("  - "), lines[begin + 1 :]))
    assert len(parts) > 1

    def exact(text):
        return int(re.search(r"([\d,]+) B\b", text)[1].replace(",", ""))

    assert sum(map(exact, parts)) == exact(title.partition(" is exceeded by ")[2])


def test_a_device_that_the_test_does_not_use_has_no_peak(suite):
    suite(
        """
@pytest.mark.limit_memory("0 B", device="cuda")
@pytest.mark.limit_memory("4 KB", device="cpu")
@pytest.mark.limit_memory("0 B", by="reserved")
def test_peak():
    torch.zeros(1024)
"""
    ).assert_outcomes(passed=1)


def test_a_tensor_that_outlives_the_test_is_a_leak(suite):
    result = suite(
        """
@pytest.mark.limit_leaks("0 B")
def test_leak():
    kept.append(torch.zeros(1_000))
    torch.zeros(2_000)

@pytest.mark.limit_leaks("4000 B")
def test_leak_within_the_limit():
    kept.append(torch.zeros(1_000))

@pytest.mark.limit_leaks("0 B")
def test_cycle():
    cycle = [torch.zeros(1_000)]
    cycle.append(cycle)

@pytest.mark.limit_leaks("0 B")
def test_old_tensor():
    kept[0].add_(1)
"""
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            'leaks 3.9 KiB > limit 0 B (plimsoll): limit_leaks("0 B") is exceeded: 3.9 KiB *',
            "  - 3.9 KiB (4,000 B) in 1 tensor: *:6 (test_leak), *, held by *.kept[[]0]",
            "  → Remove *.kept[[]0] after its last use (del).",
            "  Trace of the test: *",
        ],
        consecutive=True,
    )


def test_warmup_fills_caches_before_the_measured_run(suite):
    source = """
import functools

runs = []

@functools.cache
def table():
    return torch.zeros(100)

@pytest.fixture
def number():
    return len(runs)

@pytest.mark.limit_leaks("0 B", warmup={warmup})
def test_cache(number):
    assert number == 0  # fixtures are set up once
    runs.append(table())

def test_runs():
    assert len(runs) == {warmup} + 1
"""
    suite(source.format(warmup=2)).assert_outcomes(passed=2)
    suite(source.format(warmup=0)).assert_outcomes(passed=1, failed=1)


def test_a_filter_decides_which_sites_are_leaks(suite):
    result = suite(
        """
seen = []

def not_the_cache(site):
    seen.append(site)
    return "fill_cache" not in site.line

def fill_cache():
    kept.append(torch.zeros(100))
    kept.append(torch.zeros(100))

@pytest.mark.limit_leaks("0 B", filter_fn=not_the_cache)
def test_filtered():
    fill_cache()

def test_site():
    cache = seen[0]
    assert (cache.size_bytes, cache.count, cache.device) == (400, 1, "cpu")
    assert (cache.operator, cache.category, cache.layer) == ("aten::zeros", "other", "")
    assert cache.phase == "other"
    assert cache.stack[0].endswith(":11 fill_cache")
    assert [site.line.rpartition(":")[2] for site in seen] == ["11 (fill_cache)", "12 (fill_cache)"]
"""
    )
    result.assert_outcomes(passed=2)


GROWTH = """
@pytest.mark.limit_growth("{limit} B", steps=12)
def test_steps(memory):
    for step in range({steps}):
        {body}
        memory.step()
"""


def test_memory_that_each_step_retains_is_growth(suite):
    body = "kept.append(torch.zeros(10))"  # 40 B
    suite(GROWTH.format(limit=40, steps=16, body=body)).assert_outcomes(passed=1)
    result = suite(GROWTH.format(limit=39, steps=16, body=body))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            'growth 40 B > limit 39 B (plimsoll): limit_growth("39 B", steps=12) is exceeded: '
            "memory grows by 40 B per step",
            "  - 40 B per step since step *: *:7 (test_steps), * tensors still live",
            "  → Free what *:7 (test_steps) retains from step to step.",
        ],
        consecutive=True,
    )


@pytest.mark.parametrize(
    "body",
    ["kept[:] = [torch.zeros(10 + step)]", "kept.append(torch.zeros(10)) if step < 2 else 0"],
)
def test_memory_that_is_replaced_or_cached_is_not_growth(suite, body):
    suite(GROWTH.format(limit=0, steps=16, body=body)).assert_outcomes(passed=1)


def test_too_few_steps_fail(suite):
    result = suite(GROWTH.format(limit=0, steps=11, body="pass"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["plimsoll: *cannot be checked: the test marked 11 steps, not 12"])


def test_a_baseline_is_compared_to_the_byte(suite, pytester):
    source = """
def test_step(memory):
    tensor = torch.zeros({elements})
    memory.matches_baseline()
"""
    name = "test_a_baseline_is_compared_to_the_byte.py"
    result = suite(source.format(elements=1_000))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"*Failed: plimsoll: there is no baseline .plimsoll/{name}/test_step.json",
            "*Run pytest --plimsoll-update, and commit the file that it writes.",
        ]
    )
    suite(source.format(elements=1_000), "--plimsoll-update").assert_outcomes(passed=1)
    digest = pytester.path / f".plimsoll/{name}/test_step.json"
    assert json.loads(digest.read_text())
    suite(source.format(elements=1_000)).assert_outcomes(passed=1)
    suite(source.format(elements=999)).assert_outcomes(passed=1)
    result = suite(source.format(elements=1_001))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*Failed: 4 B more than the baseline (plimsoll)", "*Trace of the test: *"]
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [('{"digest_version": "1.4"', "not JSON at byte *"), ("{}", "it is not *")],
)
def test_a_damaged_baseline_is_an_error_with_its_name(suite, pytester, content, reason):
    source = "def test_step(memory):\n    memory.matches_baseline()\n"
    suite(source, "--plimsoll-update").assert_outcomes(passed=1)
    [digest] = pytester.path.glob(".plimsoll/*/test_step.json")
    digest.write_text(content)
    result = suite(source)
    result.assert_outcomes(failed=1)
    shown = digest.relative_to(pytester.path)
    result.stdout.fnmatch_lines(
        [f"*Failed: plimsoll: the baseline {shown} cannot be read: {reason}"]
    )
    assert [each.name for each in digest.parent.iterdir()] == [digest.name]


UNUSED = """
def step():
    waits = torch.zeros(500_000)             # 2,000,000 B, used once
    waits + 1
    kept.append(torch.zeros(100_000))        # 400,000 B, never used, and live after the test
    read = torch.zeros(300_000)
    (read * 2).sum()                         # the peak: 2,000,000 + 400,000 + 2 * 1,200,000
    read.sum()

@pytest.mark.limit_unused_at_peak("{limit}")
def test_step():
    step()
"""


def test_what_no_operator_uses_again_may_equal_the_limit(suite, pytester):
    suite(UNUSED.format(limit="2400000 B")).assert_outcomes(passed=1)
    assert not list(pytester.path.glob(".plimsoll/traces/*.uses*"))


def test_more_that_no_operator_uses_again_fails_and_names_the_line(suite, pytester):
    result = suite(UNUSED.format(limit="2399999 B"))
    result.assert_outcomes(failed=1)
    file = "test_more_that_no_operator_uses_again_fails_and_names_the_line.py"
    result.stdout.fnmatch_lines(
        [
            "not used again 2,400,000 B > limit 2,399,999 B (plimsoll): "
            'limit_unused_at_peak("2399999 B") is exceeded by 1 B: '
            "no operator uses 2.3 MiB (2,400,000 B) of the peak on cpu again",
            f"  - 1.9 MiB (2,000,000 B) in 1 tensor: *{file}:5 (step), local",
            f"  - 390.6 KiB (400,000 B) in 1 tensor: *{file}:7 (step), local",
            "  - If all memory were freed when it was last used, the peak would be "
            "3.8 MiB instead of 4.6 MiB",
            f"  → After its last use, free what *{file}:5 (step) allocates.",
            f"  Trace of the test: .plimsoll/traces/{file}/test_step.plim",
        ],
        consecutive=True,
    )
    (device,) = plimsoll.open(pytester.path / f".plimsoll/traces/{file}/test_step.plim").devices
    assert device["last_use"]["unused_bytes"] == 2_400_000
    assert not device["last_use"]["is_sampled"]


def test_a_limit_on_unused_memory_with_a_wrong_unit_is_an_error_of_its_test(suite):
    result = suite(UNUSED.format(limit="4 megs"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ['plimsoll: *::test_step: limit_unused_at_peak("4 megs"): the limit * is not a size: *']
    )


def test_memory_from_before_the_test_is_in_no_limit_on_unused_memory(suite):
    suite(
        """
old = [torch.zeros(1_000_000)]

@pytest.mark.limit_unused_at_peak("0 B")
@pytest.mark.limit_memory("1604 KB")
def test_step():
    first = torch.zeros(200_000)
    old.clear()
    first + first
"""
    ).assert_outcomes(passed=1)


def test_a_limit_on_unused_memory_fails_if_no_uses_were_recorded(tmp_path):
    torch = pytest.importorskip("torch")
    with plimsoll.record(tmp_path / "run.plim", uses="never") as recording:
        torch.zeros(1000)
    data = Path(recording.path).read_bytes()
    limit = UnusedLimit("limit_unused_at_peak", 0)
    verdict = unused_verdict(limit, AllocatedTensors(data, "run"))
    assert verdict is not None
    assert "cannot be checked: no uses of memory were recorded on cpu" in verdict.text()


def test_a_limit_on_unused_memory_fails_if_most_of_the_peak_is_unknown(suite):
    result = suite(
        """
@pytest.mark.limit_unused_at_peak("1 MB")
def test_step():
    shared = torch.zeros(500_000)
    shared.numpy()
    torch.zeros(10)
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            'plimsoll: limit_unused_at_peak("1 MB") cannot be checked: it is unknown whether '
            "operators use 1.9 MiB (2,000,000 B) of the peak of 1.9 MiB (2,000,040 B) on cpu again",
            "  → Keep tensors within PyTorch: what NumPy or data_ptr() gets is unknown.",
        ],
        consecutive=True,
    )


FIXTURE = """
import pytest
class Trainer:
    def __init__(self):
        self.history = []
@pytest.fixture
def trainer():
    return Trainer()
@pytest.mark.limit_leaks("1 KB")
def test_leak(trainer):
    trainer.history += [torch.ones(1000), torch.ones(1000)]
"""


def test_a_fixture_that_holds_tensors_is_called_by_its_name(suite):
    result = suite(FIXTURE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*, held by the fixture trainer.history", "  → Remove from the fixture trainer.history *"]
    )
