"""Recordings that begin when torch has been imported: `plimsoll run` and ``PLIMSOLL=1``."""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any

from plimsoll._process.arguments import did_you_mean
from plimsoll._process.messages import print_notice
from plimsoll._process.paths import default_path, launched_rank, of_rank
from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll._process.quiet_files import write_all
from plimsoll._process.sizes import size_text
from plimsoll._start.torch_import import call_after_torch, has_program_failed
from plimsoll.errors import Error, InvalidArgumentError
from plimsoll.recording import Recording, record


def begin_run(text: str) -> None:
    """Start the recording of `plimsoll run`; `text` has the options, as JSON from `launch`."""
    options = json.loads(text)
    output, folder = options.pop("output"), options.pop("folder")
    output = output or os.environ.get("PLIMSOLL_OUT")
    begin_with_torch(os.path.join(folder, of_rank(output) if output else default_path()), **options)


def begin_with_torch(path: str, **options: Any) -> None:
    """Start recording when torch has been imported; at exit, print where the recording is.

    It does not start earlier, because a script may still set variables that torch reads when it is
    imported.
    """
    try:
        recording = record(path, **options)
    except (Error, OSError) as error:  # such as an invalid variable: the program runs unrecorded
        leave_to_program(error)
        print_notice(f"{error}; nothing is recorded")
        return
    if digests := os.environ.get("PLIMSOLL_DIGESTS"):
        from plimsoll._command.digests import digest_steps

        call_after_torch(lambda: digest_steps(digests))
    pid = os.getpid()
    seconds_before = 0.0  # of children before the start, such as the compiler
    atexit.register(lambda: _report(recording, seconds_before) if os.getpid() == pid else None)

    def begin() -> None:
        try:
            recording.start()
        except Exception as error:
            leave_to_program(error)
            print_notice(f"{error}; nothing is recorded")
        else:
            _list_in_run_log(recording.path)
        nonlocal seconds_before
        seconds_before = _seconds_of_children()

    call_after_torch(begin)


def _seconds_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _not_recorded(state: dict[str, int], seconds: float) -> str:
    """Return a note about child processes that were not recorded."""
    children = state.get("unrecorded_children", 0)
    if children:
        forked = "1 forked child is" if children == 1 else f"{children:,} forked children are"
        return f"; {forked} not in it (--in-children)"
    times = os.times()
    if seconds < 1 or (state and seconds < times.user + times.system):
        return ""
    return "; for processes that it starts, use PLIMSOLL=1 after plimsoll enable"


def _report(recording: Recording, seconds_before: float) -> None:
    recording.stop()
    others = _not_recorded(recording.state, _seconds_of_children() - seconds_before)
    if not recording.state:
        if "torch" not in sys.modules and not has_program_failed():
            print_notice(f"torch was not imported, so nothing was recorded{others}")
        return
    if (fleet := os.environ.get("PLIMSOLL_FLEET")) and recording.state["events"]:
        _add_to_fleet(recording.path, fleet)
    if os.environ.get("PLIMSOLL_RUN_LOG"):
        return  # the command that runs this program reports it
    path = _shown(recording.path)
    if not recording.state["events"] and not recording.state["error"]:
        print_notice(f"{path}: the program ended before it allocated a tensor{others}")
        return
    peaks = ", ".join(f"{name} {size_text(peak)}" for name, peak in recording.peaks.items())
    # The name of the device is omitted if it is the CPU alone.
    peak = peaks if set(recording.peaks) - {"cpu"} else size_text(recording.peak_bytes)
    print_notice(
        f"{path}: {_held(recording.state)}, peak {peak}{others}; to see it: plimsoll report {path}"
    )


def _add_to_fleet(path: str, folder: str) -> None:
    """Add the recording, in a process of its own: this one is ending."""
    import subprocess  # only here: other programs need not wait for it

    job = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")]
    run = next((each for each in job if each not in ("", "none")), "")
    if not run and launched_rank() is None:  # each recording is a run
        run = os.path.splitext(os.path.basename(path))[0]
    words = [sys.executable, "-m", "plimsoll._command.fleet", "add", folder, path]
    environment = {name: value for name, value in os.environ.items() if name != "PLIMSOLL"}
    words += [f"--run={run}"] if run else []
    try:
        ran = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except (OSError, ValueError) as error:
        print_notice(f"{path} is not added to {folder}: {error}")
        return
    said = (ran.stderr or ran.stdout).decode(errors="replace").splitlines()
    print_notice(said[-1].removeprefix("plimsoll: ") if said else f"{folder}: nothing was added")


def _held(state: dict[str, int]) -> str:
    if state["error"]:
        return f"incomplete ({os.strerror(state['error'])})"
    events = f"{state['events']:,} event" + ("" if state["events"] == 1 else "s")
    return f"the newest of {events}" if state["evicted"] else events


def _shown(path: str) -> str:
    try:
        relative = os.path.relpath(path)
    except FileNotFoundError:  # the current folder has been removed
        return path
    return path if relative.startswith("..") else relative


def begin_as_environment_says() -> None:
    """Handle ``PLIMSOLL=1`` at ``import plimsoll``; children of multiprocessing do nothing."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return
    path = os.environ.get("PLIMSOLL_OUT")
    try:
        options: dict[str, Any] = {
            "max_events": _event_limit(),
            "stacks": _choice("PLIMSOLL_STACKS", ("1", "0")) == "1",
            "source_text": _choice("PLIMSOLL_SOURCE_TEXT", ("1", "0")) == "1",
            "mode": _choice("PLIMSOLL_MODE", ("full", "lite")),
            "uses": _choice("PLIMSOLL_USES", ("auto", "always", "sampled", "never")),
            "attribution": _choice("PLIMSOLL_ATTRIBUTION", ("observer", "native")),
            "in_children": _choice("PLIMSOLL_IN_CHILDREN", ("0", "1")) == "1",
            "adapter": _choice("PLIMSOLL_ADAPTER", ("auto", "libtorch", "python", "none")),
        }
    except InvalidArgumentError as error:
        print_notice(f"{error}; nothing is recorded")
        return
    begin_with_torch(of_rank(path) if path else default_path(), **options)


def _choice(variable: str, choices: tuple[str, ...]) -> str:
    """Return the value of an environment variable; the first choice if it is empty or not set."""
    value = os.environ.get(variable) or choices[0]
    if value in choices:
        return value
    known = ", ".join(choices) + did_you_mean(value, choices)
    message = f"{variable}={value!r} is not one of {known}"
    raise InvalidArgumentError("invalid_argument", message)


def _event_limit() -> int | None:
    value = os.environ.get("PLIMSOLL_MAX_EVENTS") or "0"
    if value.isascii() and value.isdigit() and len(value) < 19:
        return int(value) or None
    message = f"PLIMSOLL_MAX_EVENTS={value!r} is not a whole number"
    raise InvalidArgumentError("invalid_argument", message)


def _list_in_run_log(path: str) -> None:
    """Report the file to ``plimsoll run -- PROGRAM``, as src/record/environment.cc does."""
    log = os.environ.get("PLIMSOLL_RUN_LOG")
    if not log:
        return
    line = b"recording %d %s\n" % (os.getpid(), os.fsencode(path))
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC  # RDWR: does not wait for the reader of a pipe
    with Suppressed(OSError, ValueError), open(os.open(log, flags), "wb") as file:
        write_all(file.fileno(), line)  # if this fails, the run is recorded but not reported
