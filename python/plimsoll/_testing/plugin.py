"""The pytest plugin while it is on. `pytest_plimsoll` registers it.

The session is recorded once, from its first test on. Limits are checked when the function of a test
returns, and a test that exceeds one fails like a test with a failed assertion.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator
from typing import Any

import pytest

from plimsoll._testing import files
from plimsoll._testing.fixture import Memory
from plimsoll._testing.limits import LimitError, limits_of
from plimsoll._testing.measured import MeasuredTest
from plimsoll._testing.session_recording import NotRecordedError, SessionRecording
from plimsoll.errors import Error

_TEST = pytest.StashKey[MeasuredTest]()
_FAILURE = pytest.StashKey[str]()


class Plugin:
    """The hooks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._updates = bool(config.option.plimsoll_update)
        self._session: SessionRecording | NotRecordedError | None = None

    def pytest_report_header(self) -> str:
        """Return the line that states that limits are checked."""
        return f"plimsoll: memory limits are checked; traces in {files.FOLDER}/traces"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Begin the recording at the first test: the controller of pytest-xdist has none."""
        if self._session is None:
            with self._without_capture():
                self._session = self._begun()
        item.stash[_TEST] = MeasuredTest(self._session, item.nodeid, self._config.rootpath)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Read the markers; a wrong one is an error of the test's setup."""
        try:
            item.stash[_TEST].limits = limits_of(item)
        except LimitError as error:
            pytest.fail(f"plimsoll: {error}", pytrace=False)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run the function of the test, the innermost of all hooks, and check its limits."""
        test = item.stash[_TEST]
        item.stash[_FAILURE] = ""  # plugins that repeat a test report it several times
        for _ in range(test.warmup):
            item.runtest()
        test.begin()
        try:
            result = yield
        finally:
            test.end()
        if test.limits:
            self._check(item, test)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test after pytest-memray has checked its own limits."""
        report = yield
        failure = item.stash.get(_FAILURE, "")
        if not failure or report.when != "call":
            return report
        if hasattr(report, "wasxfail"):  # passed, but expected to fail
            report.outcome = "skipped"
        elif report.failed:
            report.longrepr = f"pytest-memray: {report.longreprtext}\n\n{failure}"
        else:
            report.outcome = "failed"
            report.longrepr = failure
        return report

    def pytest_unconfigure(self) -> None:
        """End the recording."""
        if isinstance(self._session, SessionRecording):
            self._session.stop()

    def memory_of(self, item: pytest.Item) -> Memory:
        """Return the fixture ``memory`` of a test."""
        test = item.stash[_TEST]
        test.has_fixture = True
        return Memory(test, self._updates)

    def _begun(self) -> SessionRecording | NotRecordedError:
        worker = getattr(self._config, "workerinput", None)  # set by pytest-xdist
        name = f"session-{worker['workerid']}.plim" if worker else "session.plim"
        try:
            return SessionRecording(files.make_traces_folder(self._config.rootpath) / name)
        except (Error, OSError) as error:
            return NotRecordedError(f"the session is not recorded: {error}")

    def _check(self, item: pytest.Item, test: MeasuredTest) -> None:
        try:
            failures = test.failures()
            lost = test.lost_events()
        except NotRecordedError as error:
            limits = ", ".join(each.shown for each in test.limits)
            failures, lost = [f"plimsoll: {limits} cannot be checked: {error}"], 0
        if lost:
            warnings.warn(
                pytest.PytestWarning(
                    f"plimsoll: {lost:,} events were lost because they came faster than they could "
                    "be written; the figures of this test may be too low or too high"
                ),
                stacklevel=1,
            )
        if not failures:
            return
        if self._config.pluginmanager.has_plugin("memray_manager"):
            item.stash[_FAILURE] = "\n".join(failures)  # it checks only tests that have passed
        else:
            pytest.fail("\n".join(failures), pytrace=False)

    def _without_capture(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which notices, such as that the adapter is compiled, are shown."""
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[None] = capture.global_and_fixture_disabled()
        return context
