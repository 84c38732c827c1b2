"""The pytest plugin together with other pytest features and plugins."""

import re

import pytest

import plimsoll

pytest_plugins = ["pytester"]

OTHERS_OFF = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:memray")


def test_an_invalid_marker_is_an_error_of_its_test_only(suite):
    result = suite(
        """
@pytest.mark.limit_memory("48 megs")
def test_wrong(): kept.append(1)

@pytest.mark.limit_memory("48 MB")
def test_right(): assert not kept
"""
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(['plimsoll: *::test_wrong: limit_memory("48 megs"): the limit *'])
    said = [line for line in result.outlines if "the limit '48 megs' is not a size" in line]
    assert len([line for line in said if line.startswith("plimsoll: ")]) == 1
    result.stdout.no_fnmatch_line("*During handling of the above exception*")


def test_every_kind_of_test_can_have_a_limit(suite, pytester):
    pytester.makeconftest(
        """
import asyncio, inspect, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):  # like the asyncio plugins
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj())
        return True
"""
    )
    result = suite(
        """
import unittest

@pytest.mark.limit_memory("3999 B")
class TestClass:
    def test_from_class(self):
        self.tensor = torch.zeros(1_000)

    @pytest.mark.limit_memory("4000 B")
    def test_of_its_own(self):
        self.tensor = torch.zeros(1_000)

class Case(unittest.TestCase):
    def setUp(self):
        self.tensor = torch.zeros(500)

    @pytest.mark.limit_memory("3999 B")
    def test_case(self):
        torch.zeros(1_000)

    @pytest.mark.limit_leaks("0 B", warmup=1)
    def test_case_leak(self):
        pass

@pytest.mark.limit_memory("3999 B")
@pytest.mark.parametrize("elements", [999, 1_000])
def test_parameter(elements):
    torch.zeros(elements)

@pytest.mark.limit_memory("3999 B")
async def test_coroutine():
    torch.zeros(1_000)

@pytest.mark.xfail
@pytest.mark.limit_memory("3999 B")
def test_expected():
    torch.zeros(1_000)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_memory("3999 B")
def test_strictly_expected():
    torch.zeros(1_000)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_memory("4000 B")
def test_within_the_limit():
    torch.zeros(1_000)

@pytest.mark.limit_memory("3999 B")
def test_skipped():
    torch.zeros(1_000)
    pytest.skip("no reason")

@pytest.mark.limit_memory("3999 B")
def test_failed():
    torch.zeros(1_000)
    assert kept, "this is why"
""",
        "-rA",
    )
    lines = {line.split(" - ")[0] for line in result.outlines if re.match("[A-Z]+ .*::", line)}
    name = "test_every_kind_of_test_can_have_a_limit.py"
    assert {line.replace(f"{name}::", "") for line in lines} == {
        "FAILED TestClass::test_from_class",
        "PASSED TestClass::test_of_its_own",
        "FAILED Case::test_case",
        "FAILED Case::test_case_leak",
        "PASSED test_parameter[999]",
        "FAILED test_parameter[1000]",
        "FAILED test_coroutine",
        "XFAIL test_expected",
        "XFAIL test_strictly_expected",
        "FAILED test_within_the_limit",
        "FAILED test_failed",
    }
    result.assert_outcomes(passed=2, failed=7, xfailed=2, skipped=1)
    result.stdout.fnmatch_lines(["[[]XPASS(strict)[]]*"])
    result.stdout.fnmatch_lines(["E *AssertionError: this is why"])


def test_a_test_can_make_its_own_recording(suite):
    suite(
        """
@pytest.mark.limit_memory("4000 B")
def test_own_recording(memory, tmp_path):
    with plimsoll.record(tmp_path / "own.plim") as recording:
        tensor = torch.zeros(1_000)
    assert recording.report().devices[0]["requested_allocated"]["end_bytes"] >= 4_000
    assert memory.peak_bytes == 4_000

@pytest.mark.limit_memory("4000 B")
def test_own_tracer(memory):
    tracer = plimsoll.MemoryTracer()
    with tracer.trace(torch.nn.ReLU()):
        tensor = torch.zeros(1_000)
    assert memory.peak_bytes == 4_000
"""
    ).assert_outcomes(passed=2)


def test_a_test_that_ends_the_recording_cannot_be_checked(suite):
    result = suite(
        """
@pytest.mark.limit_memory("1 MB")
def test_end():
    from plimsoll._process import recordings
    recordings.stop_all()

@pytest.mark.limit_memory("1 MB")
def test_next(): pass

def test_unmarked(): pass
"""
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ['plimsoll: limit_memory("1 MB") cannot be checked: the recording * was ended by a test']
    )


def test_an_unwritable_folder_fails_only_tests_with_limits(suite, pytester):
    (pytester.path / ".plimsoll").write_text("not a folder")
    result = suite(
        """
@pytest.mark.limit_memory("1 MB")
def test_limit(): pass

def test_unmarked(): pass
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["plimsoll: * cannot be checked: the session is not recorded: *"])


def test_the_session_has_one_recording_with_a_region_for_each_test(suite, pytester):
    suite("def test_a(): torch.zeros(10)\ndef test_b(): torch.zeros(10)").assert_outcomes(passed=2)
    trace = plimsoll.open(pytester.path / ".plimsoll/traces/session.plim")
    begun = [row["name"] for row in trace.marks if row["kind"] == "region_begin"]
    name = "test_the_session_has_one_recording_with_a_region_for_each_test.py"
    assert begun == [f"{name}::test_a", f"{name}::test_b"]


def test_messages_of_plimsoll_and_pytest_memray_are_both_reported(suite, pytester):
    """Register a fake of pytest-memray, which checks its limits after a test has passed."""
    pytester.makeconftest(
        """
import pytest

class Manager:
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        if report.when == "call" and report.passed and "both" in item.name:
            report.outcome, report.longrepr = "failed", "Test was limited to 1.0MiB"
            report.sections.append(("memray-max-memory", "List of allocations"))

def pytest_configure(config):
    config.pluginmanager.register(Manager(), "memray_manager")
"""
    )
    result = suite(
        """
@pytest.mark.limit_memory("1 B")
def test_both(): torch.zeros(10)

@pytest.mark.limit_memory("1 B")
def test_one(): torch.zeros(10)

@pytest.mark.xfail
@pytest.mark.limit_memory("1 B")
def test_expected(): torch.zeros(10)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_memory("1 B")
def test_strictly_expected(): torch.zeros(10)
"""
    )
    result.assert_outcomes(failed=2, xfailed=2)
    result.stdout.fnmatch_lines(
        [
            "*_ test_both _*",
            "pytest-memray: Test was limited to 1.0MiB",
            'peak 40 B > limit 1 B (plimsoll): limit_memory("1 B") is exceeded by 39 B: *',
            "*_ test_one _*",
            'peak 40 B > limit 1 B (plimsoll): limit_memory("1 B") is exceeded by 39 B: *',
        ]
    )


def test_without_the_option_nothing_is_checked_or_imported(pytester):
    """Use a new process, in which neither torch nor plimsoll is loaded."""
    pytester.makepyfile(
        """
import sys, pytest

@pytest.mark.limit_memory("0 B")
@pytest.mark.limit_leaks("no size")
@pytest.mark.plimsoll_limit_memory("0 B")
@pytest.mark.plimsoll_limit_leaks("0 B")
@pytest.mark.plimsoll_limit_growth("0 B")
def test_off(memory):
    memory.step()
    memory.matches_baseline()
    assert "pytest_plimsoll" in sys.modules
    assert not {"torch", "plimsoll", "plimsoll._core"} & set(sys.modules)

def test_peak(memory):
    assert memory.peak_bytes < 100
"""
    )
    result = pytester.runpytest_subprocess("--strict-markers", *OTHERS_OFF, "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*memory.peak_bytes is only known with --plimsoll"])
    assert not (pytester.path / ".plimsoll").exists()


@pytest.mark.slow
def test_the_ini_file_turns_the_plugin_on_and_each_worker_records(pytester):
    pytest.importorskip("xdist")
    pytester.makeini("[pytest]\nplimsoll = true")
    pytester.makepyfile(
        """
import pytest, torch

@pytest.mark.limit_memory("4000 B")
@pytest.mark.parametrize("elements", [1_000, 1_001] * 4)
def test_peak(elements):
    torch.zeros(elements)
"""
    )
    result = pytester.runpytest_subprocess("-n", "2", *OTHERS_OFF)
    result.assert_outcomes(passed=4, failed=4)
    names = sorted(each.name for each in (pytester.path / ".plimsoll/traces").glob("*.plim"))
    assert names == ["session-gw0.plim", "session-gw1.plim"]
