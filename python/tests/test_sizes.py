"""Sizes in Python messages are formatted as by the engine."""

from __future__ import annotations

import pytest

from plimsoll._process.sizes import size_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (-(3 << 19), "-1.5 MiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        ((1 << 30) - 1, "1.0 GiB"),
        ((1 << 30) - (52 << 10), "1023.9 MiB"),
        (5 << 40, "5.0 TiB"),
    ],
)
def test_a_size_has_one_decimal_and_is_never_1024_of_a_unit(size_bytes, text):
    assert size_text(size_bytes) == text
