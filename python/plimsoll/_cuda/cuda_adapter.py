"""Compiles the CUDA adapter against CUDA's headers, without nvcc."""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from plimsoll._torch import adapter
from plimsoll.errors import AdapterError


def header_folders() -> list[Path]:
    """Return the folders of CUDA's headers: those of torch's wheels, or of a toolkit."""
    folders: list[str] = []
    packages = importlib.util.find_spec("nvidia")
    for place in (packages and packages.submodule_search_locations) or ():
        folders += sorted(glob.glob(f"{place}/cu[0-9]*/include"), reverse=True)
        folders += [f"{place}/cuda_runtime/include"]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            folders.append(os.path.join(os.environ[variable], "include"))
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        folders.append(os.path.join(os.path.dirname(os.path.dirname(nvcc)), "include"))
    folders += ["/usr/local/cuda/include", f"{sys.prefix}/targets/x86_64-linux/include"]
    folders.append(f"{sys.prefix}/include")
    found = [Path(each) for each in folders if os.path.isfile(f"{each}/cuda_runtime_api.h")]
    if not found:
        raise AdapterError("CUDA's headers (cuda_runtime_api.h) were not found")
    # Use the first folder that exists. Plimsoll has stubs for headers missing there: torch's wheels
    # have no crt/.
    return [found[0], adapter.sources(CUDA) / "stub_headers"]


CUDA = adapter.AdapterSource(
    "_plimsoll_torch_cuda",
    "libtorch_cuda",
    "python/adapter.cc",
    ("c10", "c10_cuda"),
    seconds=10,
    headers=header_folders,
    # This macro omits a header that exists only in torch's CUDA wheels and matters only on Windows.
    flags=("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",),
)
