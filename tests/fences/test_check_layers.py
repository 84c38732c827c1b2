"""check_layers.py rejects forbidden includes: each case plants one in an empty repository."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools/check_layers.py")
assert spec and spec.loader
check_layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_layers)


def problems(root: Path, file: str, include: str) -> list[str]:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"// a file\n#include {include}\n")
    result: list[str] = check_layers.check(root)
    return result


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("src/base/a.cc", '"base/a.h"'),
        ("src/base/a.cc", '"plimsoll/result.h"'),
        ("src/base/a.cc", "<sys/mman.h>"),
        ("src/model/a.h", '"base/a.h"'),
        ("src/readers/torch_snapshot/a.cc", '"readers/torch_snapshot/deep/b.h"'),
        ("src/readers/torch_snapshot/a.cc", '"readers/reader.h"'),
        ("src/readers/native/a.cc", '"format/block.h"'),
        ("src/readers/kineto/a.cc", "<rapidjson/reader.h>"),
        ("src/exporters/speedscope/a_test.cc", '"tests/conformance/exporter_suite.h"'),
        ("src/engine/catalog.cc", '"exporters/json/json_exporter.h"'),
        ("src/cli/main.cc", '"engine/catalog.h"'),
        ("src/config/yaml_tree.cc", "<yaml-cpp/parser.h>"),
        ("include/plimsoll/session.h", '"plimsoll/result.h"'),
        ("adapters/libtorch/init.cc", "<ATen/record_function.h>"),
        ("adapters/libtorch/init.cc", '"plimsoll/recorder_c.h"'),
        ("adapters/cuda_driver/reporting.cc", '"plimsoll/recorder_c.h"'),
        ("python/bindings/module.cc", '"plimsoll/session.h"'),
        ("python/bindings/module.cc", '"errors.h"'),
    ],
)
def test_what_the_design_allows_passes(tmp_path: Path, file: str, include: str) -> None:
    assert problems(tmp_path, file, include) == []


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("src/base/a.cc", '"model/trace.h"'),
        ("src/base/a.cc", "<rapidjson/reader.h>"),
        ("src/base/a.cc", '"plimsoll/session.h"'),
        ("src/model/a.cc", '"readers/reader.h"'),
        ("src/record/hot/ring.h", "<tsl/robin_map.h>"),
        ("src/readers/reader.h", '"readers/kineto/kineto_reader.h"'),
        ("src/readers/kineto/a.cc", '"readers/torch_snapshot/pickle_vm.h"'),
        ("src/readers/kineto/a.cc", '"format/block.h"'),
        ("src/readers/kineto/a.cc", '"report/peak.h"'),
        ("src/exporters/json/a.cc", '"analysis/peak/peak_pass.h"'),
        ("src/exporters/json/a_test.cc", '"readers/reader.h"'),
        ("src/analysis/peak/a.cc", '"analysis/leaks/leaks_pass.h"'),
        ("src/engine/session.cc", '"record/hot/ring.h"'),
        ("src/engine/session.cc", "<yaml-cpp/parser.h>"),
        ("src/cli/main.cc", '"model/trace.h"'),
        ("src/utils/a.cc", "<vector>"),
        ("include/plimsoll/session.h", '"base/bytes.h"'),
        ("adapters/libtorch/init.cc", '"record/hot/ring.h"'),
        ("adapters/libtorch/init.cc", '"plimsoll/session.h"'),
        ("adapters/cuda_driver/registry.cc", '"plimsoll/recorder.h"'),
        ("python/bindings/module.cc", '"engine/session.h"'),
    ],
)
def test_what_the_design_forbids_is_one_problem(tmp_path: Path, file: str, include: str) -> None:
    found = problems(tmp_path, file, include)
    assert len(found) == 1
    assert found[0].startswith(file)


def test_this_repository_keeps_its_fences() -> None:
    assert check_layers.check(ROOT) == []


def test_every_permission_is_used() -> None:
    assert check_layers.unused_permissions(ROOT) == []


def test_an_unused_permission_is_found(tmp_path: Path) -> None:
    problems(tmp_path, "src/format/a.cc", '"base/a.h"')
    unused = check_layers.unused_permissions(tmp_path)
    assert "'format' does not include base" not in unused
    assert "'model' does not include base" in unused
    assert "'config' does not include yaml-cpp/*" in unused
