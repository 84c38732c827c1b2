"""plimsoll top: its pages, lines and keys, and that it restores the terminal."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from .running import Outcome, complains, environment
from .terminal import ENTER, LEAVE, Terminal, plain

FAKE = Path(__file__).parents[1] / "support" / "fake_nvml.cc"
GIB = 1 << 30
ONE_GPU = f"device Tesla T4|GPU-a|{16 * GIB}|{int(15.6 * GIB)}|0|97\nprocess 1 compute na\n"
TWO_GPUS = ONE_GPU + f"device A100|GPU-b|{80 * GIB}|{GIB}|0|0\n"


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """The folder of a fake NVIDIA driver."""
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libnvidia-ml.so.1"
    build = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", str(FAKE), "-o", str(library)]
    subprocess.run(build, check=True)
    return folder


@pytest.fixture
def place(tmp_path, driver):
    """The environment of a machine with these GPUs, on which nothing is recorded."""

    def make(script: str) -> dict[str, str]:
        (tmp_path / "gpus").write_text(script)
        return environment() | {
            "LD_LIBRARY_PATH": str(driver),
            "FAKE_NVML": str(tmp_path / "gpus"),
            "PLIMSOLL_LIVE_FOLDER": str(tmp_path / "live"),
            "TERM": "xterm-256color",
        }

    return make


@pytest.fixture
def screen(plimsoll_command, place):
    """Starts `plimsoll top` in a terminal, and waits for its first page."""

    def start(*words: str, script: str = TWO_GPUS, env: dict[str, str] | None = None) -> Terminal:
        terminal = Terminal([plimsoll_command, "top", *words], place(script) | (env or {}))
        terminal.until(ENTER)
        terminal.until("q quit")
        return terminal

    return start


@pytest.fixture
def answered(plimsoll):
    """Retries until the driver answers in time; returns the printed page or line."""

    def run(*words: str, env: dict[str, str]) -> Outcome:
        outcomes = []

        def is_answered() -> bool:
            outcomes.append(plimsoll("top", "--once", *words, env=env))
            return "not answer" not in outcomes[-1].out + outcomes[-1].err

        wait_until(is_answered)
        return outcomes[-1]

    return run


@pytest.mark.slow  # the driver has to answer in time
def test_once_prints_a_plain_page(plimsoll, answered, place):
    outcome = answered(env=place(ONE_GPU))
    assert outcome.status == 0, outcome
    assert "\x1b" not in outcome.out
    assert re.search(r"^GPU 0  Tesla T4  busy 97%$", outcome.out, re.M)
    assert "15.6 GiB of 16.0 GiB (97%)" in outcome.out
    assert re.search(r"^ +1 +-  not reported by this driver", outcome.out, re.M)
    assert re.search(r"^Host$", outcome.out, re.M)
    assert "No recorded run of yours was found" in outcome.out
    assert "\x1b[" in plimsoll("top", "--once", "--color", "always", env=place(ONE_GPU)).out


@pytest.mark.slow  # the driver has to answer in time
def test_one_line(answered, place):
    outcome = answered("--line", env=place(ONE_GPU))
    assert outcome == type(outcome)(0, "GPU Memory: 15.6 GB / 16.0 GB (97%)\n", "")
    outcome = answered("--line", env=place(TWO_GPUS))
    assert outcome.out.splitlines()[1] == "GPU 1 Memory: 1.0 GB / 80.0 GB (1%)"


@pytest.mark.slow  # the driver has to answer in time
def test_without_a_gpu_lines_show_the_host_and_the_reason_is_printed_once(plimsoll_command, place):
    command = [plimsoll_command, "top", "--line", "--interval", "0.1"]
    lines, errors = [], ""

    def is_answered() -> bool:
        nonlocal lines, errors
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place(""), text=True
        ) as top:
            lines = [top.stdout.readline() for _ in range(3)]
            top.send_signal(signal.SIGINT)
            errors = top.stderr.read()
        assert top.returncode == 130
        return "does not answer" not in errors

    wait_until(is_answered)
    assert all(
        re.fullmatch(r"Host Memory: [\d.]+ GB / [\d.]+ GB \(\d+%\)\n", line) for line in lines
    )
    assert errors.count("\n") == 1
    assert "no GPU: the NVIDIA driver finds no GPU" in errors


def test_top_ends_when_its_output_is_closed(plimsoll_command, place):
    for words in ("--line", ""):
        line = f"{plimsoll_command} top {words} --interval 0.1 | head -n 2"
        ran = subprocess.run(
            line, shell=True, env=place(ONE_GPU), timeout=120, capture_output=True, check=False
        )
        assert ran.returncode == 0
        assert ran.stderr == b""
        assert ran.stdout.count(b"\n") == 2


def test_a_driver_that_hangs_delays_nothing(plimsoll, place):
    outcome = plimsoll("top", "--once", env=place(ONE_GPU + "hang nvmlDeviceGetCount\n"))
    assert outcome.status == 0
    assert "The NVIDIA driver has not answered for" in outcome.out
    assert "Host" in outcome.out


def test_usage_errors(plimsoll, place):
    env = place("")
    complains(plimsoll("top", "--interval", "fast", env=env), 2, "--interval fast is not a number")
    complains(plimsoll("top", "--interval", "0", env=env), 2, "from 0.1 to 3600")
    complains(plimsoll("top", "--pid", "x", env=env), 2, "is not a process id")
    complains(plimsoll("top", "--pid", "999999999", env=env), 2, "there is no process 999999999")
    complains(plimsoll("top", "--pid", "1", "--line", env=env), 2, "cannot be used with --pid")


def test_keys_change_the_page(screen):
    with screen("--interval", "0.1") as terminal:
        terminal.until("A100")  # the driver may answer after the first page
        terminal.type("s")
        terminal.until("sort: pid")
        terminal.type("d")
        page = plain(terminal.until("device: GPU 0"))
        assert "GPU 0 alone" in page
        terminal.type("d")
        terminal.until("device: GPU 1")
        terminal.type("d")
        terminal.until("device: host")
        terminal.type("d")
        terminal.until("device: all")
        terminal.type("p")
        terminal.until("continue (paused)")
        terminal.type(" ")
        terminal.until("p pause")
        terminal.type("?")
        terminal.until("RSS counts shared pages in full")
        terminal.type("q")  # back from the help
        terminal.until("GPU 0")
        terminal.type("q")
        assert terminal.ended() == 0
        assert LEAVE in terminal.shown
        assert terminal.is_as_before()


# With a long interval, a page is drawn only for keys and new sizes.
STILL = ("--interval", "3600")


def test_long_pages_are_scrolled(screen):
    with screen(*STILL) as terminal:
        terminal.resize(90, 8)
        terminal.until("q quit")
        terminal.type("\x1b[B")
        page = plain(terminal.until("q quit"))
        assert "plimsoll top" not in page
        terminal.type("g")
        assert "plimsoll top" in plain(terminal.until("q quit"))


def test_a_page_fits_a_terminal_of_any_size(screen):
    with screen(*STILL) as terminal:
        terminal.until("\x1b[J")
        for columns, rows in ((40, 10), (200, 50), (1, 1), (60, 3)):
            terminal.resize(columns, rows)
            page = terminal.until("\x1b[J")
            lines = plain(page[page.rindex("\x1b[H") :]).split("\n")
            assert len(lines) <= rows
            assert max(map(len, lines)) <= columns
        terminal.type("q")
        assert terminal.ended() == 0


def test_no_color(screen):
    with screen(env={"NO_COLOR": "1"}) as terminal:
        terminal.type("s")
        assert not re.search(r"\x1b\[[0-9;]*m", terminal.until("sort: pid"))
    with screen() as terminal:
        terminal.type("s")
        assert re.search(r"\x1b\[[0-9;]*m", terminal.until("sort: pid"))


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
        (signal.SIGSEGV, -signal.SIGSEGV),
        (signal.SIGABRT, -signal.SIGABRT),
    ],
)
def test_the_terminal_is_as_before_however_it_ends(screen, number, status):
    with screen() as terminal:
        assert not terminal.is_as_before()
        terminal.signal(number)
        assert terminal.ended() == status
        assert LEAVE in terminal.shown
        assert terminal.is_as_before()


def test_control_c_is_a_signal(screen):
    with screen() as terminal:
        terminal.type("\x03")
        assert terminal.ended() == 130
        assert terminal.is_as_before()


def test_stopped_and_continued(screen):
    with screen() as terminal:
        terminal.signal(signal.SIGTSTP)
        terminal.until(LEAVE)
        stat = Path(f"/proc/{terminal.process.pid}/stat")
        wait_until(lambda: stat.read_text().split()[2] == "T")
        assert terminal.is_as_before()
        terminal.signal(signal.SIGCONT)
        terminal.until(ENTER)
        terminal.until("q quit")
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.is_as_before()


def test_a_dumb_terminal_has_plain_pages(plimsoll_command, place):
    env = place(ONE_GPU) | {"TERM": "dumb"}
    with Terminal([plimsoll_command, "top", "--interval", "0.1"], env) as terminal:
        terminal.until("plimsoll top")
        assert "\x1b" not in terminal.until("plimsoll top")
        terminal.type("\x03")
        assert terminal.ended() == 130


def test_keys_need_a_terminal(plimsoll_command, place):
    with Terminal(["sh", "-c", f"{plimsoll_command} top </dev/null"], place("")) as terminal:
        assert terminal.ended() == 2
        assert "standard input is not a terminal" in terminal.shown
