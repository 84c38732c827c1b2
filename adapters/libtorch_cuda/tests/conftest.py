"""Compiles the CUDA adapter against torch's own headers, with a fake libc10_cuda.so.

A process has one recorder and one allocator, so these tests need a separate process.
"""

import ctypes
import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from plimsoll._cuda import cuda_adapter
from plimsoll._torch import adapter

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "libtorch" / "tests"))  # the counting recorder
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    from watching import load_counting_recorder

    return load_counting_recorder(tmp_path_factory.mktemp("counting"))


def built(source, output, extra):
    """Compile a shared library of the tests, once for each content of its sources."""
    root = Path(torch.__file__).parent
    words = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-fPIC", "-shared", "-w"]
    words += ["-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE"]
    for path in (root / "include", root / "include/torch/csrc/api/include"):
        words += ["-isystem", str(path)]
    for path in cuda_adapter.header_folders():
        words += ["-isystem", str(path)]
    words += [str(source), *extra, f"-L{root / 'lib'}", "-lc10"]
    digest = hashlib.sha256(" ".join(words).encode() + torch.__version__.encode())
    for path in sorted([*HERE.glob("*.h"), source]):
        digest.update(path.read_bytes())
    folder = adapter.cache_folder() / f"test-{output}-{digest.hexdigest()[:16]}"
    if not (folder / output).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{output}.{os.getpid()}"
        subprocess.run([*words, "-o", str(partial)], check=True)
        os.replace(partial, folder / output)
    return folder / output


@pytest.fixture(scope="session")
def fake():
    """The fake allocator, and the functions that tests call in it."""
    path = built(HERE / "fake_c10_cuda.cc", "libc10_cuda.so", ["-Wl,-soname,libc10_cuda.so"])
    loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for name in ("fake_alloc", "fake_allocated", "fake_reserved"):
        getattr(loaded, name).restype = ctypes.c_uint64
    loaded.fake_alloc.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64]
    loaded.fake_free.argtypes = [ctypes.c_uint64]
    loaded.fake_record_stream.argtypes = [ctypes.c_int, ctypes.c_uint64]
    loaded.fake_set_limit.argtypes = [ctypes.c_int, ctypes.c_uint64]
    loaded.fake_set_fraction.argtypes = [ctypes.c_int, ctypes.c_double]
    loaded.fake_enlarge_next.argtypes = [ctypes.c_int, ctypes.c_uint64]
    source = dataclasses.replace(cuda_adapter.CUDA, library_folders=(path.parent,))
    cuda_adapter.CUDA = source
    return loaded


@pytest.fixture(scope="session")
def device(fake):
    """The library that makes torch train on the fake devices."""
    folder = Path(fake._name).parent
    extra = [f"-L{folder}", "-lc10_cuda", "-ltorch_cpu"]
    return built(HERE / "fake_cuda_device.cc", "libfake_cuda_device.so", extra)


@pytest.fixture(scope="session")
def libraries(fake):
    """The library whose functions take workspaces for cuBLAS and cuDNN."""
    folder = Path(fake._name).parent
    extra = [f"-L{folder}", "-lc10_cuda", "-fvisibility=hidden"]
    return built(HERE / "fake_torch_cuda.cc", "libtorch_cuda.so", extra)


@pytest.fixture(scope="session")
def drivers(tmp_path_factory):
    """The environment of a program that uses the fake NVML and CUDA drivers of the tests.

    FAKE_NVML names the file with the fake GPUs; FAKE_CUDA has the UUIDs of CUDA's devices.
    """
    folder = tmp_path_factory.mktemp("drivers")
    support = HERE.parents[2] / "tests" / "support"
    for source, name in (
        ("fake_nvml.cc", "libnvidia-ml.so.1"),
        ("fake_cuda_devices.cc", "libcuda.so.1"),
    ):
        words = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-fPIC", "-shared", "-w"]
        words += [f"-Wl,-soname,{name}", str(support / source), "-o", str(folder / name)]
        subprocess.run(words, check=True)
    return {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(folder / "libcuda.so.1")}


@pytest.fixture(scope="session")
def compiled(fake):
    """Put both adapters into the cache, so that no test program prints that it compiles them.

    In those programs torch claims to be built for CUDA, and the cache's key depends on that.
    """
    from fake_torch import CUDA_VERSION

    for version in (CUDA_VERSION, torch.version.cuda):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.version, "cuda", version)
            for each in (adapter.CPU, cuda_adapter.CUDA):
                adapter.compiled(each, print)


@pytest.fixture(scope="session")
def cuda(fake, compiled):
    """The CUDA adapter, compiled as on a user's machine."""
    return adapter.load_adapter(cuda_adapter.CUDA, print, lambda module: module.problem())


@pytest.fixture
def recorder(library, cuda):
    """The CPU adapter and the CUDA adapter, attached to the recorder that stores its calls."""
    from watching import Recorder

    recorder = Recorder(library)
    main = adapter.load(print)
    failures = []
    cuda.attach(
        library.counting_recorder(),
        main.describe_address(),
        2,
        lambda *words: failures.append(words),
    )
    main.report_cuda_tensors(True)
    recorder.attach()
    recorder.failures = failures
    recorder.take()
    yield recorder
    recorder.detach()
    cuda.detach()
    main.report_cuda_tensors(False)


@pytest.fixture(autouse=True)
def empty_devices(request):
    """Free what a test has left on the devices before the next one."""
    yield
    if "fake" in request.fixturenames:
        loaded = request.getfixturevalue("fake")
        if "cuda" in request.fixturenames:
            request.getfixturevalue("cuda").detach()
        loaded.fake_reset()
