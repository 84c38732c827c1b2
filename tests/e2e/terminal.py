"""A terminal for the command under test: its screen, its keys, and its final state."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

PATIENCE_S = 120
ENTER = "\x1b[?1049h"
LEAVE = "\x1b[?1049l"
END = b"\0the end\0"


class Terminal:
    """Runs a command in a separate terminal until the end of the `with` block."""

    def __init__(self, command: list[str], env: dict[str, str], columns: int = 90, rows: int = 30):
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self._theirs)
        self.shown = ""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=env,
        )

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, which signals the program (as the kernel does for its session)."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read(self, seconds: float) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.shown += os.read(self._ours, 65536).decode(errors="replace")

    def until(self, text: str) -> str:
        """Wait until the text is shown; return and discard the output up to it."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < end, f"{text!r} is not in {self.shown!r}"
            self._read(0.05)
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def ended(self) -> int:
        """Wait for the end; return the exit status."""
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self._read(0.05)
        os.write(self._theirs, END)  # after all output of the program
        self.shown = self.until(END.decode()).removesuffix(END.decode())
        return self.process.returncode

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before


def plain(text: str) -> str:
    """Remove colors, cursor movements and carriage returns."""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", text)
