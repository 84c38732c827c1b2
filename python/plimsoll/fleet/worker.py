"""``python -m plimsoll.fleet.worker``: reads recordings for `runners.processes`.

Requests and answers are pickles, on the standard streams.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys

from plimsoll.fleet.partial import partial


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while True:
        try:
            path, options = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(partial(path, options), answers)
        answers.flush()


if __name__ == "__main__":
    main()
