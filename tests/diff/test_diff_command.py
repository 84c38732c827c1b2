"""`plimsoll diff` and `plimsoll.diff` on files made by the generator of snapshots."""

from __future__ import annotations

import gzip
import json
import re
import subprocess

import pytest


def run(command, *words):
    words = [command, *map(str, words)]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def digest(plimsoll_command, generated, tmp_path_factory):
    path = tmp_path_factory.mktemp("digest") / "base.digest.json"
    out = run(plimsoll_command, "export", generated["healthy"], "--to", "digest", "-o", path)
    assert out.returncode == 0, out.stderr
    return path


def test_a_recording_and_its_digest_are_equal(plimsoll_command, generated, digest):
    out = run(plimsoll_command, "diff", digest, generated["healthy"], "--fail-on-growth", "0")
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith("No difference above 0.1% at any point.")


def test_growth_fails_only_above_the_limit(plimsoll_command, generated, digest):
    other = generated["planted"]
    result = json.loads(run(plimsoll_command, "diff", digest, other, "--json").stdout)
    growth = max(point["difference_bytes"] for point in result["points"])
    back = json.loads(run(plimsoll_command, "diff", other, digest, "--json").stdout)
    least = min(point["difference_bytes"] for point in back["points"])
    assert growth == -least
    for limit, status in ((max(growth, 0), 0), (max(growth, 1) - 1, int(growth > 0))):
        out = run(plimsoll_command, "diff", digest, other, "--fail-on-growth", limit)
        assert out.returncode == status


def with_unused(digest, folder, **unused):
    """Write a copy of a digest with what no operator uses again at the peak."""
    content = json.loads(digest.read_text())
    for point in content["points"]:
        if point["name"] == "peak":
            point["unused"] = unused or None
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(content))
    return path


def test_what_no_operator_uses_again_is_a_row(plimsoll_command, digest, tmp_path):
    before = with_unused(digest, tmp_path, bytes=12 << 20, steps="all")
    after = with_unused(digest, tmp_path, bytes=80 << 20, steps="all")
    text = run(plimsoll_command, "diff", before, after).stdout
    row = r" 12\.0 MiB +80\.0 MiB +\+68\.0 MiB  not used again at the peak on "
    assert re.search(row, text), text
    shown = json.loads(run(plimsoll_command, "diff", before, after, "--json").stdout)
    peak, *others = shown["points"]
    assert peak["unused"] == {
        "before_bytes": 12 << 20,
        "after_bytes": 80 << 20,
        "difference_bytes": 68 << 20,
        "is_sampled": False,
    }
    assert all(point["unused"] is None for point in others)
    assert shown["findings"] == []


def test_the_row_of_sampled_uses_is_as_far_as_observed(plimsoll_command, digest, tmp_path):
    before = with_unused(digest, tmp_path, bytes=12 << 20, steps="some")
    text = run(plimsoll_command, "diff", before, before).stdout
    assert re.search(r" 0 B  not used again at the peak on .*, as far as observed\n", text), text


def test_the_row_is_absent_unless_both_have_uses(plimsoll_command, digest, tmp_path):
    known = with_unused(digest, tmp_path, bytes=12 << 20, steps="all")
    unknown = with_unused(digest, tmp_path)
    for before, after in ((known, unknown), (unknown, known)):
        assert "used again" not in run(plimsoll_command, "diff", before, after).stdout
        shown = json.loads(run(plimsoll_command, "diff", before, after, "--json").stdout)
        assert shown["points"][0]["unused"] is None


def test_usage_errors_and_unreadable_files(plimsoll_command, digest, tmp_path):
    out = run(plimsoll_command, "diff", digest, digest, "--fail-on-growth", "a lot")
    assert out.returncode == 2
    assert "a lot is not a size" in out.stderr
    assert run(plimsoll_command, "diff", digest, digest, "--at", "oom").returncode == 2
    assert run(plimsoll_command, "diff", digest, tmp_path / "none").returncode == 3
    broken = tmp_path / "broken.json"
    broken.write_text(digest.read_text()[:-100])
    out = run(plimsoll_command, "diff", digest, broken)
    assert out.returncode == 3
    assert "not JSON at byte" in out.stderr


def test_a_digest_may_be_compressed_and_begin_with_a_byte_order_mark(
    plimsoll_command, digest, tmp_path
):
    compressed, marked = tmp_path / "base.json.gz", tmp_path / "marked.json"
    compressed.write_bytes(gzip.compress(digest.read_bytes()))
    marked.write_bytes(b"\xef\xbb\xbf" + digest.read_bytes())
    for path in (compressed, marked):
        out = run(plimsoll_command, "diff", path, digest)
        assert out.returncode == 0, out.stderr
        assert out.stdout.startswith("No difference")
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(compressed.read_bytes()[:-200])
    out = run(plimsoll_command, "diff", cut, digest)
    assert out.returncode == 3
    assert f"plimsoll: {cut}: " in out.stderr


@pytest.mark.parametrize(
    "words", [["diff", "-", "{digest}"], ["report", "-"], ["report", "{digest}"]]
)
def test_a_digest_that_cannot_be_read_here_is_called_a_digest(plimsoll_command, digest, words):
    words = [plimsoll_command, *(word.format(digest=digest) for word in words)]
    with digest.open() as pipe:
        out = subprocess.run(words, check=False, stdin=pipe, capture_output=True, text=True)
    assert out.returncode == 3
    assert "this is a digest: only plimsoll diff, check and" in out.stderr
    assert "only from a file" in out.stderr


def test_schemas_are_printed(plimsoll_command):
    for what in ("diff", "digest"):
        schema = json.loads(run(plimsoll_command, "schema", what).stdout)
        assert schema["$defs"]


def test_python_gives_the_same(plimsoll_command, generated, digest):
    plimsoll = pytest.importorskip("plimsoll")
    difference = plimsoll.diff(digest, generated["planted"])
    out = run(plimsoll_command, "diff", digest, generated["planted"], "--json")
    assert difference.report == json.loads(out.stdout)
    assert difference.growth_bytes == max(
        0, *(point["difference_bytes"] for point in difference.report["points"])
    )
    assert plimsoll.diff(digest, digest).findings == []
    with pytest.raises(plimsoll.InvalidArgumentError):
        plimsoll.diff(digest, digest, at="oom")
