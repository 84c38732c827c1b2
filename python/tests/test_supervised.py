"""The supervisor of the adapter's compiler: it ends hung commands, and ends with the program."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from compiler_processes import hanging_compiler, is_running
from tests.support.waiting import wait_until

from plimsoll._torch import adapter, supervised

SUPERVISED = Path(adapter.__file__).with_name("supervised.py")


def test_a_compiler_that_computes_is_not_taken_for_one_that_hangs(tmp_path):
    busy = "import time\nwhile time.process_time() < 1.5: pass"
    words = [sys.executable, "-I", "-S", SUPERVISED, "0.5", sys.executable, "-c", busy]
    assert subprocess.run(words, check=False).returncode == 0


@pytest.mark.parametrize(
    ("code", "is_slow"), [("while True: pass", True), ("import time; time.sleep(600)", False)]
)
def test_a_command_that_waits_for_a_processor_is_slow_and_does_not_hang(code, is_slow):
    program = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        wait_until(lambda: supervised._use_of(program.pid)[1] == is_slow)
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_compiler_dies_with_the_program(end, tmp_path):
    words = ["-I", "-S", str(SUPERVISED), "600", str(hanging_compiler(tmp_path))]
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, *{words}])"
    program = subprocess.Popen([sys.executable, "-c", code])
    wait_until((tmp_path / "pid").exists)
    program.send_signal(end)
    program.wait()
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_a_supervisor_that_is_ended_before_it_is_ready_leaves_no_process(tmp_path):
    """SIGTERM may arrive after the compiler has started and before its handler is installed."""
    code = (
        "import signal, sys, time\nfrom plimsoll._torch import supervised\n"
        "install = signal.signal\n"
        "def install_late(*words):\n"
        "    while signal.SIGTERM not in signal.sigpending(): time.sleep(0.01)\n"
        "    install(*words)\n"
        "signal.signal = install_late\n"
        f"sys.argv[1:] = ['600', {str(hanging_compiler(tmp_path))!r}]\nsupervised.main()"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    wait_until((tmp_path / "pid").exists)
    supervisor.terminate()
    assert supervisor.wait() == 143
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))


@pytest.mark.parametrize(
    ("words", "status"),
    [(["false"], 1), (["sh", "-c", "kill -SEGV $$"], 139), (["/nonexistent"], 127)],
)
def test_the_status_of_a_supervised_command(words, status):
    ran = subprocess.run(
        [sys.executable, "-I", "-S", SUPERVISED, "60", *words], check=False, capture_output=True
    )
    assert ran.returncode == status
