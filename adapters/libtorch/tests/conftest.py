"""Tests of the adapter alone. A process has one recorder, so they need a separate process."""

import pytest


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    from watching import load_counting_recorder

    return load_counting_recorder(tmp_path_factory.mktemp("counting"))


def attached(library, mode):
    from watching import Recorder

    recorder = Recorder(library).attach(mode)
    recorder.take()
    yield recorder
    recorder.detach()


@pytest.fixture
def recorder(library):
    yield from attached(library, "full")


@pytest.fixture
def lite_recorder(library):
    yield from attached(library, "lite")
