"""A path that cannot become a recording is refused before the program starts."""

import os
import stat
import sys
from pathlib import Path

import pytest

from plimsoll._command import launch

from .running import complains, without_privilege


def make_folder(folder: Path) -> Path:
    (folder / "runs").mkdir()
    return folder / "runs"


def make_socket(folder: Path) -> Path:
    os.mknod(folder / "socket", stat.S_IFSOCK)
    return folder / "socket"


def make_link_to_folder(folder: Path) -> Path:
    (folder / "link").symlink_to(folder)
    return folder / "link"


def make_file(folder: Path) -> Path:
    (folder / "file").write_text("x")
    return folder / "file"


UNUSABLE = {
    "folder": (make_folder, "it is a folder"),
    "folder to be": (lambda folder: f"{folder}/new/", "it is a folder"),
    "link to a folder": (make_link_to_folder, "it is a folder"),
    "below a file": (lambda folder: make_file(folder) / "run.plim", "is not a folder"),
    "far below a file": (lambda folder: make_file(folder) / "a" / "run.plim", "is not a folder"),
    "socket": (make_socket, "it is a socket"),
    "no file": (
        lambda _: Path("/proc/run.plim"),
        "no file can be created in /proc" if os.geteuid() == 0 else "/proc is not writable",
    ),
    "long name": (lambda folder: folder / ("x" * 300), "name too long"),
}


@pytest.fixture(params=["script", "program"])
def run(request, plimsoll, tmp_path):
    """Run a program that creates a file where it ran."""
    mark = tmp_path / "it ran"
    (tmp_path / "script.py").write_text(f"open({str(mark)!r}, 'w')\n")
    words = {"script": [tmp_path / "script.py"], "program": ["--", "/usr/bin/touch", mark]}

    def start(path, **how):
        env = {"PLIMSOLL_PYTHON": sys.executable} | how.pop("env", {})
        options = [] if path is None else ["-o", path]
        outcome = plimsoll("run", *options, *words[request.param], env=env, **how)
        return outcome, mark.exists()

    return start


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_paths_are_refused_and_named(run, tmp_path, case):
    make, reason = UNUSABLE[case]
    path = make(tmp_path)
    outcome, has_run = run(path)
    assert not has_run, outcome
    assert outcome.status == 2, outcome
    assert outcome.err.count("\n") == 1, outcome.err
    for word in ("cannot record into", str(path), reason):
        assert word in outcome.err


def test_a_folder_that_is_not_writable_is_refused(plimsoll, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(0o555)
    for path in (locked / "run.plim", locked / "deeper" / "run.plim"):
        outcome = plimsoll("run", "-o", path, "--", "/bin/true", preexec_fn=without_privilege)
        complains(outcome, 2, str(path), f"the folder {locked} is not writable")


def test_a_folder_that_is_not_writable_is_refused_for_scripts_too(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    path = str(tmp_path / "run.plim")
    assert launch._trouble_with(path) == f"the folder {tmp_path} is not writable"
    (tmp_path / "run.plim").touch()
    assert launch._trouble_with(path) == "it is not writable"
    (tmp_path / "run.plim").write_text("an earlier trace: the next free name is used")
    assert launch._trouble_with(path) == f"the folder {tmp_path} is not writable"


def test_the_environment_variable_is_checked_too(plimsoll, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"open({str(tmp_path / 'it ran')!r}, 'w')\n")
    env = {"PLIMSOLL_PYTHON": sys.executable, "PLIMSOLL_OUT": str(tmp_path)}
    outcome = plimsoll("run", script, env=env)
    assert outcome.status == 2, outcome
    assert str(tmp_path) in outcome.err
    assert not (tmp_path / "it ran").exists()


def test_missing_folders_and_devices_cause_no_error(run, tmp_path):
    mark = tmp_path / "it ran"
    for path in (tmp_path / "new" / "newer" / "run.plim", "/dev/null", "/dev/full"):
        _, has_run = run(path)
        assert has_run, path
        mark.unlink()


def test_the_message_is_one_sentence_for_programs(plimsoll, tmp_path):
    complains(plimsoll("run", "-o", tmp_path, "--", "/bin/true"), 2, str(tmp_path))
