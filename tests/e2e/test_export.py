"""plimsoll export: where the output goes, and what happens if it cannot be written."""

import json
import os
import pickle
import resource
import signal
from pathlib import Path

import pytest

from .running import complains

COMPAT = Path(__file__).parents[1] / "compat"


@pytest.fixture(scope="module")
def a_format(plimsoll):
    outcome = plimsoll("export", "x", "--to", "nonsense")
    if "no export formats" in outcome.err:
        pytest.skip("no exporter is in the catalogue")
    return "speedscope"


def test_an_unknown_format_lists_those_there_are(plimsoll, planted, a_format):
    complains(plimsoll("export", planted, "--to", "speedscop"), 2, "speedscop", "did you mean")
    complains(plimsoll("export", planted), 2, "needs --to FORMAT")


def test_the_default_place_is_the_current_folder(plimsoll, planted, a_format, tmp_path):
    outcome = plimsoll("export", planted, "--to", a_format, cwd=tmp_path)
    assert outcome.status == 0, outcome
    (made,) = tmp_path.iterdir()
    assert made.name == "planted.speedscope.json"
    assert outcome.out.startswith("planted.speedscope.json (")
    assert json.loads(made.read_text())["profiles"]


def test_an_existing_file_is_kept(plimsoll, planted, a_format, tmp_path):
    place = tmp_path / "out.json"
    place.write_text("precious")
    words = ("export", planted, "--to", a_format, "-o", place)
    complains(plimsoll(*words), 2, "exists", "--force")
    assert place.read_text() == "precious"
    assert plimsoll(*words, "--force").status == 0
    assert place.read_text() != "precious"


def test_to_standard_output(plimsoll, planted, a_format, tmp_path):
    outcome = plimsoll("export", planted, "--to", a_format, "-o", "-", cwd=tmp_path)
    assert outcome.status == 0
    assert json.loads(outcome.out)
    assert list(tmp_path.iterdir()) == []


def devices_of(report):
    series = ("peak_bytes", "end_bytes")
    return [
        (each["device_type"], each["device"], *(each["requested_allocated"][s] for s in series))
        for each in report["devices"]
        if each["events"]
    ]


def test_a_snapshot_of_a_recording_has_its_devices_and_bytes(plimsoll, tmp_path):
    """PyTorch's format knows only CUDA devices, and no segments means no memory."""
    for recording in sorted(COMPAT.glob("*.plimsoll")):
        place = tmp_path / f"{recording.stem}.pickle"
        assert plimsoll("export", recording, "--to", "snapshot", "-o", place).status == 0
        before, after = (
            json.loads(plimsoll("report", "--json", path).out) for path in (recording, place)
        )
        assert ("cpu", -1) in [each[:2] for each in devices_of(after)]
        assert devices_of(after) == devices_of(before)
        assert after["source"]["diagnostics"] == []
        snapshot = pickle.loads(place.read_bytes())
        assert set(snapshot) >= {"segments", "device_traces"}


@pytest.mark.parametrize("names", [["cpu", "cpu"], ["cuda:1", "nothing"], ["cuda:-5", 7]])
def test_names_that_are_no_distinct_devices_are_reported_and_not_used(plimsoll, tmp_path, names):
    event = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "frames": []}
    snapshot = {"segments": [], "device_traces": [[event], [event]], "plimsoll_devices": names}
    place = tmp_path / "made.pickle"
    place.write_bytes(pickle.dumps(snapshot))
    report = json.loads(plimsoll("report", "--json", place).out)
    assert [each[:2] for each in devices_of(report)] == [("cuda", 0), ("cuda", 1)]
    assert "snapshot.plimsoll_devices" in json.dumps(report["source"])


def test_a_full_disk_leaves_nothing(plimsoll, planted, a_format):
    words = ("export", planted, "--to", a_format)
    complains(plimsoll(*words, "-o", "/dev/full"), 4, "/dev/full", "No space left")
    with open("/dev/full", "wb") as full:
        outcome = plimsoll(*words, "-o", "-", stdout=full)
    assert (outcome.status, "No space left" in outcome.err) == (4, True)


def test_a_file_that_outgrows_its_limit_leaves_nothing(plimsoll, planted, a_format, tmp_path):
    def small_files_only():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    words = ("export", planted, "--to", a_format)
    complains(plimsoll(*words, cwd=tmp_path, preexec_fn=small_files_only), 4, "cannot write")
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_input_leaves_nothing(plimsoll, a_format, tmp_path):
    (tmp_path / "garbage").write_bytes(b"garbage")
    outcome = plimsoll("export", "garbage", "--to", a_format, cwd=tmp_path)
    complains(outcome, 3, "garbage")
    assert os.listdir(tmp_path) == ["garbage"]


def test_the_recording_itself_is_never_replaced(plimsoll, planted, a_format):
    words = ("export", planted, "--to", a_format, "-o", planted, "--force")
    complains(plimsoll(*words), 2, "is the recording itself")
