"""``plimsoll run SCRIPT ARGS…``: replaces this process with the Python that runs the script.

The command executes this file by its path, so that neither plimsoll nor a module of the current
folder is imported. It imports nothing from plimsoll.
"""

import argparse
import difflib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

_LONG = ("-W", "-X", "--")  # prefixes of options that are not groups of letters
_MODES = ("full", "lite")
_USES = ("auto", "always", "sampled", "never")
_ATTRIBUTIONS = ("observer", "native")
_VARIABLES = (
    *("PLIMSOLL_OUT", "PLIMSOLL_MODE", "PLIMSOLL_MAX_EVENTS", "PLIMSOLL_STACKS"),
    *("PLIMSOLL_SOURCE_TEXT", "PLIMSOLL_USES"),
    *("PLIMSOLL_IN_CHILDREN", "PLIMSOLL_ADAPTER", "PLIMSOLL_CACHE", "PLIMSOLL_LIVE"),
    *("PLIMSOLL_LIVE_FOLDER", "PLIMSOLL_PYTHON", "PLIMSOLL_CUDA_LIBRARY", "PLIMSOLL_RUN_LOG"),
    *("PLIMSOLL_FLEET", "PLIMSOLL_ATTRIBUTION"),
)
_PYTHON = re.compile(r"python[0-9.]*")
_ADAPTERS = ("auto", "libtorch", "python", "none")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_START = os.path.join(_PACKAGE, "_start")


def launch(words: Sequence[str], interpreter_words: Sequence[str] = ()) -> None:
    """Replace this process with a Python that starts with `_start/sitecustomize.py`.

    Args:
        words: The arguments after ``plimsoll run``.
        interpreter_words: Options for the interpreter, such as ``-X dev``.
    """
    options = _options(words)
    interpreter_words = [*interpreter_words, *options.interpreter_words]
    del options.interpreter_words
    if set("EIS") & set("".join(each for each in interpreter_words if each[:2] not in _LONG)):
        _fail("nothing can be recorded under python -E, -I or -S; leave them out")
    if os.pathsep in _START:
        _fail(f"plimsoll is installed in {_START}, and PYTHONPATH cannot hold a '{os.pathsep}'")
    target = ["-m", *options.script] if options.module else options.script
    del options.script, options.module, options.cuda_driver
    _check_output(options.output or os.environ.get("PLIMSOLL_OUT") or "plimsoll.plim")
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # the current folder has been removed
        folder = ""
    environment = _first_environment()
    old = environment.get(b"PYTHONPATH")
    if old is not None:
        environment[b"PLIMSOLL_RUN_PYTHONPATH"] = old
    if options.fleet:
        is_remote = "://" in options.fleet
        fleet = options.fleet if is_remote else os.path.join(folder, options.fleet)
        environment[b"PLIMSOLL_FLEET"] = os.fsencode(fleet)
    del options.fleet
    path = os.fsencode(_START)
    environment[b"PYTHONPATH"] = path + b":" + old if old else path
    environment[b"PLIMSOLL_RUN_OPTIONS"] = json.dumps(vars(options) | {"folder": folder}).encode()
    python = sys.executable or sys.orig_argv[0]
    os.execve(python, [sys.orig_argv[0], *interpreter_words, *target], environment)


def interpreter_words(words: Sequence[str]) -> Iterator[str]:
    """Return the options before ``-m plimsoll`` in a command line of Python.

    Example:
        >>> list(interpreter_words(["-X", "dev", "-bm", "plimsoll", "run", "train.py"]))
        ['-X', 'dev', '-b']
    """
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            yield word
            if word == "--check-hash-based-pycs":
                yield next(rest)
            continue
        for index, letter in enumerate(word[1:], start=1):
            if letter == "m":
                if index > 1:
                    yield word[:index]
                return
            if letter in "WX":
                yield word
                if index == len(word) - 1:
                    yield next(rest)
                break
        else:
            yield word


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="plimsoll run",
        description="Run a Python script and record its memory.",
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--output", metavar="PATH", help="the trace file")
    parser.add_argument(
        "--force", dest="overwrite", action="store_true", help="replace an earlier trace at PATH"
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is a module name, as in python -m"
    )
    parser.add_argument(
        "--max-events", type=_events, metavar="N", help="keep about the newest N events"
    )
    parser.add_argument("--mode", type=_one_of(_MODES))
    parser.add_argument("--uses", type=_one_of(_USES))
    parser.add_argument("--attribution", type=_one_of(_ATTRIBUTIONS))
    parser.add_argument(
        "--no-stacks", dest="stacks", action="store_false", help="record no Python lines"
    )
    parser.add_argument(
        "--no-source-text",
        dest="source_text",
        action="store_false",
        help="record only hashes of the lines' text",
    )
    parser.add_argument(
        "--in-children", action="store_true", help="also record forked children, each into PATH.PID"
    )
    parser.add_argument("--adapter", type=_one_of(_ADAPTERS))
    parser.add_argument("--fleet", metavar="DIR", help="then add the recording to this fleet")
    parser.add_argument("--cuda-driver", action="store_true", help="only for the command plimsoll")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="and arguments")
    actions = parser._option_string_actions
    own, script = _split(words, {name: action.nargs != 0 for name, action in actions.items()})
    options, unknown = parser.parse_known_args(own)
    if unknown:
        known = tuple(each for each in actions if each.startswith("--"))
        parser.error(f"no option {unknown[0]}{_did_you_mean(unknown[0], known)}")
    options.script = script
    if options.cuda_driver:
        parser.error(
            "--cuda-driver needs the command: plimsoll run --cuda-driver -- PROGRAM; if only the "
            "recorder is built, preload libplimsoll_cuda_driver.so (docs/cuda-driver.md)"
        )
    options.interpreter_words = []
    if options.script and _PYTHON.fullmatch(os.path.basename(options.script[0])):
        _take_interpreter(options)
    if not options.script:
        parser.error("no script given")
    try:
        _add_environment(options)
    except argparse.ArgumentTypeError as error:
        _fail(str(error))
    if options.mode == "lite" and options.uses in ("always", "sampled"):
        parser.error(f"--mode lite contradicts --uses {options.uses}: lite observes no uses")
    if options.adapter in ("python", "none") and options.uses in ("always", "sampled"):
        parser.error(
            f"--adapter {options.adapter} contradicts --uses {options.uses}: only libtorch "
            "observes uses"
        )
    return options


def _split(words: Sequence[str], takes_value: dict[str, bool]) -> tuple[list[str], list[str]]:
    """Return plimsoll's options, and the script with its arguments."""

    def is_followed_by_value(word: str) -> bool:
        letters = [] if word.startswith("--") else [f"-{each}" for each in word[1:]]
        names = letters or [word]  # -mo PATH: the last of several letters may take a value
        *flags, last = [takes_value.get(each) for each in names]
        return last is True and all(each is False for each in flags)

    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        at += 2 if is_followed_by_value(words[at]) and at + 1 < len(words) else 1
    dashes = at < len(words) and words[at] == "--"
    return list(words[:at]), list(words[at + dashes :])


def _take_interpreter(options: argparse.Namespace) -> None:
    """Remove ``python -u`` from the script's arguments, and note whether ``-m`` follows."""
    rest = options.script[1:]
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        letters = "" if word.startswith("--") else word[1:]
        if "c" in letters.partition("m")[0] and word[:2] not in _LONG:
            _fail("plimsoll run records a script or a module: write the code after -c into a file")
        if letters.endswith("m") and word[:2] not in _LONG:
            options.module = True
            if letters[:-1]:
                options.interpreter_words.append(word[:-1])
            break
        options.interpreter_words.append(word)
        if word in ("-W", "-X", "--check-hash-based-pycs") and rest:
            options.interpreter_words.append(rest.pop(0))
    options.script = rest


def _add_environment(options: argparse.Namespace) -> None:
    """Add the options of the environment variables, read as for ``PLIMSOLL=1``."""
    for name in os.environ:
        if name.startswith("PLIMSOLL_") and name not in _VARIABLES:
            near = difflib.get_close_matches(name, _VARIABLES, 1, 0.9)
            if near:
                _say(f"{name} is ignored; did you mean {near[0]}?")
    options.mode = options.mode or _choice("PLIMSOLL_MODE", _MODES)
    options.uses = options.uses or _choice("PLIMSOLL_USES", _USES)
    options.attribution = options.attribution or _choice("PLIMSOLL_ATTRIBUTION", _ATTRIBUTIONS)
    options.adapter = options.adapter or _choice("PLIMSOLL_ADAPTER", _ADAPTERS)
    options.stacks = options.stacks and _choice("PLIMSOLL_STACKS", ("1", "0")) == "1"
    options.source_text &= _choice("PLIMSOLL_SOURCE_TEXT", ("1", "0")) == "1"
    options.in_children |= _choice("PLIMSOLL_IN_CHILDREN", ("0", "1")) == "1"
    limit = os.environ.get("PLIMSOLL_MAX_EVENTS") or "0"
    if options.max_events is None and limit != "0":
        try:
            options.max_events = _events(limit)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"PLIMSOLL_MAX_EVENTS: {error}") from None


def _choice(variable: str, choices: tuple[str, ...]) -> str:
    """Return the value of an environment variable; the first choice if it is empty or not set."""
    value = os.environ.get(variable) or choices[0]
    if value in choices:
        return value
    known = ", ".join(choices) + _did_you_mean(value, choices)
    raise argparse.ArgumentTypeError(f"{variable}={value!r} is not one of {known}")


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """Return a check of an option's value; argparse's own suggests no choice."""

    def check(value: str) -> str:
        if value in choices:
            return value
        known = ", ".join(choices) + _did_you_mean(value, choices)
        raise argparse.ArgumentTypeError(f"{value!r} is not one of {known}")

    return check


def _did_you_mean(value: str, choices: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(value, choices, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _check_output(path: str) -> None:
    """Exit if no recording is possible: running the script would be in vain.

    An error that appears only while writing, such as a full disk, ends the recording but not the
    script.
    """
    try:
        trouble = _trouble_with(path)
    except FileNotFoundError:
        trouble = "the working folder has been removed; give an absolute path"
    except OSError as error:
        trouble = os.strerror(error.errno or 0)
    if trouble:
        _fail(f"cannot record into {path}: {trouble}")


def _trouble_with(path: str) -> str:
    folder = os.path.dirname(os.path.abspath(path))
    if path.endswith("/") or os.path.isdir(path):
        return "it is a folder; give the name of a file in it"
    while not os.path.lexists(folder):  # missing folders will be created
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return _trouble_in(folder)
    if stat.S_ISSOCK(there.st_mode):
        return "it is a socket"
    is_used = not stat.S_ISREG(there.st_mode) or there.st_size == 0  # else the next free name
    if is_used and not os.access(path, os.W_OK):
        return "it is not writable"
    return "" if is_used else _trouble_in(folder)


def _trouble_in(folder: str) -> str:
    """Return why no file can be created there; permissions do not show it, as in /proc."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} is not writable"
    path = os.path.join(folder, f".plimsoll-{os.getpid()}")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return f"no file can be created in {folder} ({os.strerror(error.errno or 0)})"
    os.unlink(path)
    return ""


def _events(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:19]) < 10**18:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with one sentence; --help prints the usage."""
        _fail(f"{message} (plimsoll run --help)")


def _first_environment() -> dict[bytes, bytes]:
    """Return the environment with which this process started; Python adds LC_CTYPE to its own."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)


def _say(sentence: str) -> None:
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in sentence)
    print(f"plimsoll run: {shown}", file=sys.stderr)


def _fail(sentence: str) -> NoReturn:
    _say(sentence)
    sys.exit(2)


if __name__ == "__main__":
    launch(sys.argv[1:])
