"""Fixtures for tests of monitoring inside other packages."""

import importlib
import socket

import pytest

import plimsoll
from plimsoll import _record


@pytest.fixture
def no_network(monkeypatch):
    """Allow connections to this machine only."""
    connect = socket.socket.connect

    def local_only(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test wants to reach {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture
def unwatched():
    """Tests begin and end without a running watch."""
    assert not _record.is_recording()
    yield
    plimsoll.stop_monitoring()
    assert not _record.is_recording()


@pytest.fixture
def suite(request, tmp_path):
    """Run a test file with Plimsoll's pytest plugin in this process, where torch is loaded."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    with plimsoll.record(tmp_path / "warm-up.plim") as recording:
        # pytester unloads the modules that a suite imports, so import these before it runs.
        torch.optim.Adam(model.parameters()).step()
    recording.report()
    importlib.import_module("plimsoll._testing.plugin")
    pytester = request.getfixturevalue("pytester")

    def run(source, *options):
        pytester.makepyfile(f"import gc, pytest, torch, plimsoll\nkept = []\n{source}")
        # Without this, each suite imports Hypothesis again, which takes a second.
        off = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        return pytester.runpytest_inprocess(*off, "--plimsoll", *options)

    return run
