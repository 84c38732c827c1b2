"""Each reader, pass and exporter has a case in bench/scaling.py."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
scaling = importlib.import_module("scaling")


# Modules that passes share: they run in the cases of the passes.
SHARED = {"analysis/evidence", "analysis/holders", "analysis/whatif"}


def test_each_parser_pass_and_exporter_has_a_case():
    folders = {
        f"{kind}/{path.name}"
        for kind in ("readers", "analysis", "exporters")
        for path in (ROOT / "src" / kind).iterdir()
        if path.is_dir()
    }
    assert set(scaling.CASE_OF) == folders - SHARED | {"findings"}
    assert set(scaling.CASE_OF.values()) <= set(scaling.CASES)
