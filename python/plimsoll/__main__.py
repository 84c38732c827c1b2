"""``python -m plimsoll``: handles `run` itself and passes other commands to ``plimsoll``."""

from __future__ import annotations

import os
import shutil
import sys


def main() -> None:
    words = sys.argv[1:]
    if words and words[0] == "run":
        from plimsoll._command.launch import interpreter_words, launch

        launch(words[1:], list(interpreter_words(sys.orig_argv[1:])))
    folder = os.path.dirname(os.path.abspath(sys.executable))
    command = shutil.which("plimsoll", path=folder) or shutil.which("plimsoll")
    if command is None:
        print("plimsoll: the command is not installed; only `run` is available", file=sys.stderr)
        sys.exit(2)
    os.execv(command, [command, *words])


main()
