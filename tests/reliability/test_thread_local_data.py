"""Thread-local data are in memory that each thread has from its start.

Otherwise, a thread's first use would allocate them, and glibc ends the program if that fails
(src/base/per_thread.h). All libraries of a process share a small amount of such memory.
"""

import re
import subprocess

import pytest

from plimsoll import _record
from plimsoll._torch import adapter

MOST_BYTES = 256


def libraries():
    return {"recorder": _record.__file__, "adapter": adapter.compiled(adapter.CPU, print).path}


@pytest.mark.parametrize("which", ["recorder", "adapter"])
def test_it_is_there_when_a_thread_starts_and_small(which):
    words = ["readelf", "--wide", "--dynamic", "--program-headers", libraries()[which]]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "STATIC_TLS" in shown
    sizes = [int(row.split()[5], 16) for row in shown.splitlines() if re.match(r"\s+TLS\s", row)]
    assert 0 < sum(sizes) <= MOST_BYTES
