"""`python -m plimsoll run SCRIPT args…`: a script as Python runs it, and recorded."""

from __future__ import annotations

import argparse
import atexit
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from plimsoll._sizes import size_text
from plimsoll.recording import Recording, default_path, of_rank, record

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def run(words: Sequence[str]) -> None:
    """Runs a script or module with the words that follow it; comes back when it has ended."""
    options = _options(words)
    target, *arguments = options.script
    sys.argv = [target, *arguments]
    path = os.path.abspath(of_rank(options.output) if options.output else default_path())
    begin_with_torch(
        path,
        max_events=options.max_events,
        stacks=not options.no_stacks,
        mode=options.mode,
        in_children=options.in_children,
        adapter=options.adapter,
    )
    _leave_our_frames_out()
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        _run_script(target)


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="plimsoll run", description="Run a Python script and record what it does to memory."
    )
    parser.add_argument("-o", "--output", metavar="PATH", help="the trace file")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("--max-events", type=int, metavar="N", help="keep the newest N, about")
    parser.add_argument("--mode", choices=("full", "lite"), default="full")
    parser.add_argument("--no-stacks", action="store_true", help="note no Python lines")
    parser.add_argument("--in-children", action="store_true", help="forked children record too")
    parser.add_argument("--adapter", choices=("auto", "libtorch", "python", "none"), default="auto")
    parser.add_argument("--cuda-driver", action="store_true", help="of the command alone")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="and its words")
    options = parser.parse_args(list(words))
    if options.cuda_driver:
        parser.error(
            "--cuda-driver belongs to the command: plimsoll run --cuda-driver -- PROGRAM; where "
            "only the recorder is built, preload libplimsoll_cuda_driver.so (docs/cuda-driver.md)"
        )
    if options.script and options.script[0] == "--":
        del options.script[0]
    if not options.script:
        parser.error("say which script to run")
    return options


def _run_script(script: str) -> None:
    """As the interpreter does it: a fresh ``__main__``, the script's folder first in the path."""
    if os.path.isdir(script) or script.endswith((".zip", ".pyz")):
        runpy.run_path(script, run_name="__main__")
        return
    try:
        with io.open_code(os.path.abspath(script)) as file:
            source = file.read()
    except OSError as error:
        print(f"plimsoll: cannot open {script}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=builtins, __cached__=None)
    global _former_main
    _former_main = sys.modules["__main__"]  # else its names are cleared while we still run in it
    sys.modules["__main__"] = main
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    exec(compile(source, script, "exec", dont_inherit=True), main.__dict__)


_former_main: types.ModuleType | None = None


def _leave_our_frames_out() -> None:
    """A traceback begins where the user's program begins, as it would without us."""
    show = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        inner = traceback
        while inner is not None and _is_ours(inner.tb_frame.f_code.co_filename):
            inner = inner.tb_next
        show(kind, error.with_traceback(inner or traceback), inner or traceback)

    sys.excepthook = hook


def _is_ours(file: str) -> bool:
    return file.startswith((_PACKAGE, "<frozen runpy>")) or file.endswith("/runpy.py")


# ---- beginning when torch does -----------------------------------------------------------------


def begin_with_torch(path: str, **options: Any) -> None:
    """Records from the moment torch has been imported, and says at the end where it lies.

    Not earlier: a script may still set what torch reads when it is imported.
    """
    recording = record(path, **options)
    pid = os.getpid()
    atexit.register(lambda: _tell(recording) if os.getpid() == pid else None)

    def begin() -> None:
        try:
            recording.start()
        except Exception as error:
            print(f"plimsoll: {error}; nothing is recorded", file=sys.stderr)

    if "torch" in sys.modules:
        begin()
    else:
        sys.meta_path.insert(0, _TorchWatcher(begin))


def _tell(recording: Recording) -> None:
    recording.stop()
    if not recording.state:
        if "torch" not in sys.modules:
            print("plimsoll: torch was not imported, so nothing was recorded", file=sys.stderr)
        return
    path = os.path.relpath(recording.path)
    path = recording.path if path.startswith("..") else path
    peaks = ", ".join(f"{name} {size_text(peak)}" for name, peak in recording.peaks.items())
    # Where there is the CPU alone, its name would tell nothing.
    peak = peaks if set(recording.peaks) - {"cpu"} else size_text(recording.peak_bytes)
    print(
        f"plimsoll: {path}: {recording.state['events']:,} events, peak {peak}; "
        f"see it with: plimsoll report {path}",
        file=sys.stderr,
    )


class _TorchWatcher(importlib.abc.MetaPathFinder):
    """Waits for ``import torch``, once."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenLoader(spec.loader, self._then)
        return spec


class _ThenLoader(importlib.abc.Loader):
    """The loader of a module, and something to do when it has been loaded."""

    def __init__(self, loader: Any, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # as if we had not been there
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


# ---- PLIMSOLL=1 --------------------------------------------------------------------------------


def begin_as_environment_says() -> None:
    """What ``PLIMSOLL=1`` does at ``import plimsoll``; children of multiprocessing do nothing."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return
    limit = os.environ.get("PLIMSOLL_MAX_EVENTS", "")
    begin_with_torch(
        of_rank(os.environ["PLIMSOLL_OUT"]) if os.environ.get("PLIMSOLL_OUT") else default_path(),
        max_events=int(limit) if limit.isdigit() and int(limit) > 0 else None,
        stacks=os.environ.get("PLIMSOLL_STACKS", "1") != "0",
        mode=os.environ.get("PLIMSOLL_MODE") or "full",
        in_children=os.environ.get("PLIMSOLL_IN_CHILDREN", "0") == "1",
        adapter=os.environ.get("PLIMSOLL_ADAPTER") or "auto",
    )
