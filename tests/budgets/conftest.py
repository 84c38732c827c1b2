"""Fixtures for the tests of budgets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.budgets.digests import digest
from tests.e2e.running import Outcome, Plimsoll


class Project:
    """A folder with a budget file and digests."""

    def __init__(self, folder: Path, plimsoll: Plimsoll) -> None:
        self.folder = folder
        self.plimsoll = plimsoll

    def write(self, name: str, text: str, **source: object) -> Path:
        """Write the digest that a line of text describes (digests.py)."""
        path = self.folder / name
        path.write_text(json.dumps(digest(text, **source)))
        return path

    def budget(self, yaml: str) -> None:
        (self.folder / "plimsoll.budgets.yaml").write_text(yaml)

    def check(self, *words: object, **how: object) -> Outcome:
        return self.plimsoll("check", *words, cwd=self.folder, **how)


@pytest.fixture
def project(tmp_path: Path, plimsoll_command: str) -> Project:
    return Project(tmp_path, Plimsoll(plimsoll_command))


@pytest.fixture
def net(project: Project) -> Callable[..., Outcome]:
    """Return a function that checks a budget named net with the given keys."""

    def check(keys: str, *words: object) -> Outcome:
        project.budget(f"net: {{recording: run.json, {keys}}}\n")
        return project.check(*words)

    return check
