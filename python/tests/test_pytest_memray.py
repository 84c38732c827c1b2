"""Plimsoll's pytest plugin with the real pytest-memray, which has markers of the same names."""

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest, torch

@pytest.mark.limit_memory("1 MB")
def test_both(): torch.zeros(1_000_000)

@pytest.mark.plimsoll_limit_memory("1 MB")
def test_prefix(): torch.zeros(1_000_000)

@pytest.mark.limit_memory("1 MB", current_thread_only=True)
def test_memray(): torch.zeros(1_000_000)

@pytest.mark.limit_memory("1 TB")
def test_within(): torch.zeros(1_000_000)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_memory("1 MB")
def test_expected(): torch.zeros(1_000_000)

@pytest.mark.xfail(strict=True)
@pytest.mark.limit_memory("1 TB")
def test_unexpected(): torch.zeros(1_000_000)
"""


@pytest.fixture
def run(pytester):
    """Run the suite in a new process: memray cannot be loaded again."""
    pytest.importorskip("pytest_memray")
    pytester.makepyfile(SUITE)
    off = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return lambda *options: pytester.runpytest_subprocess(*off, "-rA", *options)


def test_both_plugins_check_a_limit_and_both_messages_are_shown(run):
    ran = run("--plimsoll")
    ran.stdout.fnmatch_lines(
        [
            "*_ test_both _*",
            "pytest-memray: Test was limited to 1.0MiB but allocated *",
            "peak 3.8 MiB > limit 1.0 MiB (plimsoll): *",
            "*_ test_prefix _*",
            "peak 3.8 MiB > limit 1.0 MiB (plimsoll): plimsoll_limit_memory*",
            "*_ test_memray _*",
            "Test was limited to 1.0MiB but allocated *",
            "*_ test_unexpected _*",
            "[[]XPASS(strict)[]]*",
        ]
    )
    ran.assert_outcomes(passed=1, failed=4, xfailed=1)


# pytest-memray calls its function with these arguments, outside of the test.
@pytest.mark.parametrize("options", [[], ["--plimsoll"]])
def test_an_argument_that_pytest_memray_does_not_have_fails_only_its_test(run, pytester, options):
    pytester.makepyfile(
        test_arguments="""
import pytest

@pytest.mark.limit_leaks("0 B", warmup=1)
def test_leaks(): pass

@pytest.mark.limit_memory("1 MB", device="cpu", phase="other")
def test_memory(): pass

@pytest.mark.plimsoll_limit_leaks("0 B", warmup=1)
def test_prefix(): pass
"""
    )
    ran = run(*options, "test_arguments.py")
    ran.assert_outcomes(passed=1, errors=2)
    ran.stdout.fnmatch_lines(
        [
            "plimsoll: *::test_leaks: pytest-memray also checks limit_leaks, and does not have "
            "warmup=: write plimsoll_limit_leaks",
            "plimsoll: *::test_memory: *does not have device=, phase=: write plimsoll_limit_memory",
        ]
    )


def test_without_plimsoll_only_pytest_memray_checks(run):
    ran = run()
    ran.assert_outcomes(passed=2, failed=4)
    ran.stdout.no_fnmatch_line("plimsoll: *")
