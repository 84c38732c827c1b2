"""The recordings from which pages are made. Each is made once per run."""

import os
from pathlib import Path

import pytest
from tests.page.recordings import RECIPES, ROOT, Workshop


@pytest.fixture(scope="session")
def workshop(plimsoll_command, snapshot_generator, tmp_path_factory) -> Workshop:
    folder = Path(os.environ.get("PLIMSOLL_SAMPLES", ROOT.parent / "shared" / "samples"))
    return Workshop(
        tmp_path_factory.mktemp("recordings"),
        plimsoll_command,
        snapshot_generator,
        folder if folder.is_dir() else None,
    )


@pytest.fixture(scope="session")
def recording(workshop):
    """The files of a recipe of recordings.py."""
    made: dict[str, list[Path]] = {}

    def make(name: str) -> list[Path]:
        if name not in made:
            made[name] = RECIPES[name](workshop)
        return made[name]

    return make
