"""plimsoll.open and the Trace that it returns."""

import json
import os
import pickle
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import plimsoll


@pytest.fixture(scope="module")
def trace(generated):
    return plimsoll.open(generated["planted"])


def test_report_is_that_of_the_command(generated, plimsoll_command):
    path = generated["healthy"]
    printed = subprocess.run(
        [plimsoll_command, "report", "--json", path], check=True, capture_output=True
    ).stdout
    said = json.loads(printed)
    ours = plimsoll.open(path).report
    for report in (said, ours):
        for run in report["passes"]:
            del run["duration_ns"]
    assert ours == said


def test_properties_are_parts_of_the_report(trace):
    assert trace.devices is trace.report["devices"]
    assert trace.tables is trace.report["tables"]
    assert trace.findings is trace.report["findings"]


def test_repr_is_one_line(trace):
    assert "\n" not in repr(trace)
    assert "cuda:0" in repr(trace)


def test_options_reach_the_engine(generated):
    path = generated["planted"]
    assert plimsoll.open(path, device=0).devices == plimsoll.open(path, device="cuda:0").devices
    for at in ("peak", "end", 3, "1ms"):
        plimsoll.open(path, at=at, top=1)
    few, many = plimsoll.open(path, top=1), plimsoll.open(path, top=5)
    assert len(few.tables["by_size"]) < len(many.tables["by_size"])


@pytest.mark.parametrize("wrong", [{"device": "cuda:9"}, {"at": "noon"}, {"at": -1}, {"top": -1}])
def test_wrong_arguments_are_value_errors(generated, wrong):
    with pytest.raises(plimsoll.InvalidArgumentError) as caught:
        plimsoll.open(generated["healthy"], **wrong)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "invalid_argument"
    assert str(next(iter(wrong.values()))) in str(caught.value)


def test_bytes_path_is_refused_with_a_message(generated):
    with pytest.raises(TypeError, match="bytes; plimsoll takes str"):
        plimsoll.open(bytes(generated["healthy"]))


def test_zero_byte_in_path_is_refused(generated):
    with pytest.raises(ValueError, match="zero byte"):
        plimsoll.open(f"{generated['healthy']}\0.pickle")


def test_path_that_is_not_utf8(generated, tmp_path):
    path = tmp_path / "gr\udcffün.pickle"  # surrogate escape of the byte 0xFF
    path.write_bytes(generated["healthy"].read_bytes())
    assert plimsoll.open(path).devices
    path.write_bytes(b"\x80\x04")
    with pytest.raises(plimsoll.CorruptError, match=r"gr\\xffün"):
        plimsoll.open(path)


def test_missing_file_is_a_file_not_found_error(tmp_path):
    path = tmp_path / "none.pickle"
    with pytest.raises(FileNotFoundError) as caught:
        plimsoll.open(path)
    assert isinstance(caught.value, plimsoll.Error)
    assert (caught.value.errno, caught.value.filename) == (2, str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", plimsoll.CorruptError),
        (b"hello, world", plimsoll.UnsupportedError),
        (b"\x80\x04}\x94(", plimsoll.CorruptError),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.", plimsoll.UnsafeFileError),
    ],
)
def test_unreadable_files(tmp_path, content, kind):
    path = tmp_path / "file.pickle"
    path.write_bytes(content)
    with pytest.raises(plimsoll.UnreadableError, match=r"file\.pickle") as caught:
        plimsoll.open(path)
    assert type(caught.value) is kind


def test_errors_survive_another_process(tmp_path):
    with pytest.raises(plimsoll.NotFoundError) as caught:
        plimsoll.open(tmp_path / "none")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (plimsoll.NotFoundError, str(caught.value))
    assert copy.errno == caught.value.errno


def test_progress_is_reported(generated):
    calls = []
    plimsoll.open(generated["training"], progress=lambda *call: calls.append(call))
    assert calls
    for stage, done, total in calls:
        assert isinstance(stage, str)
        assert 0 <= done <= total or total == 0


def test_what_progress_raises_comes_out_of_open(generated):
    class EnoughError(Exception):
        pass

    def stop(stage, done, total):
        raise EnoughError(stage)

    with pytest.raises(EnoughError):
        plimsoll.open(generated["training"], progress=stop)


def test_control_c_stops_it(generated):
    def press_control_c(stage, done, total):
        signal.raise_signal(signal.SIGINT)

    # Other tests run third-party trainers, which install their own handlers.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            plimsoll.open(generated["training"], progress=press_control_c)
    finally:
        signal.signal(signal.SIGINT, before)


def test_many_threads_simultaneously(generated):
    reports = []

    def work():
        reports.append(plimsoll.open(generated["training"]).devices)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 8
    assert all(report == reports[0] for report in reports)


@pytest.mark.parametrize("wanted", plimsoll.export_formats(), ids=lambda wanted: wanted.name)
def test_each_export_format_writes_a_file(trace, wanted, tmp_path):
    by_name = tmp_path / "by_name"
    by_suffix = tmp_path / f"trace{wanted.suffix}"
    trace.export(str(by_name), wanted.name)
    trace.export(by_suffix)
    assert by_name.stat().st_size > 0
    assert by_suffix.read_bytes() == by_name.read_bytes()


def test_export_lists_the_formats(trace, tmp_path):
    with pytest.raises(plimsoll.InvalidArgumentError, match="has no known suffix"):
        trace.export(tmp_path / "trace.bin")
    with pytest.raises(plimsoll.InvalidArgumentError, match="there is no export format tar"):
        trace.export(tmp_path / "trace.bin", "tar")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("blocked", ["no folder", "a folder"])
def test_failed_export_names_the_requested_file(trace, tmp_path, blocked):
    target = tmp_path / "no folder" / "memory.json" if blocked == "no folder" else tmp_path
    with pytest.raises(OSError) as caught:
        trace.export(target, "speedscope")
    assert caught.value.filename == str(target)
    assert "partial" not in str(caught.value)


def test_export_keeps_links_and_writes_to_pipes(trace, tmp_path):
    target, link, pipe = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    trace.export(link, format="json")
    assert link.is_symlink()
    assert json.loads(target.read_text())
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(pipe.read_text)
        trace.export(pipe, format="json")
        assert json.loads(reading.result()) == json.loads(target.read_text())
    assert pipe.is_fifo()


def test_export_does_not_overwrite_its_recording(generated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recording, link = tmp_path / "run.pickle", tmp_path / "link.json"
    recording.write_bytes(generated["planted"].read_bytes())
    link.symlink_to(recording)
    opened = plimsoll.open("run.pickle")
    monkeypatch.chdir("/")
    for path in (recording, link):
        for trace in (opened, opened.ask(at="end")):
            with pytest.raises(plimsoll.InvalidArgumentError, match="is the recording itself"):
                trace.export(path, format="json")
    assert recording.read_bytes() == generated["planted"].read_bytes()


def test_export_overwrites_no_file_of_another_name(trace, tmp_path):
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / f"out.json.{os.getpid()}.partial").symlink_to(other)
    with pytest.raises(OSError):
        trace.export(tmp_path / "out.json", format="json")
    assert other.read_text() == "kept"


def test_failed_export_leaves_the_old_file(trace, tmp_path):
    with pytest.raises(FileNotFoundError):
        trace.export(tmp_path / "no folder" / "trace.folded", "collapsed")
    old = tmp_path / "trace.json"
    old.write_text("old")
    with pytest.raises(plimsoll.InvalidArgumentError):
        trace.export(old, "tar")
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [Path(old)]


def test_summary_is_what_the_command_prints(generated, plimsoll_command):
    path = generated["planted"]
    printed = subprocess.run(
        [plimsoll_command, "report", path, "--full", "--by", "size", "--top", "3"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    ours = plimsoll.open(path, top=3).summary(by=["size"], top=3)
    assert ours.splitlines()[:5] == printed.splitlines()[:5]


def test_summary_refuses_unknown_tables(trace):
    with pytest.raises(plimsoll.InvalidArgumentError, match="there is no table colour"):
        trace.summary(by="colour")


def test_print_summary_prints_str(trace, capsys):
    trace.print_summary()
    assert capsys.readouterr().out == str(trace)
