"""The entry point of the pytest plugin: its options, its markers and the fixture ``memory``.

pytest imports this module in every run, so it imports plimsoll only if the plugin is on. It is not
part of the package plimsoll, because importing that package loads the recorder and the engine.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from plimsoll._testing.fixture import Memory

PLUGIN_NAME = "plimsoll_limits"

_LIMITS = (
    "limit_memory(limit, *, by='allocated', device=None, phase=None, category=None): "
    "fail if the tensors that the test allocates take more memory than this at their peak",
    "limit_leaks(limit, *, warmup=0, filter_fn=None): "
    "fail if tensors of one line outlive the test and take more memory than this",
    "limit_growth(limit, *, steps=16): "
    "fail if the test leaves more memory than this behind at each memory.step()",
    "limit_unused_at_peak(limit): "
    "fail if, at the test's peak, more memory than this is not used again",
)

_SHARED = ("limit_memory", "limit_leaks")  # pytest-memray has markers of these names


class MemoryOff:
    """The fixture ``memory`` while the plugin is off. It checks nothing."""

    def step(self) -> None:
        """Do nothing."""

    def matches_baseline(self) -> None:
        """Do nothing."""

    @property
    def peak_bytes(self) -> int:
        """Skip the test, because the peak is unknown."""
        pytest.skip("memory.peak_bytes is only known with --plimsoll")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("plimsoll", "memory of tensors (plimsoll)")
    group.addoption(
        "--plimsoll",
        action="store_true",
        help="record the memory of tensors, and check the markers limit_memory, limit_leaks, "
        "limit_growth and limit_unused_at_peak",
    )
    group.addoption(
        "--plimsoll-update",
        action="store_true",
        help="like --plimsoll, but write the baselines of memory.matches_baseline() instead of "
        "comparing with them",
    )
    parser.addini("plimsoll", "the same as --plimsoll", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    for limit in _LIMITS:
        config.addinivalue_line("markers", limit)
        config.addinivalue_line("markers", f"plimsoll_{limit}")
    options = config.option
    if options.plimsoll or options.plimsoll_update or config.getini("plimsoll"):
        try:
            from plimsoll._testing.plugin import Plugin
        except ModuleNotFoundError as error:
            if error.name != "plimsoll._core":
                raise
            message = "--plimsoll needs the engine, but this installation has only the recorder"
            raise pytest.UsageError(message) from None
        config.pluginmanager.register(Plugin(config), PLUGIN_NAME)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test with a marker that pytest-memray cannot check; it would end the session."""
    manager = item.config.pluginmanager.get_plugin("memray_manager")
    if manager is None:
        return
    checks = getattr(sys.modules[type(manager).__module__], "MARKERS", {})
    for mark in item.iter_markers():
        if mark.name not in _SHARED or mark.name not in checks:
            continue
        known = inspect.signature(checks[mark.name]).parameters
        unknown = ", ".join(f"{name}=" for name in mark.kwargs if name not in known)
        if unknown:
            pytest.fail(
                f"plimsoll: {item.nodeid}: pytest-memray also checks {mark.name}, and does not "
                f"have {unknown}: write plimsoll_{mark.name}",
                pytrace=False,
            )


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> Memory | MemoryOff:
    """The memory of this test's tensors: ``step()``, ``peak_bytes``, ``matches_baseline()``."""
    plugin = request.config.pluginmanager.get_plugin(PLUGIN_NAME)
    return MemoryOff() if plugin is None else plugin.memory_of(request.node)
