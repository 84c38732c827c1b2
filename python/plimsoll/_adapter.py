"""The torch adapter: C++ that is compiled against the torch of this machine, once, and kept.

`load()` gives the loaded module, compiled if need be and checked; `AdapterError` says in one
sentence why there is none. Nothing here touches torch's state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from plimsoll.errors import AdapterError

_COMPILE_SECONDS = 600


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
    "python_adapter.cc",
    ("c10", "torch_cpu", "torch", "torch_python"),
    seconds=20,
)

_loaded: dict[str, ModuleType] = {}


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
            raise AdapterError(f"{problem}, so the adapter is not used ({library})")
        _loaded[half.name] = module
    return _loaded[half.name]


def sources(half: Half = MAIN) -> Path:
    """The folder with the adapter's sources: in the package, or in the repository around it."""
    package = Path(__file__).resolve().parent
    for root in (package, package.parent.parent):
        folder = root / "adapters" / half.folder
        if (folder / half.source).is_file():
            return folder
    raise AdapterError(f"the adapter's sources are missing from {package}; install plimsoll again")


def cache_folder() -> Path:
    """Where compiled adapters are kept: PLIMSOLL_CACHE, or the user's cache folder."""
    chosen = os.environ.get("PLIMSOLL_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "plimsoll"


def command(half: Half, folder: Path, output: Path) -> list[str]:
    """The one command that compiles one of the adapter's binaries."""
    import torch

    root = Path(torch.__file__).parent
    headers = [root / "include", root / "include/torch/csrc/api/include"]
    headers.append(Path(sysconfig.get_path("include")))
    headers += half.headers()
    include = folder.parent.parent / "include"
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return [
        *_compiler(),
        *["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"],
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        *half.flags,
        f"-I{folder}",
        f"-I{include}",
        *(word for path in headers for word in ("-isystem", str(path))),
        str(folder / half.source),
        "-o",
        str(output),
        *(f"-L{path}" for path in (*half.library_folders, root / "lib")),
        *(f"-l{library}" for library in half.libraries),
    ]


def _compiler() -> list[str]:
    chosen = os.environ.get("CXX")
    if chosen:
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    raise AdapterError("no C++ compiler is installed (such as g++), and CXX names none")


def _key(half: Half, folder: Path) -> str:
    """Of everything that the compiled adapter depends on."""
    import torch

    digest = hashlib.sha256()
    parts = [torch.__version__, torch.version.git_version, sysconfig.get_config_var("SOABI")]
    parts += command(half, folder, Path("adapter.so"))
    for part in parts:
        digest.update(str(part).encode() + b"\0")
    header = folder.parent.parent / "include/plimsoll/recorder_c.h"
    for path in [*sorted(folder.glob("*.h")), *sorted(folder.glob("*.cc")), header]:
        digest.update(path.read_bytes() + b"\0")
    return f"torch-{torch.__version__}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def compiled(half: Half, say: Callable[[str], object]) -> Path:
    """The shared library, from the cache or compiled into it."""
    folder = sources(half)
    place = _writable(cache_folder()) / _key(half, folder)
    library = place / f"{half.name}.so"
    if library.is_file():
        return library
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place / "lock"):
        if not library.is_file():  # another process may have made it while we waited
            _compile(half, folder, library, say)
    return library


def _compile(half: Half, folder: Path, library: Path, say: Callable[[str], object]) -> None:
    import subprocess

    import torch

    what = "adapter" if half is MAIN else f"adapter's half {half.folder}"
    say(f"compiling the {what} for torch {torch.__version__}, once; about {half.seconds} seconds")
    partial = library.with_suffix(f".{os.getpid()}.so")
    log = library.with_name("log.txt")
    words = command(half, folder, partial)
    try:
        with open(log, "w") as output:
            print(shlex.join(words), file=output, flush=True)
            ran = subprocess.run(
                words,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_COMPILE_SECONDS,
            )
        if ran.returncode != 0:
            raise AdapterError(f"the adapter did not compile against this torch; see {log}")
        os.replace(partial, library)
    except (OSError, subprocess.SubprocessError) as error:
        raise AdapterError(f"the adapter could not be compiled: {error}; see {log}") from error
    finally:
        partial.unlink(missing_ok=True)


def _writable(folder: Path) -> Path:
    """The folder, or, where nothing can be kept, one for this process alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="plimsoll-"))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _imported(name: str, library: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_file_location(name, str(library), loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise AdapterError(f"the adapter cannot be loaded: {error}") from error
    return module


def _self_test(module: Any) -> str | None:
    """What of torch or Python the adapter misunderstands; None if it sees what there is."""
    import torch

    tensor = torch.zeros(3)
    line = sys._getframe().f_lineno + 1
    problem: str | None = module.self_test(tensor, tensor.data_ptr(), line)
    return problem
