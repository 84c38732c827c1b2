"""Advice saves what it promises, within 10 %."""

import pytest
from tests.causes.advice import ADVICE, apply


@pytest.mark.parametrize("program", ADVICE)
def test_advice_saves_what_it_promises(program, tmp_path):
    promised, measured = apply(program, tmp_path)
    assert promised > 0
    assert promised == pytest.approx(measured, rel=0.1)
