"""The hooks of the pytest plugin. `pytest_plimsoll` registers them if the plugin is on.

One recording covers the session, from the first test on. The plugin checks the limits of a test
when its function returns. A test that exceeds a limit fails as if an assertion had failed.
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
    """Records the session and checks the limits of each test."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._updates = bool(config.option.plimsoll_update)
        self._session: SessionRecording | NotRecordedError | None = None

    def pytest_report_header(self) -> str:
        """Return a line that says that the plugin is on."""
        return f"plimsoll: memory limits are checked; traces in {files.FOLDER}/traces"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Start the recording at the first test: the controller of pytest-xdist runs no tests."""
        if self._session is None:
            with self._without_capture():
                self._session = self._begun()
        item.stash[_TEST] = MeasuredTest(self._session, item.nodeid, self._config.rootpath)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Read the markers. An invalid marker is an error in the test's setup."""
        message = ""
        try:
            item.stash[_TEST].limits = limits_of(item)
        except LimitError as error:
            message = f"plimsoll: {error}"
        if message:  # here, so that pytest does not show the error a second time as its context
            pytest.fail(message, pytrace=False)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run the test function and check its limits. This is the innermost wrapper."""
        test = item.stash[_TEST]
        item.stash[_FAILURE] = ""  # plugins that rerun a test call this again for the same item
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
        """Fail the test here if pytest-memray is active, after it has checked its own limits."""
        report = yield
        failure = item.stash.get(_FAILURE, "")
        if not failure or report.when != "call":
            return report
        if report.failed:
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
        is_expected = item.get_closest_marker("xfail") is not None  # so pytest must see it fail
        if self._config.pluginmanager.has_plugin("memray_manager") and not is_expected:
            # pytest-memray checks only tests that pass: fail the test later, in makereport.
            item.stash[_FAILURE] = "\n".join(failures)
        else:
            pytest.fail("\n".join(failures), pytrace=False)

    def _without_capture(self) -> contextlib.AbstractContextManager[None]:
        """Return a context without output capture, so that users see notices of the recorder."""
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[None] = capture.global_and_fixture_disabled()
        return context
