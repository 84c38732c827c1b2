"""Fixtures that all Python tests share, such as the samples and the command under test."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent


# Why a test may be skipped under CI, where every other skip is a failure.
ALLOWED_SKIPS = (
    "no folder of samples next to the checkout",
    "only root can give files away",
    "only root can read the log of the kernel",
    "has a GPU",
    "this heap has used no parameter's address again",
)


def fail_if_skipped_in_ci(report) -> None:
    if not (os.environ.get("CI") and report.skipped and isinstance(report.longrepr, tuple)):
        return
    why = report.longrepr[2]
    if not any(each in why for each in ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"{why}\nUnder CI this is a failure: see ALLOWED_SKIPS in conftest.py."


# Tests with many torch processes, with adapters or packages to compile, or with packages that only
# scripts/setup --integrations or --browser installs: all tests in these folders and files are slow.
SLOW_PATHS = (
    "adapters/libtorch_cuda/tests",
    "adapters/libtorch/tests",
    "python/tests/test_integrations.py",
    "python/tests/test_pytest_memray.py",
    "python/tests/test_trainers.py",
    "tests/causes/test_advice.py",
    "tests/e2e/test_scaling.py",
    "tests/examples",
    "tests/habits",
    "tests/page/browser",
    "tests/package",
    "tests/recording",
    "tests/uses",
    "tests/reliability",
)


def is_slow_path(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / each) for each in SLOW_PATHS)


def pytest_ignore_collect(collection_path, config):
    """In the gate, do not import slow tests, and torch with them."""
    return True if config.option.markexpr == "not slow" and is_slow_path(collection_path) else None


def pytest_collection_modifyitems(items):
    for item in items:
        if is_slow_path(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_configure(config):
    slow = (
        "slow: takes more than 3 s, compiles another adapter, starts several torch processes, "
        "or depends on the clock; not in the gate"
    )
    config.addinivalue_line("markers", slow)
    # A shell starts its background jobs with SIGINT ignored, which programs under test inherit.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    fail_if_skipped_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    fail_if_skipped_in_ci(report)
    return report


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="write golden answers anew")


# What differs between machines: the memory of the process, learned values, and times. The bytes of
# tensors are the same everywhere.
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
VARIES = (
    (rf"\bCPU(:?) {NUMBER} MB", r"CPU\1 # MB"),
    (rf"(\bCPU # MB) \({NUMBER} MB\)", r"\1 (# MB)"),
    (rf"\b(loss|error|PSNR|order|kappa|true|after|cloned|split|removed)([= ]){NUMBER}", r"\1\2#"),
    (rf": {NUMBER} Gaussians", ": # Gaussians"),
    (rf"{NUMBER} over", "# over"),
    (rf"([Pp]eak[A-Za-z ]*:?) {NUMBER} MB", r"\1 # MB"),  # of convolutions: varies by CPU
    (rf"{NUMBER} s$", "# s"),
)


@pytest.fixture
def golden(request):
    """Compares a text with a file of tests/golden; --bless writes the file."""

    def compare(text: str, name: str) -> None:
        masked = text
        for what, shown in VARIES:
            masked = re.sub(what, shown, masked, flags=re.MULTILINE)
        path = ROOT / "tests/golden" / name
        if request.config.getoption("--bless"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(masked, encoding="utf-8")
        assert masked == path.read_text(encoding="utf-8")

    return compare


def built_file(name: str) -> Path:
    """A file in the build folder of the first preset that has been built."""
    for preset in ("gate", "dev", "release", "asan"):
        found = ROOT / "build" / preset / name
        if found.is_file():
            return found
    pytest.skip(f"{name} is not built: run scripts/test cpp")


@pytest.fixture(scope="session")
def built():
    return built_file


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real files that are too big for the repository."""
    folder = Path(os.environ.get("PLIMSOLL_SAMPLES", ROOT.parent / "shared" / "samples"))
    if not folder.parent.is_dir():
        pytest.skip(f"no folder of samples next to the checkout: {folder} (set PLIMSOLL_SAMPLES)")
    if not folder.is_dir():
        pytest.skip(f"no samples in {folder} (set PLIMSOLL_SAMPLES)")
    return folder


@pytest.fixture(scope="session")
def plimsoll_command() -> str:
    """The command: PLIMSOLL_BIN, or the one next to this Python, or one in a build folder."""
    if "PLIMSOLL_BIN" in os.environ:
        return os.environ["PLIMSOLL_BIN"]
    folder = str(Path(sys.executable).parent)
    return shutil.which("plimsoll", path=folder) or str(built_file("src/cli/plimsoll"))


@pytest.fixture(scope="session")
def nvtx_tool(tmp_path_factory) -> str:
    """A library that receives NVTX calls and logs them, compiled like the adapter."""
    library = tmp_path_factory.mktemp("nvtx") / "fake_nvtx_tool.so"
    source = ROOT / "tests/support/fake_nvtx_tool.cc"
    compiler = os.environ.get("CXX", "g++")
    words = [compiler, "-std=c++20", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(words, check=True)
    return str(library)


@pytest.fixture(scope="session")
def snapshot_generator() -> str:
    """The generator of synthetic snapshots."""
    return str(built_file("bench/generator/plimsoll_snapshot_generator"))


@pytest.fixture(scope="session")
def generated(snapshot_generator, tmp_path_factory) -> dict[str, Path]:
    """A small file of each preset of the generator, and some in its other dialects."""
    folder = tmp_path_factory.mktemp("generated")
    small = ["--events", "20000", "--depth", "12"]
    wanted: dict[str, list[str]] = {
        "training": ["training", *small],
        "random-free": ["random-free", *small],
        "planted-jit": ["planted", "--dialect", "jit"],
        "planted-2.11": ["planted", "--torch", "2.11"],
        "wrapped-jit-2.11": ["wrapped", "--dialect", "jit", "--torch", "2.11"],
    }
    for preset in ("planted", "healthy", "oom-large", "oom-too-big", "oom-growth"):
        wanted[preset] = [preset]
    for preset in ("churn", "settings-conflict", "empty", "wrapped"):
        wanted[preset] = [preset]
    paths = {}
    for name, (preset, *options) in wanted.items():
        paths[name] = folder / f"{name}.pickle"
        subprocess.run([snapshot_generator, preset, paths[name], *options], check=True)
    return paths
