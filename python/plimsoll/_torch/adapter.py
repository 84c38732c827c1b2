"""The torch adapter: C++ that is compiled against the torch of this machine, once, and kept.

`load()` gives the loaded module, compiled if need be and checked; `AdapterError` says in one
sentence why there is none. Nothing here touches torch's state. The compiler, and the first
execution of what it made, run in processes of their own that cannot hang or crash this one.
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

from plimsoll._process.program_errors import leave_to_program
from plimsoll._process.quiet_files import write_all
from plimsoll._torch import adapter_cache
from plimsoll._torch.adapter_cache import Entry
from plimsoll.errors import AdapterError

_HANG_SECONDS = 20  # without processor time, of the compiler or of the first test
_SUPERVISED = str(Path(__file__).with_name("supervised.py"))
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE}
_HANGS = 124


@dataclasses.dataclass(frozen=True)
class Half:
    """One of the adapter's binaries: the hooks that every torch has, or those of CUDA."""

    name: str
    folder: str  # below adapters/
    source: str  # the one file to compile
    libraries: tuple[str, ...]  # of torch
    seconds: int  # that compiling takes, about
    headers: Callable[[], list[Path]] = list  # besides torch's and Python's
    library_folders: tuple[Path, ...] = ()  # besides torch's
    flags: tuple[str, ...] = ()


MAIN = Half(
    "_plimsoll_torch",
    "libtorch",
    "python/adapter.cc",
    ("c10", "torch_cpu", "torch", "torch_python"),
    seconds=20,
)

_loaded: dict[str, ModuleType] = {}
_problems: dict[tuple[str, str], str] = {}


def load(say: Callable[[str], object]) -> Any:
    """The adapter of this process.

    Args:
        say: Gets a line when something takes a while.

    Raises:
        AdapterError: There is none.
    """
    return load_half(MAIN, say, _self_test)


def load_half(
    half: Half, say: Callable[[str], object], self_test: Callable[[Any], str | None]
) -> Any:
    """One of the adapter's binaries, compiled if need be, if its test finds nothing wrong.

    Raises:
        AdapterError: There is none.
    """
    if half.name not in _loaded:
        library = compiled(half, say)
        module = _imported(half.name, library)
        problem = self_test(module)
        if problem is not None:
            raise AdapterError(f"{problem}, so the adapter is not used ({library.path})")
        _loaded[half.name] = module
    return _loaded[half.name]


@dataclasses.dataclass(frozen=True)
class Library:
    """A compiled adapter that has been checked."""

    path: str  # for people; what is loaded is the content
    content: bytes


def sources(half: Half = MAIN) -> Path:
    """The folder with the adapter's sources: in the package, or in the repository around it."""
    package = Path(__file__).resolve().parent.parent
    for root in (package, package.parent.parent):
        folder = root / "adapters" / half.folder
        if (folder / half.source).is_file():
            return folder
    raise AdapterError(f"the adapter's sources are missing from {package}; install plimsoll again")


def cache_folder() -> Path:
    """Where compiled adapters are kept, if that folder can be trusted."""
    return Path(adapter_cache.default_folder())


def command(half: Half, folder: Path, output: Path) -> list[str]:
    """The one command that compiles one of the adapter's binaries."""
    headers = [_torch_root() / "include", _torch_root() / "include/torch/csrc/api/include"]
    headers.append(Path(sysconfig.get_path("include")))
    headers += half.headers()
    return [
        *_compiler(),
        *["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"],
        *_flags(half),
        f"-I{folder}",
        f"-I{folder.parent.parent / 'include'}",
        *(word for path in headers for word in ("-isystem", str(path))),
        str(folder / half.source),
        "-o",
        str(output),
        *_libraries(half),
    ]


def _torch_root() -> Path:
    import torch

    return Path(torch.__file__).parent


def _flags(half: Half) -> list[str]:
    import torch

    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return [f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *half.flags]


def _libraries(half: Half) -> list[str]:
    folders = [f"-L{path}" for path in (*half.library_folders, _torch_root() / "lib")]
    return [*folders, *(f"-l{library}" for library in half.libraries)]


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


def _key(half: Half, folder: Path) -> str:
    """Of everything that the compiled adapter depends on; the compiler need not be there."""
    import torch

    digest = hashlib.sha256()
    parts = [torch.__version__, torch.version.git_version, torch.version.cuda]
    parts += [sysconfig.get_config_var("SOABI"), half.name, *_flags(half), *_libraries(half)]
    for part in parts:
        digest.update(str(part).encode() + b"\0")
    header = folder.parent.parent / "include/plimsoll/recorder_c.h"
    files = [*folder.glob("*.h"), *folder.glob("*.cc"), *folder.glob("python/*")]
    for path in [*sorted(files), header]:
        digest.update(path.read_bytes() + b"\0")
    return f"torch-{torch.__version__}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def compiled(half: Half, say: Callable[[str], object]) -> Library:
    """The shared library, from the cache or compiled into it.

    Raises:
        AdapterError: There is none.
    """
    folder = sources(half)
    key = _key(half, folder)
    if (half.name, key) in _problems:  # it is tried once in a process
        raise AdapterError(_problems[half.name, key])
    begin_ns = time.time_ns()
    with adapter_cache.entry(key, half.name, say) as entry:
        path = f"{entry.path}/{half.name}.so"
        content = entry.library(half.name)
        if content is not None:
            return Library(path, content)
        with entry.locked():
            content = entry.library(half.name)  # another process may have compiled it meanwhile
            problem = entry.failed_since(half.name, begin_ns) if content is None else None
            if content is None and problem is None:
                content, problem = _compiled_now(half, folder, entry, say)
            if content is None:
                _problems[half.name, key] = str(problem)
                raise AdapterError(_problems[half.name, key])
            return Library(path, content)


def _compiled_now(
    half: Half, folder: Path, entry: Entry, say: Callable[[str], object]
) -> tuple[bytes | None, str | None]:
    """The library, or why there is none."""
    import torch

    build = Path(entry.path) / "build"
    output = build / "adapter.so"
    try:
        words = command(half, folder, output)
    except AdapterError as error:
        entry.fail(half.name, str(error))
        return None, str(error)
    what = "adapter" if half is MAIN else f"adapter's half {half.folder}"
    say(f"compiling the {what} for torch {torch.__version__}, once; about {half.seconds} seconds")
    log = Path(entry.path) / "log.txt"
    try:
        shutil.rmtree(build, ignore_errors=True)  # of a process that was killed
        build.mkdir(mode=0o700)
        with open(log, "wb") as file:
            write_all(file.fileno(), os.fsencode(shlex.join(words)) + b"\n")
            _compile(words, build, file)
            content = output.read_bytes()
            _try_out(half, output, file)
    except (AdapterError, OSError, ValueError) as error:
        leave_to_program(error)
        problem = f"{error}; see {log}"
        entry.fail(half.name, problem)
        return None, problem
    finally:
        shutil.rmtree(build, ignore_errors=True)
    entry.keep(half.name, content)
    return content, None


def _compile(words: list[str], build: Path, log: BinaryIO) -> None:
    status = _supervised(words, log, os.environ | {"TMPDIR": str(build)})
    if status == _HANGS:
        raise AdapterError(f"the compiler hung for {_HANG_SECONDS} seconds")
    if status != 0:
        raise AdapterError("the adapter did not compile against this torch")


def _try_out(half: Half, library: Path, log: BinaryIO) -> None:
    """Load the library in a separate process, where it may crash; the rest is tested later."""
    words = [sys.executable, "-I", "-S", "-c", _TRY_OUT, *(each or "." for each in sys.path)]
    environment = {name: value for name, value in os.environ.items() if "PLIMSOLL" not in name}
    environment |= {"PLIMSOLL_TRY_OUT": str(library), "PLIMSOLL_TRY_OUT_NAME": half.name}
    status = _supervised(words, log, environment)
    if status == _HANGS:
        raise AdapterError(f"the adapter hung for {_HANG_SECONDS} seconds in its test")
    if status - 128 in _CRASHES:
        raise AdapterError(f"the adapter crashed (signal {status - 128}) in its test")


_TRY_OUT = """
import os, sys
sys.path[:] = sys.argv[1:]
import torch
from plimsoll._torch import adapter
name, path = os.environ["PLIMSOLL_TRY_OUT_NAME"], os.environ["PLIMSOLL_TRY_OUT"]
with open(path, "rb") as file: library = adapter.Library(path, file.read())
module = adapter._imported(name, library)
print(adapter._self_test(module) if name == adapter.MAIN.name else module.problem())
"""


def _supervised(words: list[str], log: BinaryIO, environment: dict[str, str]) -> int:
    """The status of a command, run so that it ends when it hangs or with this process."""
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
        if process.poll() is None:  # an exception of the program, such as KeyboardInterrupt
            process.terminate()
            process.wait()


_loads = 0


def _imported(name: str, library: Library) -> ModuleType:
    """Loads the content that was checked, from memory."""
    global _loads
    _loads += 1
    try:
        with open(os.memfd_create(name, os.MFD_CLOEXEC), "wb") as file:
            write_all(file.fileno(), library.content)
            # The linker takes a path that it has seen for a library that it has loaded.
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
    """What of torch or Python the adapter misunderstands; None if it sees what there is."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    # Whatever modes and default device the program has.
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        tensor = torch.zeros(3, device="cpu")
        address = tensor.data_ptr()
    line = sys._getframe().f_lineno + 1
    problem: str | None = module.self_test(tensor, address, line)
    return problem
