"""Each environment variable that the source reads has a case with invalid values.

The cases are in tests/reliability/test_environment.py.
"""

import re
from pathlib import Path

from tests.reliability.test_environment import COMMANDS, PREFIX, RECORDED

ROOT = Path(__file__).parents[2]

# Variables without a case there, and why.
ELSEWHERE = {
    "DISPLAY": "plimsoll demo reads it if stdout is a terminal",
    "WAYLAND_DISPLAY": "plimsoll demo reads it if stdout is a terminal",
    "LD_PRELOAD": "the dynamic linker reads it before Plimsoll runs",
    "CUDA_HOME": "read where torch's CUDA build is installed",
    "CUDA_PATH": "read where torch's CUDA build is installed",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "read where torch's CUDA build is installed",
    "PYTHONPATH": "Python reads it; the launcher passes it on",
    "PLIMSOLL_RUN_OPTIONS": "the launcher sets it for the Python that it starts",
    "PLIMSOLL_RUN_PYTHONPATH": "the launcher sets it for the Python that it starts",
    "PLIMSOLL_TRY_OUT": "set for the process that tries out a new adapter",
    "PLIMSOLL_TRY_OUT_NAME": "set for the process that tries out a new adapter",
    "PLIMSOLL_CUDA_PROCESSES": "plimsoll run --cuda-driver sets it for the program",
    "PLIMSOLL_DIGESTS": "plimsoll verify sets it for the program",
    "PLIMSOLL_OVERWRITE": "plimsoll verify sets it for the program",
    "PLIMSOLL_CUDA_OUT": "tests/e2e/test_cuda_driver.py",
}

READERS = (
    r"getenv\(\s*",
    r"environb?(?:\.get|\.pop|\.setdefault)\(\s*",
    r"environb?\[\s*",
    # Plimsoll's functions that read the variable passed to them.
    r"\b(?:variable|quoted|is_set|from_environment|number_of_environment|number_in_environment"
    r"|_choice)\(\s*",
)
# Readers whose argument is not a literal, by file: the functions above, and loops over literals.
INDIRECT = {
    "src/base/launcher.h": 1,
    "src/record/environment.cc": 1,
    "src/cli/line/terminal.cc": 1,
    "src/cli/nsys_command.cc": 1,  # PLIMSOLL_MONITOR_NVTX
    "adapters/cuda_driver/registry.cc": 1,
    "python/plimsoll/_command/environment.py": 2,  # also SLURM_JOB_ID and TORCHELASTIC_RUN_ID
    "python/plimsoll/_command/launch.py": 1,
    "python/plimsoll/_start/next_program.py": 1,
    "python/plimsoll/_process/paths.py": 1,  # RANK, LOCAL_RANK
    "python/plimsoll/_cuda/cuda_adapter.py": 2,  # CUDA_HOME and CUDA_PATH
}


def sources():
    for folder in ("src", "adapters", "python", "include"):
        for path in sorted((ROOT / folder).rglob("*")):
            is_test = path.name.endswith("_test.cc") or "tests" in path.parts
            if path.suffix in {".cc", ".h", ".py"} and not is_test:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def variables_of_source():
    found, indirect = set(), {}
    for path, text in sources():
        for reader in READERS:
            for match in re.finditer(reader + r'(?:b?["\'](\w+)["\'])?', text):
                is_library = re.match(r"(?:std::)?getenv|environ", match[0]) is not None
                if match[1] is not None:
                    found.add(match[1])
                elif is_library:
                    indirect[path] = indirect.get(path, 0) + 1
        # A loop over names, or a name that is passed on.
        found |= set(re.findall(r'["\'](PLIMSOLL(?:_[A-Z0-9]+)*)["\']', text))
    return found - {
        name for name in found if name.startswith(PREFIX) or "LIBTORCH" in name
    }, indirect


def test_each_variable_that_the_source_reads_has_a_case():
    found, indirect = variables_of_source()
    known = RECORDED | set(COMMANDS) | set(ELSEWHERE)
    assert {name for name in found if name.isupper()} - known == set()
    assert indirect == INDIRECT
