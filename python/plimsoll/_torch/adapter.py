"""The torch adapter: C++ code that is compiled once against the installed torch, and cached.

A wheel may have adapters that were compiled for some versions of torch. They pass the same test.

`load()` returns the loaded module, after compiling it if necessary and testing it. If it is
unavailable, `AdapterError` states the reason in one sentence. Nothing here changes torch's state.
The compiler and the first load of its output run in separate processes, which cannot hang or crash
this one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from plimsoll._process.fresh_thread import call_in_thread
from plimsoll._process.program_errors import leave_to_program
from plimsoll._process.quiet_files import write_all
from plimsoll._torch import adapter_cache
from plimsoll._torch.adapter_cache import Entry
from plimsoll.errors import AdapterError

_HANG_SECONDS = 20  # without CPU time; then the compiler or the first test is killed
_SUPERVISED = str(Path(__file__).with_name("supervised.py"))
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE}
_HANGS = 124
# Headers of Plimsoll that adapters include.
_HEADERS = ("caching_allocator.h", "holders_c.h", "recorder_c.h")


@dataclasses.dataclass(frozen=True)
class AdapterSource:
    """One of the two adapters: the CPU adapter or the CUDA adapter."""

    name: str
    folder: str  # below adapters/
    source: str  # the one file to compile
    libraries: tuple[str, ...]  # torch's libraries
    seconds: int  # approximate time to compile
    headers: Callable[[], list[Path]] = list  # include folders in addition to torch's and Python's
    library_folders: tuple[Path, ...] = ()  # in addition to torch's
    flags: tuple[str, ...] = ()
    # Without the parts that another version of torch or Python is most likely to break; empty: all
    # parts are needed.
    less: tuple[str, ...] = ()


CPU = AdapterSource(
    "_plimsoll_torch",
    "libtorch",
    "python/adapter.cc",
    ("c10", "torch_cpu", "torch", "torch_python"),
    seconds=60,
    less=("-DPLIMSOLL_WITHOUT_HOLDERS",),
)

_loaded: dict[str, ModuleType] = {}
_problems: dict[tuple[str, str], str] = {}


class NotCompiledError(Exception):
    """The adapter is not in the cache yet; the argument is the folder in which it will be."""


def load(say: Callable[[str], object], elsewhere_since_ns: int | None = None) -> Any:
    """Return the CPU adapter, loaded into this process.

    Args:
        say: Called with a line before work that takes a while.
        elsewhere_since_ns: See `compiled`.

    Raises:
        AdapterError: The adapter is unavailable.
        NotCompiledError: See `compiled`.
    """
    return load_adapter(CPU, say, _self_test, elsewhere_since_ns)


def load_adapter(
    adapter: AdapterSource,
    say: Callable[[str], object],
    self_test: Callable[[Any], str | None],
    elsewhere_since_ns: int | None = None,
) -> Any:
    """Return one of the adapters, compiled if necessary and tested.

    Raises:
        AdapterError: The adapter is unavailable.
        NotCompiledError: See `compiled`.
    """
    if adapter.name not in _loaded:
        library = compiled(adapter, say, elsewhere_since_ns)
        module = _imported(adapter.name, library)
        problem = self_test(module)
        if problem is not None:
            raise AdapterError(f"{problem}, so the adapter is not used ({library.path})")
        _loaded[adapter.name] = module
    return _loaded[adapter.name]


@dataclasses.dataclass(frozen=True)
class Library:
    """A compiled adapter that has been checked."""

    path: str  # for messages only; the content is what is loaded
    content: bytes


def sources(adapter: AdapterSource = CPU) -> Path:
    """Return the folder of the adapter's sources, in the package or the repository."""
    package = Path(__file__).resolve().parent.parent
    for root in (package, package.parent.parent):
        folder = root / "adapters" / adapter.folder
        if (folder / adapter.source).is_file():
            return folder
    raise AdapterError(f"the adapter's sources are missing from {package}; install plimsoll again")


def cache_folder() -> Path:
    """Return the folder of compiled adapters, if it can be trusted."""
    return Path(adapter_cache.default_folder())


def command(adapter: AdapterSource, folder: Path, output: Path) -> list[str]:
    """Return the command that compiles one of the adapters."""
    headers = [_torch_root() / "include", _torch_root() / "include/torch/csrc/api/include"]
    headers.append(Path(sysconfig.get_path("include")))
    headers += adapter.headers()
    return [
        *_compiler(),
        *["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"],
        *_flags(adapter),
        f"-I{folder}",
        f"-I{folder.parent.parent / 'include'}",
        *(word for path in headers for word in ("-isystem", str(path))),
        str(folder / adapter.source),
        "-o",
        str(output),
        *_libraries(adapter),
    ]


def _torch_root() -> Path:
    import torch

    return Path(torch.__file__).parent


def _flags(adapter: AdapterSource) -> list[str]:
    import torch

    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return [f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *adapter.flags]


def _libraries(adapter: AdapterSource) -> list[str]:
    folders = [f"-L{path}" for path in (*adapter.library_folders, _torch_root() / "lib")]
    return [*folders, *(f"-l{library}" for library in adapter.libraries)]


def _compiler() -> list[str]:
    chosen = os.environ.get("CXX", "")
    try:
        words = shlex.split(chosen)
    except ValueError as error:
        raise AdapterError(f"CXX is not a command ({error}): {chosen!r}") from None
    if words and shutil.which(words[0]) is None:
        raise AdapterError(
            f"CXX={chosen!r} is not a program that can be run; set CXX to a C++ compiler, or "
            "unset it for c++, g++ or clang++"
        )
    if words:
        return words
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    raise AdapterError("no C++ compiler (such as g++) is installed, and CXX is not set")


def _key(adapter: AdapterSource, folder: Path) -> str:
    """Return a key for everything on which the adapter depends; needs no compiler.

    Environments with the same torch and Python share it.
    """
    import torch

    return _key_for(str(torch.__version__), str(torch.version.cuda), adapter, folder)


def packaged_file(adapter: AdapterSource, folder: Path | None = None) -> Path:
    """Return where a wheel has the adapter for this Python and this release of torch, if it has it.

    The CPU adapter is the same for torch with and without CUDA.
    """
    import torch

    folder = folder or sources(adapter)
    release = str(torch.__version__).partition("+")[0]
    key = _key_for(release, "", adapter, folder)
    return folder.parent / "compiled" / key / f"{adapter.name}.so"


def _key_for(version: str, cuda: str, adapter: AdapterSource, folder: Path) -> str:
    import torch

    digest = hashlib.sha256()
    parts = [version, torch.version.git_version, cuda]
    parts += [
        sysconfig.get_config_var("SOABI"),
        adapter.name,
        *_flags(adapter),
        *adapter.libraries,
    ]
    for part in parts:
        digest.update(str(part).encode() + b"\0")
    include = folder.parent.parent / "include/plimsoll"
    files = [*folder.glob("*.h"), *folder.glob("*.cc"), *folder.glob("python/**/*.*")]
    for path in [*sorted(files), *(include / header for header in _HEADERS)]:
        digest.update(path.read_bytes() + b"\0")
    return f"torch-{version}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def compiled(
    adapter: AdapterSource, say: Callable[[str], object], elsewhere_since_ns: int | None = None
) -> Library:
    """Return the shared library, from the cache or compiled into it.

    Args:
        adapter: The adapter.
        say: Called with a line before work that takes a while.
        elsewhere_since_ns: None, or a time of the clock: never compile here, because another
            process has compiled the adapter since then, or will.

    Raises:
        AdapterError: The adapter is unavailable.
        NotCompiledError: It is not in the cache, and must not be compiled here.
    """
    folder = sources(adapter)
    key = _key(adapter, folder)
    if (adapter.name, key) in _problems:  # failed earlier in this process
        raise AdapterError(_problems[adapter.name, key])
    begin_ns = time.time_ns()
    with adapter_cache.entry(key, adapter.name, say) as entry:
        path = f"{entry.path}/{adapter.name}.so"
        content = entry.library(adapter.name)
        if content is not None:
            return Library(path, content)
        if elsewhere_since_ns is not None:
            if not packaged_file(adapter, folder).is_file():
                command(adapter, folder, Path(entry.path))  # raises if nobody can compile it
            problem = entry.failed_since(adapter.name, elsewhere_since_ns)
            if problem is None:
                raise NotCompiledError(entry.path)
            _problems[adapter.name, key] = problem
            raise AdapterError(problem)
        with entry.locked(say):
            content = entry.library(adapter.name)  # another process may have compiled it
            problem = entry.failed_since(adapter.name, begin_ns) if content is None else None
            if content is None and problem is None:
                content = _packaged(adapter, folder, entry)
            if content is None and problem is None:
                content, problem = _compiled_now(adapter, folder, entry, say)
            if content is None:
                _problems[adapter.name, key] = str(problem)
                raise AdapterError(_problems[adapter.name, key])
            return Library(path, content)


def _packaged(adapter: AdapterSource, folder: Path, entry: Entry) -> bytes | None:
    """Return the library that the wheel has, if it has one that works here."""
    path = packaged_file(adapter, folder)
    if not path.is_file():
        return None
    try:
        with open(Path(entry.path) / "log.txt", "wb") as log:
            passed = _try_out(adapter, path, log)
        content = path.read_bytes()
    except (AdapterError, OSError) as error:
        leave_to_program(error)
        return None
    if passed:
        entry.keep(adapter.name, content)
    return content if passed else None


def _compiled_now(
    adapter: AdapterSource, folder: Path, entry: Entry, say: Callable[[str], object]
) -> tuple[bytes | None, str | None]:
    """Return the library, or the reason why there is none."""
    import torch

    build = Path(entry.path) / "build"
    output = build / "adapter.so"
    try:
        words = command(adapter, folder, output)
    except AdapterError as error:
        entry.fail(adapter.name, str(error))
        return None, str(error)
    what = "adapter" if adapter is CPU else "CUDA adapter"
    duration = f"once, about {adapter.seconds} seconds; `plimsoll prepare` does it beforehand"
    say(f"compiling the {what} for torch {torch.__version__} ({duration})")
    log = Path(entry.path) / "log.txt"
    try:
        shutil.rmtree(build, ignore_errors=True)  # left by a process that was killed
        build.mkdir(mode=0o700)
        with open(log, "wb") as file:
            try:
                _build(adapter, words, output, file)
            except AdapterError as error:
                if not adapter.less or isinstance(error, _CompilerHangsError):
                    raise
                _build(adapter, [*words, *adapter.less], output, file)
            content = output.read_bytes()
    except (AdapterError, OSError, ValueError) as error:
        leave_to_program(error)
        problem = f"{error}; see {log}"
        entry.fail(adapter.name, problem)
        return None, problem
    finally:
        shutil.rmtree(build, ignore_errors=True)
    entry.keep(adapter.name, content)
    return content, None


class _CompilerHangsError(AdapterError):
    """The compiler did not end in time; with fewer sources it would not either."""


def _build(adapter: AdapterSource, words: list[str], output: Path, log: BinaryIO) -> None:
    """Compile the library and test it."""
    write_all(log.fileno(), os.fsencode(shlex.join(words)) + b"\n")
    status = _supervised(words, log, os.environ | {"TMPDIR": str(output.parent)})
    if status == _HANGS:
        raise _CompilerHangsError(f"the compiler hung for {_HANG_SECONDS} seconds")
    if status != 0:
        raise AdapterError("the adapter did not compile against this torch")
    _try_out(adapter, output, log)


def _try_out(adapter: AdapterSource, library: Path, log: BinaryIO) -> bool:
    """Test the library in a separate process, where a crash does no harm.

    Returns:
        Whether it passed. What fails without a crash is reported when this process loads it.
    """
    words = [sys.executable, "-I", "-S", "-c", _TRY_OUT, *(each or "." for each in sys.path)]
    environment = {name: value for name, value in os.environ.items() if "PLIMSOLL" not in name}
    environment |= {"PLIMSOLL_TRY_OUT": str(library), "PLIMSOLL_TRY_OUT_NAME": adapter.name}
    status = _supervised(words, log, environment)
    if status == _HANGS:
        raise AdapterError(f"the adapter hung for {_HANG_SECONDS} seconds in its test")
    if status - 128 in _CRASHES:
        raise AdapterError(f"the adapter crashed (signal {status - 128}) in its test")
    return status == 0


_TRY_OUT = """
import os, sys
sys.path[:] = sys.argv[1:]
import torch
from plimsoll._torch import adapter
name, path = os.environ["PLIMSOLL_TRY_OUT_NAME"], os.environ["PLIMSOLL_TRY_OUT"]
with open(path, "rb") as file: library = adapter.Library(path, file.read())
module = adapter._imported(name, library)
problem = adapter._self_test(module) if name == adapter.CPU.name else module.problem()
print(problem)
if name == adapter.CPU.name:
    graph = (torch.ones(2, requires_grad=True) * 2).exp()
    module.holders_as_python(0, 0, 0)
sys.exit(problem is not None)
"""


def _supervised(words: list[str], log: BinaryIO, environment: dict[str, str]) -> int:
    """Return the exit status of a command, which is killed if it hangs or this process ends."""
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-I", "-S", _SUPERVISED, str(_HANG_SECONDS), *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        if process.poll() is None:  # after an exception such as KeyboardInterrupt
            process.terminate()
            process.wait()


_loads = 0


def _imported(name: str, library: Library) -> ModuleType:
    """Load the checked content from memory."""
    global _loads
    _loads += 1
    try:
        with open(os.memfd_create(name, os.MFD_CLOEXEC), "wb") as file:
            write_all(file.fileno(), library.content)
            # A new path for each load: the linker assumes that a path that it has seen before is
            # the library that it has already loaded.
            path = f"/proc/self/fd{'/.' * _loads}/{file.fileno()}"
            loader = importlib.machinery.ExtensionFileLoader(name, path)
            spec = importlib.util.spec_from_file_location(name, path, loader=loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
    except (ImportError, OSError) as error:
        leave_to_program(error)
        raise AdapterError(f"the adapter cannot be loaded: {error}") from error
    module.__file__ = spec.origin = library.path
    return module


def _self_test(module: Any) -> str | None:
    """Return what fails with this torch or Python; None if the adapter's test passes.

    The test runs in a separate thread, to which the program's profiler, modes and default device
    do not apply: the profiler would count its tensor and its scope.
    """
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    def test() -> str | None:
        with torch._C.DisableTorchFunction():
            tensor = torch.zeros(3, device="cpu")
            address = tensor.data_ptr()
        line = sys._getframe().f_lineno + 1
        problem: str | None = module.self_test(tensor, address, line)
        return problem

    try:
        return call_in_thread(test)
    except RuntimeError:  # no thread can be started
        with _disable_current_modes():
            return test()
