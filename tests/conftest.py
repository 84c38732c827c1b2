"""The package as C++ users get it: built, installed into a prefix, and linked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def must_run(*words) -> str:
    ran = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-6000:]
    return ran.stdout


@pytest.fixture(scope="session")
def installed_package(built, tmp_path_factory) -> Path:
    """The prefix of an installation that was moved: no file may contain the old path."""
    build = built("CMakeCache.txt").parent
    first = tmp_path_factory.mktemp("install") / "first"
    must_run("cmake", "--install", build, "--component", "cpp", "--prefix", first)
    prefix = ROOT / "build/package-prefix"  # always the same path, so that ccache finds it
    shutil.rmtree(prefix, ignore_errors=True)
    shutil.move(first, prefix)
    return prefix


@pytest.fixture(scope="session")
def pkg_config(installed_package) -> list[str]:
    """The pkg-config command with the package in its search path; skips without pkg-config."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folders = [str(path) for path in installed_package.rglob("pkgconfig")]
    return ["env", f"PKG_CONFIG_PATH={os.pathsep.join(folders)}", "pkg-config"]


def compile_program(source: Path, program: Path, *flags: str) -> Path:
    must_run(os.environ.get("CXX", "g++"), "-std=c++20", "-o", program, source, *flags)
    return program


@pytest.fixture(scope="session")
def recorded_program(pkg_config, tmp_path_factory) -> Path:
    """recorded_program.cc, built with the flags that pkg-config prints for the record library."""
    flags = must_run(*pkg_config, "--cflags", "--libs", "plimsoll-record").split()
    program = tmp_path_factory.mktemp("program") / "recorded_program"
    return compile_program(ROOT / "tests/package/recorded_program.cc", program, *flags)


@pytest.fixture(scope="session")
def libtorch_programs(installed_package) -> Path:
    """The folder of the LibTorch example and the test programs, built against the package."""
    pytest.importorskip("torch")
    from plimsoll._cuda.cuda_adapter import header_folders

    build = ROOT / "build/libtorch-programs"
    ccache = shutil.which("ccache")
    must_run(
        *("cmake", "-S", ROOT / "tests/package/libtorch", "-B", build, "-G", "Ninja"),
        f"-DPLIMSOLL_TORCH_PYTHON={sys.executable}",
        f"-DCMAKE_PREFIX_PATH={installed_package}",
        f"-DPLIMSOLL_CUDA_HEADERS={';'.join(map(str, header_folders()))}",
        "-DCMAKE_BUILD_TYPE=Debug",  # enough: most of the time goes to torch's headers
        "-DCMAKE_CXX_FLAGS_DEBUG=-O1",
        # The adapter is a source of the user's program, so their warnings must not find anything.
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror",
        *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []),
    )
    must_run("cmake", "--build", build)
    return build
