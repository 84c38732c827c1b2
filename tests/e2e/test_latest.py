"""The argument `latest` instead of a recording, in all commands that read one."""

import json
import os
import shutil

import pytest

from .running import complains


@pytest.fixture
def project(plimsoll, healthy, planted, tmp_path):
    """Two recordings with different content, the newer one in a folder."""
    (tmp_path / "runs" / "7").mkdir(parents=True)
    for age_s, source, name in ((50, healthy, "old.plim"), (10, planted, "runs/7/new.plim")):
        shutil.copy(source, tmp_path / name)
        stamp = os.stat(tmp_path / name).st_mtime - age_s
        os.utime(tmp_path / name, (stamp, stamp))
    (tmp_path / "newest.txt").write_text("no recording")
    return tmp_path


def test_report_reads_the_newest_recording_and_names_it(plimsoll, project):
    outcome = plimsoll("report", "latest", "--json", cwd=project)
    assert outcome.status == 0, outcome
    assert outcome.err == "plimsoll: latest is runs/7/new.plim\n"
    assert json.loads(outcome.out)["source"]["path"] == "runs/7/new.plim"


def test_a_redacted_copy_is_not_the_newest_recording(plimsoll, project):
    plimsoll("export", "latest", "--redact", cwd=project)
    assert "latest is runs/7/new.plim" in plimsoll("report", "latest", cwd=project).err


def test_latest_can_be_combined_with_other_files(plimsoll, project):
    reports = json.loads(plimsoll("report", "--json", "old.plim", "latest", cwd=project).out)
    paths = [report["source"]["path"] for report in reports]
    assert paths == ["old.plim", "runs/7/new.plim"]


def test_export_writes_under_the_name_of_the_newest_recording(plimsoll, project):
    outcome = plimsoll("export", "latest", "--to", "json", cwd=project)
    assert outcome.status == 0, outcome
    assert [path.name for path in project.glob("new*.json")] != []


def test_dump_prints_the_newest_recording(plimsoll, project):
    outcome = plimsoll("dump", "latest", cwd=project)
    assert "runs/7/new.plim" in outcome.err
    assert "latest: " not in outcome.err


def test_a_folder_without_recordings_is_an_error(plimsoll, tmp_path):
    complains(plimsoll("report", "latest", cwd=tmp_path), 3, "latest", "*.plim", "plimsoll run")


def test_a_file_of_that_name_is_read_by_its_path(plimsoll, project, healthy):
    shutil.copy(healthy, project / "latest")
    outcome = plimsoll("report", "./latest", "--json", cwd=project)
    assert json.loads(outcome.out)["source"]["path"] == "./latest"
