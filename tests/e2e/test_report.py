"""plimsoll report, as users and scripts call it."""

import codecs
import fcntl
import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from .bombs import bomb
from .running import complains, environment


def test_json_of_one_file_is_an_object(plimsoll, healthy):
    report = json.loads(plimsoll("report", "--json", healthy).out)
    assert report["source"]["path"] == str(healthy)


def test_json_of_several_files_is_an_array(plimsoll, healthy, planted):
    reports = json.loads(plimsoll("report", "--json", healthy, planted).out)
    assert [report["source"]["path"] for report in reports] == [str(healthy), str(planted)]


def test_each_of_several_files_has_a_heading(plimsoll, healthy, planted):
    lines = plimsoll("report", healthy, planted).out.splitlines()
    assert [line for line in lines if line.startswith("==")] == [
        f"== {healthy} ==",
        f"== {planted} ==",
    ]


def test_one_bad_file_does_not_keep_the_others_from_their_report(plimsoll, healthy, tmp_path):
    missing = tmp_path / "missing.pickle"
    outcome = plimsoll("report", "--json", missing, healthy)
    assert outcome.status == 3
    assert len(json.loads(outcome.out)) == 1
    assert str(missing) in outcome.err
    assert json.loads(plimsoll("report", "--json", missing, missing).out or "[]") == []


@pytest.mark.parametrize(
    "table",
    [
        *("line", "stack", "size", "stream", "pool", "category"),
        *("operator", "layer", "site", "growth", "segment"),
    ],
)
def test_every_table_is_printed(plimsoll, planted, table):
    outcome = plimsoll("report", planted, "--by", table, "--top", "3")
    assert outcome.status == 0, outcome
    assert outcome.err == ""


def test_a_chosen_table_follows_the_titles_of_the_findings(plimsoll, planted):
    titles = [
        each["title"] for each in json.loads(plimsoll("report", "--json", planted).out)["findings"]
    ]
    chosen = plimsoll("report", planted, "--by", "line").out
    assert all(" ".join(title.split()) in " ".join(chosen.split()) for title in titles)
    assert titles and "  \u2192" not in chosen
    assert "  \u2192" in plimsoll("report", planted, "--by", "line", "--full").out


def test_holders_of_a_snapshot_are_not_promised(plimsoll, planted):
    assert "of the format torch_snapshot has no holders" in plimsoll("holders", planted).out


def test_top_counts_rows(plimsoll, planted):
    words = ("report", "--top", "1", "--at", "end", planted)
    report = json.loads(plimsoll(*words, "--json").out)
    _, the_rest = report["tables"]["by_line"]
    assert the_rest["key"].startswith("[other: ")
    assert f"{the_rest['key']}\n" in plimsoll(*words).out


def test_a_single_row_beyond_top_has_its_name(plimsoll, planted):
    """A single remaining row is shown: a row for the rest would be as long."""
    lines = {f"--top={top}": plimsoll("report", f"--top={top}", planted).out for top in (1, 2)}
    assert "[other" not in lines["--top=1"]
    assert lines["--top=1"].count("train.py:117 (main)") == lines["--top=2"].count(
        "train.py:117 (main)"
    )


def test_at_and_device_select_the_point_and_the_device(plimsoll, planted):
    assert "What fills cuda:0 at the start: 0 B" in plimsoll("report", planted, "--at=start").out
    assert plimsoll("report", planted, "--device", "cuda:0").status == 0


def test_a_usage_error_is_status_2(plimsoll, planted):
    complains(plimsoll("report"), 2, "needs a FILE")
    complains(plimsoll(), 2, "plimsoll --help")
    complains(plimsoll("reprot", planted), 2, "no command reprot; did you mean report?")
    complains(plimsoll("report", planted, "--jsno"), 2, "--jsno; did you mean --json?")
    complains(plimsoll("report", planted, "--by", "lien"), 2, "did you mean line?")
    complains(plimsoll("report", planted, "--top", "0"), 2, "--top 0")
    complains(plimsoll("report", planted, "--top", "ten"), 2, "--top ten")
    complains(plimsoll("report", planted, "--at", "noon"), 2, 'at "noon"', "peak")
    complains(plimsoll("report", planted, "--at", "oom:0"), 2, 'at "oom:0"', "oom:1")
    complains(plimsoll("report", planted, "--at", "oom:9"), 2, "oom:9 is not in", "oom:1")
    complains(plimsoll("report", planted, "--device", "cuda:7"), 2, "cuda:7", "cuda:0")
    complains(plimsoll("report", planted, "--color", "red"), 2, "--color red")


def test_a_report_is_one_screen_unless_more_is_asked_for(plimsoll, planted, healthy):
    for path in (planted, healthy):
        lines = plimsoll("report", path).out.splitlines()
        assert len(lines) <= 24
        assert lines[-1] == f"Everything: plimsoll report --full {shlex.quote(str(path))}"
    brief = plimsoll("report", planted).out
    for more in (("--full",), ("--by", "line"), ("--top", "3"), ("--at", "end")):
        text = plimsoll("report", planted, *more).out
        assert "Everything:" not in text
        assert text.splitlines()[0] == brief.splitlines()[0]


def test_no_colour_when_piped(plimsoll, planted):
    assert "\x1b" not in plimsoll("report", planted).out
    assert "\x1b[" in plimsoll("report", planted, "--color", "always").out
    assert "\x1b" not in plimsoll("report", planted, "--color=never").out


class Terminal:
    """The command with stdout and stderr on a terminal."""

    def __init__(self, command, *words, env=None, columns=100):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [command, *map(str, words)],
            stdout=theirs,
            stderr=theirs,
            env=environment() | {"TERM": "xterm"} | (env or {}),
        )
        os.close(theirs)
        self.shown = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()  # reads may end within a character

    def read(self) -> bool:
        """Wait for more output; return False if the command has closed the terminal."""
        assert select.select([self.ours], [], [], 120)[0], self.shown
        try:
            self.shown += self.decoder.decode(os.read(self.ours, 65536))
        except OSError:  # Linux reports a closed other end this way
            return False
        return True

    def status(self) -> int:
        """Read to the end; return the exit status."""
        while self.read():
            pass
        os.close(self.ours)
        return self.process.wait(120)


@pytest.mark.parametrize(("columns", "most"), [(80, 80), (120, 120), (200, 200), (300, 200)])
def test_a_report_is_as_wide_as_the_terminal(plimsoll_command, planted, columns, most, tmp_path):
    path = tmp_path / ("folder " * 30) / "planted.pickle"
    path.parent.mkdir()
    path.symlink_to(planted)
    terminal = Terminal(
        plimsoll_command, "report", "--full", path, env={"NO_COLOR": "1"}, columns=columns
    )
    assert terminal.status() == 0
    lines = terminal.shown.replace("\r", "").splitlines()
    widest = max(map(len, lines))
    assert most - 3 <= widest <= most
    first = lines.index("")
    assert max(map(len, lines[:first])) <= 100


def on_a_terminal(command, *words, env=None):
    terminal = Terminal(command, *words, env=env)
    assert terminal.status() == 0
    return terminal.shown


@pytest.fixture
def endless(tmp_path):
    """A file that takes longer to read than any test waits."""
    path = tmp_path / "endless.pickle"
    path.write_bytes(bomb(b"\x80\x04", b"N0", 8_000_000_000))
    return path


def test_a_long_job_shows_its_progress_and_stops_at_ctrl_c(plimsoll_command, endless):
    terminal = Terminal(plimsoll_command, "report", endless)
    while "reading endless.pickle" not in terminal.shown:
        assert terminal.read(), terminal.shown
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.status() == 130
    assert terminal.shown.rstrip().endswith("stopped while reading")


def cpu_seconds(pid):
    """Return the CPU time of the main thread, a lower bound of the elapsed time."""
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_no_progress_bar_when_piped(plimsoll_command, endless):
    words = [plimsoll_command, "report", str(endless)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: cpu_seconds(process.pid) > 1.5)  # a terminal shows the bar after 1 s
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert out == b""
    assert err.startswith(b"plimsoll: ")
    assert err.count(b"\n") == 1


def test_colour_on_a_terminal_unless_no_color(plimsoll_command, planted):
    words = ("report", planted)
    assert "\x1b[" in on_a_terminal(plimsoll_command, *words)
    assert "\x1b" not in on_a_terminal(plimsoll_command, *words, env={"NO_COLOR": "1"})
    assert "\x1b" not in on_a_terminal(plimsoll_command, *words, env={"TERM": "dumb"})


def test_a_terminal_gets_a_chart_after_the_findings(plimsoll_command, planted, golden):
    shown = on_a_terminal(plimsoll_command, "report", "--full", planted, env={"NO_COLOR": "1"})
    parts = shown.replace("\r", "").split("\n\n")
    (at,) = [at for at, part in enumerate(parts) if part.startswith("Memory on cuda:0 over time")]
    assert parts[at + 1].startswith("cuda:0  ")
    assert {part.split(" ")[0] for part in parts[:at]} <= {"CRITICAL", "WARNING", "INFO"}
    golden(parts[at] + "\n", "over_time/planted.txt")
    colored = on_a_terminal(plimsoll_command, "report", "--full", planted)
    assert "\x1b[38;5;32m\u25a0\x1b[0m parameter" in colored


@pytest.mark.parametrize("options", [("--full", "--no-chart"), ("--full", "--json"), ()])
def test_a_report_without_a_chart(plimsoll_command, planted, options):
    assert "over time" not in on_a_terminal(plimsoll_command, "report", planted, *options)


def test_no_chart_when_piped(plimsoll, planted):
    assert "over time" not in plimsoll("report", "--full", planted, "--color", "always").out


def test_a_reader_that_closes_its_end_causes_no_error(plimsoll_command, planted):
    line = f"{plimsoll_command} report '{planted}' --by stack --by segment | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, check=False)
    assert ran.returncode == 0
    assert ran.stderr == b""


def test_a_full_disk_is_reported(plimsoll, planted):
    with open("/dev/full", "wb") as full:
        outcome = plimsoll("report", planted, stdout=full)
    assert outcome.status == 4
    assert "No space left" in outcome.err


def test_snapshots_are_ranks_by_their_names_or_in_order(plimsoll, planted, tmp_path):
    named = [tmp_path / f"snap_rank{number}.pickle" for number in range(2)]
    others = [tmp_path / name for name in ("a.pickle", "b.pickle")]
    for path in (*named, *others):
        path.write_bytes(planted.read_bytes())
    assert "== 2 ranks ==" in plimsoll("report", *named).out
    assert "== 2 ranks ==" not in plimsoll("report", *others).out
    assert "== 2 ranks ==" in plimsoll("report", "--ranks", *others).out
