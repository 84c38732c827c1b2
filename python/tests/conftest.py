"""Fixtures for tests of monitoring inside other packages."""

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
