"""Fixtures of the end-to-end tests."""

import pytest

from .running import Plimsoll


@pytest.fixture(scope="session")
def plimsoll(plimsoll_command) -> Plimsoll:
    return Plimsoll(plimsoll_command)


@pytest.fixture(scope="session")
def planted(generated):
    return generated["planted"]


@pytest.fixture(scope="session")
def healthy(generated):
    return generated["healthy"]
