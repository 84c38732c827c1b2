"""The torch adapter: C++ that is compiled against the torch of this machine, once, and kept.

`load()` gives the loaded module, compiled if need be and checked; `AdapterError` says in one
sentence why there is none. Nothing here touches torch's state.
"""

from __future__ import annotations

import contextlib
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

NAME = "_plimsoll_torch"
_COMPILE_SECONDS = 600

_loaded: ModuleType | None = None


def load(say: Callable[[str], object]) -> Any:
    """The adapter of this process.

    Args:
        say: Gets a line when something takes a while.

    Raises:
        AdapterError: There is none.
    """
    global _loaded
    if _loaded is None:
        library = _compiled(say)
        module = _imported(library)
        problem = _self_test(module)
        if problem is not None:
            raise AdapterError(f"{problem}, so the adapter is not used ({library})")
        _loaded = module
    return _loaded


def sources() -> Path:
    """The folder with the adapter's sources: in the package, or in the repository around it."""
    package = Path(__file__).resolve().parent
    for root in (package, package.parent.parent):
        folder = root / "adapters" / "libtorch"
        if (folder / "python_adapter.cc").is_file():
            return folder
    raise AdapterError(f"the adapter's sources are missing from {package}; install plimsoll again")


def cache_folder() -> Path:
    """Where compiled adapters are kept: PLIMSOLL_CACHE, or the user's cache folder."""
    chosen = os.environ.get("PLIMSOLL_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "plimsoll"


def command(folder: Path, output: Path) -> list[str]:
    """The one command that compiles the adapter."""
    import torch

    root = Path(torch.__file__).parent
    headers = [root / "include", root / "include/torch/csrc/api/include"]
    headers.append(Path(sysconfig.get_path("include")))
    include = folder.parent.parent / "include"
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return [
        *_compiler(),
        *["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"],
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        f"-I{folder}",
        f"-I{include}",
        *(word for path in headers for word in ("-isystem", str(path))),
        str(folder / "python_adapter.cc"),
        "-o",
        str(output),
        f"-L{root / 'lib'}",
        *["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"],
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


def _key(folder: Path) -> str:
    """Of everything that the compiled adapter depends on."""
    import torch

    digest = hashlib.sha256()
    parts = [torch.__version__, torch.version.git_version, sysconfig.get_config_var("SOABI")]
    parts += command(folder, Path("adapter.so"))
    for part in parts:
        digest.update(str(part).encode() + b"\0")
    header = folder.parent.parent / "include/plimsoll/recorder_c.h"
    for path in [*sorted(folder.glob("*.h")), *sorted(folder.glob("*.cc")), header]:
        digest.update(path.read_bytes() + b"\0")
    return f"torch-{torch.__version__}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def _compiled(say: Callable[[str], object]) -> Path:
    """The shared library, from the cache or compiled into it."""
    folder = sources()
    place = _writable(cache_folder()) / _key(folder)
    library = place / f"{NAME}.so"
    if library.is_file():
        return library
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place / "lock"):
        if not library.is_file():  # another process may have made it while we waited
            _compile(folder, library, say)
    return library


def _compile(folder: Path, library: Path, say: Callable[[str], object]) -> None:
    import subprocess

    import torch

    say(f"compiling the adapter for torch {torch.__version__}, once; about 20 seconds")
    partial = library.with_suffix(f".{os.getpid()}.so")
    log = library.with_name("log.txt")
    words = command(folder, partial)
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


def _imported(library: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(library))
    spec = importlib.util.spec_from_file_location(NAME, str(library), loader=loader)
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
