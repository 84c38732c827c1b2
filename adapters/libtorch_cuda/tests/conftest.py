"""The CUDA half against torch's own headers, and a libc10_cuda.so of ours in the place of torch's.

A process has one recorder and one allocator, so these tests need a process of their own.
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

from plimsoll._cuda import cuda_half
from plimsoll._torch import adapter

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "libtorch" / "tests"))  # the recorder that writes down
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    from watching import load_counting_recorder

    return load_counting_recorder(tmp_path_factory.mktemp("counting"))


def built(source, output, extra):
    """Compiles a shared library of the tests, once for each text of its sources."""
    root = Path(torch.__file__).parent
    words = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-fPIC", "-shared", "-w"]
    words += ["-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE"]
    for path in (root / "include", root / "include/torch/csrc/api/include"):
        words += ["-isystem", str(path)]
    for path in cuda_half.header_folders():
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
    """The allocator, and the names of what tests call in it."""
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
    half = dataclasses.replace(cuda_half.HALF, library_folders=(path.parent,))
    cuda_half.HALF = half
    return loaded


@pytest.fixture(scope="session")
def device(fake):
    """The library that makes torch train on the fake devices."""
    folder = Path(fake._name).parent
    extra = [f"-L{folder}", "-lc10_cuda", "-ltorch_cpu"]
    return built(HERE / "fake_cuda_device.cc", "libfake_cuda_device.so", extra)


@pytest.fixture(scope="session")
def drivers(tmp_path_factory):
    """The environment of a program whose drivers, NVML and CUDA, are the tests' own.

    FAKE_NVML names the file that tells what there is, FAKE_CUDA the UUIDs of CUDA's devices.
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
    """Both halves lie in the cache: no program of a test says that it is compiling them.

    Those programs let torch claim to be built for CUDA, and the cache's key depends on that.
    """
    from fake_torch import CUDA_VERSION

    for version in (CUDA_VERSION, torch.version.cuda):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.version, "cuda", version)
            for each in (adapter.MAIN, cuda_half.HALF):
                adapter.compiled(each, print)


@pytest.fixture(scope="session")
def half(fake, compiled):
    """The CUDA half, compiled as on a user's machine."""
    return adapter.load_half(cuda_half.HALF, print, lambda module: module.problem())


@pytest.fixture
def recorder(library, half):
    """The main half and the CUDA half, attached to the recorder that writes down."""
    from watching import Recorder

    recorder = Recorder(library)
    main = adapter.load(print)
    failures = []
    half.attach(
        library.counting_recorder(),
        main.describe_address(),
        2,
        lambda *words: failures.append(words),
    )
    main.tell_cuda_tensors(True)
    recorder.attach()
    recorder.failures = failures
    recorder.take()
    yield recorder
    recorder.detach()
    half.detach()
    main.tell_cuda_tensors(False)


@pytest.fixture(autouse=True)
def empty_devices(request):
    """What a test has left on the devices is gone before the next one."""
    yield
    if "fake" in request.fixturenames:
        loaded = request.getfixturevalue("fake")
        if "half" in request.fixturenames:
            request.getfixturevalue("half").detach()
        loaded.fake_reset()
