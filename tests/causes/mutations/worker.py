"""Record programs, each in a forked process, so that none sees what another has left.

    python -m tests.causes.mutations.worker MUTATION VERSION FOLDER PROGRAM...

Writes FOLDER/PROGRAM.plim, and prints a line of JSON for each program: `changes` is the number of
changes while it ran, `error` why there is no recording.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import torch
from tests.causes import registry
from tests.causes.mutations import running

import plimsoll

# Limits of one program, in seconds.
CPU_SECONDS = 120
LONGEST_WAIT = 600.0
POLL = 0.02


def file_name(program: str) -> str:
    return program.replace("/", "_") + ".plim"


def last_words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200]


def record(run: registry.Program, path: Path, context: running.Context) -> dict[str, object]:
    applied: running.Applied = Counter()
    torch.manual_seed(0)
    random.seed(0)
    try:
        with context(applied), plimsoll.record(path, uses="always", overwrite=True):
            run()
    except BaseException as error:  # a program may exit
        traceback.print_exc()
        path.unlink(missing_ok=True)
        return {"error": last_words(error)}
    gc.collect()
    return {"changes": sum(applied.values())}


def wait(process: int) -> bool:
    """Wait for a forked process; whether it ended in time. Counts its own polls, so that a machine
    that is suspended or busy ends no program early."""
    for _ in range(int(LONGEST_WAIT / POLL)):
        if os.waitpid(process, os.WNOHANG)[0]:
            return True
        time.sleep(POLL)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def in_fork(run: registry.Program, path: Path, context: running.Context) -> dict[str, object]:
    result = path.with_suffix(".result")
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        with path.with_suffix(".log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            with contextlib.suppress(BaseException):
                result.write_text(json.dumps(record(run, path, context)))
            log.flush()
            os._exit(0)
    is_done = wait(process)
    answer = json.loads(result.read_text()) if result.exists() else {}
    result.unlink(missing_ok=True)
    if not answer:
        path.unlink(missing_ok=True)
        return {"error": "it crashed or needed too long" if is_done else "it hangs"}
    path.with_suffix(".log").unlink()
    return answer


def main() -> None:
    mutation, version, folder, *names = sys.argv[1:]
    running.prepare(mutation)
    contexts = running.RUN_MUTATIONS.get(mutation, [])
    context = contexts[int(version)] if contexts else running.unchanged
    programs = registry.load()
    gc.collect()
    gc.freeze()
    for name in names:
        path = Path(folder) / file_name(name)
        began = time.monotonic()
        answer = in_fork(programs[name], path, context)
        answer |= {"program": name, "seconds": round(time.monotonic() - began, 1)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
