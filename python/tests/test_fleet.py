"""Fleets: ranks and runs that are compared by what `fleet add` keeps of them."""

from __future__ import annotations

import errno
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import duckdb
import pyarrow.parquet as pq
from generated_ranks import GIB, MIB, paths, runner

import plimsoll
from plimsoll import fleet
from plimsoll.fleet import adding, runners
from plimsoll.fleet.folder import Folder, file_system_of

RECORDING = Path(__file__).parents[2] / "tests" / "compat" / "v3.plimsoll"


def more_memory(rank, row, sizes):
    if rank == 71:
        sizes[4] += 2 * GIB


def out_of_memory(rank, row, sizes):
    if rank in (7, 30):
        row.update(ooms=1, oom_time_ns=10**18 + rank, oom_request_bytes=3 * GIB)
        row["oom_cause"] = "cuda:7 ran out of memory in step 8: attention needs 3.0 GiB"
    if rank == 30:
        row["oom_time_ns"] = 10**18 - 5 * 10**9


def regression(rank, row, sizes):
    sizes[3] += GIB


def flat(answer):
    """The text of the answer without its line breaks."""
    return " ".join(str(answer).split())


def verdicts(answer):
    return [each["title"] for each in answer.verdicts]


def comparable(answer):
    """The answer without the time of its reading."""
    whole = dict(vars(answer), run={**answer.run, "added_ns": 0})
    return whole


def test_a_rank_that_differs_comes_first_with_the_line(tmp_path):
    fleet.add(tmp_path, paths(96), run="a", runner=runner(more_memory))
    answer = fleet.open(tmp_path).show()
    assert verdicts(answer) == [
        "Rank 71 peaks at 44.0 GiB, 2.0 GiB above the median of 96 ranks (42.0 GiB)"
    ]
    assert answer.ranks[0]["rank"] == 71
    first = answer.differences[0]
    assert first["place"] == "model.py:20 (MLP.forward)"
    assert abs(first["difference_bytes"] - 2 * GIB) <= 8 * MIB
    assert "2.0 GiB more is in model.py:20 (MLP.forward)" in answer.verdicts[0]["evidence"][0]
    assert sum(row["difference_bytes"] for row in answer.differences) == pytest.approx(
        answer.ranks[0]["difference_bytes"], abs=8 * MIB
    )


@pytest.mark.parametrize("by, key", [("layer", "blocks.*.mlp"), ("category", "activation")])
def test_differences_by_layer_and_category(tmp_path, by, key):
    fleet.add(
        tmp_path,
        paths(24),
        run="a",
        runner=runner(lambda rank, row, sizes: more_memory(rank + 60, row, sizes)),
    )
    assert fleet.open(tmp_path).show(by=by).differences[0]["key"] == key


def test_the_rank_that_failed_first_comes_before_one_that_differs(tmp_path):
    def both(rank, row, sizes):
        more_memory(rank, row, sizes)
        out_of_memory(rank, row, sizes)

    fleet.add(tmp_path, paths(96), run="a", runner=runner(both))
    answer = fleet.open(tmp_path).show()
    assert verdicts(answer)[0] == "Rank 30 ran out of memory first; 2 ranks did"
    assert "attention needs 3.0 GiB." in answer.verdicts[0]["evidence"][0]
    assert "Rank 7 did 5.0 s later, by its own clock." in answer.verdicts[0]["evidence"]
    assert verdicts(answer)[1].startswith("Rank 71 peaks at")
    evidence = answer.verdicts[1]["evidence"]
    assert evidence[0].startswith("2.0 GiB more is in model.py:20 (MLP.forward)")
    assert " activation of mm in blocks.*.mlp, at model.py:20" in evidence[1]


def test_of_two_ranks_the_other_one_is_named_instead_of_a_median(tmp_path):
    def more(rank, row, sizes):
        sizes[4] += rank * 20 * GIB

    fleet.add(tmp_path, paths(2), run="a", runner=runner(more))
    answer = fleet.open(tmp_path).show()
    assert "above the other rank (42.0 GiB)" in verdicts(answer)[0]
    assert answer.verdicts[0]["evidence"][0].endswith(" on the other rank.")
    assert "Rank 1 compared with the other rank, by line" in str(answer)
    assert "median of its group" not in str(answer)


def test_equal_ranks_raise_no_alarm(tmp_path):
    fleet.add(tmp_path, paths(64), run="a", runner=runner())
    answer = fleet.open(tmp_path).show()
    assert answer.verdicts == []
    assert "No rank ran out of memory, and no rank differs." in str(answer)


def test_stages_of_a_pipeline_are_compared_among_themselves(tmp_path):
    def stages(rank, row, sizes):
        sizes[0] += (rank // 16) * 5 * GIB
        if rank == 37:
            sizes[5] += GIB

    fleet.add(tmp_path, paths(64), run="a", mesh="pp=4,dp=8,tp=2", runner=runner(stages))
    answer = fleet.open(tmp_path).show()
    assert len(verdicts(answer)) == 1
    assert verdicts(answer)[0].startswith(
        "Rank 37 peaks at 53.0 GiB, 1.0 GiB above the median of 8"
    )
    assert "at tp 1, pp 2" in verdicts(answer)[0]
    assert {answer.ranks[0][axis] for axis in ("pp", "dp", "tp")} == {2, 1}


def test_ranks_with_other_layers_are_not_compared(tmp_path):
    def stages(rank, row, sizes):
        row["role"] = rank // 8
        sizes[0] += (rank // 8) * 5 * GIB

    fleet.add(tmp_path, paths(32), run="a", runner=runner(stages))
    assert fleet.open(tmp_path).show().verdicts == []


def test_a_change_since_another_run(tmp_path):
    fleet.add(tmp_path, paths(32), run="monday", commit="aaa", runner=runner(seed=1))
    fleet.add(tmp_path, paths(32), run="tuesday", commit="bbb", runner=runner(regression, seed=2))
    answer = fleet.open(tmp_path).show(against="monday")
    assert answer.run["run"] == "tuesday"  # the latest
    assert verdicts(answer)[0].startswith("The median peak of run tuesday is 43.0 GiB, ")
    assert answer.verdicts[0]["next_step"].endswith("git diff aaa bbb")
    assert answer.changes[0]["place"] == "model.py:30 (Attention.forward)"
    assert answer.changes[0]["difference_bytes"] == pytest.approx(GIB, abs=8 * MIB)


def test_history_names_the_run_where_the_peak_left_its_range(tmp_path):
    for day in range(30):
        change = regression if day >= 20 else None
        fleet.add(
            tmp_path,
            paths(4),
            run=f"day{day:02}",
            commit=f"c{day}",
            runner=runner(change, seed=day),
        )
    history = fleet.open(tmp_path).history()
    changed = [row["run"] for row in history.runs if row["change_bytes"]]
    assert changed == ["day20"]
    assert str(history).startswith("Since commit c20 (run day20), the peak is 43.0 GiB, ")
    fleet.finish(tmp_path)
    assert fleet.open(tmp_path).history() == history


def test_workloads_have_a_history_each(tmp_path):
    for day in range(6):
        for name, change in (("small", None), ("large", regression)):
            tags = {"workload": name}
            run = f"{name}{day}"
            fleet.add(tmp_path, paths(2), run=run, tags=tags, runner=runner(change, seed=day))
    history = fleet.open(tmp_path).history()
    assert not any(row["change_bytes"] for row in history.runs)
    assert {row["workload"] for row in history.runs} == {"small", "large"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda row: row.update(world_size=4), id="other number of ranks"),
        pytest.param(lambda row: row.update(device="cpu"), id="other device"),
        pytest.param(lambda row: row.update(command=""), id="unknown program"),
    ],
)
def test_runs_that_are_not_comparable_are_not_one_history(tmp_path, other):
    def change(rank, row, sizes):
        other(row)
        sizes[3] += day * GIB if row["command"] == "" else GIB

    for day in range(6):
        make = runner(change if day >= 3 else None, seed=day)
        fleet.add(tmp_path, paths(2), run=f"day{day}", runner=make)
    history = fleet.open(tmp_path).history()
    assert not any(row["change_bytes"] for row in history.runs)
    assert "within the range" in str(history)


def test_order_duplicates_single_adds_and_joined_files_do_not_matter(tmp_path):
    at_once, singly, twice = (tmp_path / name for name in ("at-once", "singly", "twice"))
    everyone = paths(40)
    make = runner(out_of_memory)
    fleet.add(at_once, everyone, run="a", runner=make)
    shuffled = list(everyone)
    random.Random(3).shuffle(shuffled)
    for path in shuffled:
        fleet.add(singly, [path], run="a", runner=make)
    fleet.add(twice, everyone[5:], run="a", runner=make)
    fleet.add(twice, everyone[:20], run="a", runner=make)  # some again, some later
    expected = comparable(fleet.open(at_once).show())
    for folder in (singly, twice):
        assert comparable(fleet.open(folder).show()) == expected
        fleet.finish(folder)
        assert len(Folder(folder).names("ranks")) == 1
        assert comparable(fleet.open(folder).show()) == expected
        fleet.finish(folder, "a")
        assert comparable(fleet.open(folder).show()) == expected


class StoppingFolder(Folder):
    """Stops with Ctrl-C before the n-th change of the folder."""

    left = 0

    def write(self, name, data):
        self._count()
        super().write(name, data)

    def delete(self, names):
        for name in names:
            self._count()
            super().delete([name])

    def _count(self):
        if StoppingFolder.left == 0:
            raise KeyboardInterrupt
        StoppingFolder.left -= 1


def test_an_interrupted_finish_loses_and_doubles_nothing(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    for path in paths(6):
        fleet.add(whole, [path], run="a", runner=runner())
    expected = comparable(fleet.open(whole).show())
    total = "select sum(bytes) from peaks"
    bytes_before = fleet.open(whole).sql(total).fetchall()
    monkeypatch.setattr(adding, "Folder", StoppingFolder)
    for stop in range(4 + 6 * 4):
        folder = tmp_path / f"stop{stop}"
        shutil.copytree(whole, folder)
        StoppingFolder.left = stop
        with pytest.raises(KeyboardInterrupt):
            fleet.finish(folder)
        opened = fleet.open(folder)
        assert comparable(opened.show()) == expected, stop
        assert opened.sql(total).fetchall() == bytes_before, stop


def test_a_rank_replaces_its_own_recording_but_no_other(tmp_path):
    fleet.add(tmp_path, paths(3), run="a", runner=runner())
    grown = fleet.add(tmp_path, ["rank1.plim"], run="a", runner=runner(regression))
    assert grown.problems == []
    assert fleet.open(tmp_path).show().run["ranks"] == 3
    other = fleet.add(tmp_path, ["rank1.plim"], run="a", runner=runner(seed=5))
    assert other.ranks == []
    assert other.problems == [
        "rank1.plim: run a already has another recording of rank 1; use --run NAME for a new run,"
        " or --replace"
    ]
    fleet.finish(tmp_path)
    assert len(fleet.add(tmp_path, ["rank1.plim"], run="a", runner=runner(seed=5)).problems) == 1
    replaced = fleet.add(tmp_path, ["rank1.plim"], run="a", runner=runner(seed=5), replace=True)
    assert replaced.problems == []
    assert fleet.open(tmp_path).sql("select count(*) from ranks").fetchall() == [(3,)]


def test_missing_ranks_are_named_without_a_mesh(tmp_path):
    def of_four(rank, row, sizes):
        row["world_size"] = 4

    fleet.add(tmp_path, paths(2), run="a", runner=runner(of_four))
    assert "2 ranks, 2 missing (2, 3)" in str(fleet.open(tmp_path).show())


def test_of_two_adds_of_one_rank_at_a_time_the_answer_names_both(tmp_path, monkeypatch):
    fleet.add(tmp_path, paths(3), run="a", runner=runner())
    with monkeypatch.context() as other:  # neither add sees the other's file
        other.setattr(adding, "_ranks_in", lambda *_: [])
        fleet.add(tmp_path, ["rank1.plim"], run="a", runner=runner(regression, seed=5))
    for _ in range(2):
        answer = fleet.open(tmp_path).show()
        assert [row["others"] for row in answer.ranks if row["rank"] == 1] == [
            [str(Path("rank1.plim").absolute())]
        ]
        assert "1 rank added more than once (rank 1: shown is " in flat(answer)
        assert answer.run["ranks"] == 3
        assert answer.ranks[0]["peak_bytes"] > 42.5 * GIB  # the one that was added last
        fleet.finish(tmp_path)  # keeps the fact
    fleet.add(tmp_path, ["rank1.plim"], run="a", runner=runner(), replace=True)
    for _ in range(2):
        text = flat(fleet.open(tmp_path).show())
        assert "more than once" not in text
        assert "43.0 GiB" not in text
        fleet.finish(tmp_path)


def test_missing_and_incomplete_ranks_are_named(tmp_path):
    def cut(rank, row, sizes):
        row["incomplete"] = "the file ends in the middle of a block" if rank == 4 else ""

    fleet.add(tmp_path, ["rank0.plim", "rank4.plim", "rank2.plim"], run="a", runner=runner(cut))
    text = str(fleet.open(tmp_path).show())
    assert "3 ranks, 2 missing (1, 3)" in text
    assert "1 rank incomplete (rank 4: the file ends in the middle" in text.replace("\n", " ")


def recordings(folder):
    """Real recordings of a small program, by its three ranks."""
    folder.mkdir()
    program = folder / "train.py"
    program.write_text(
        "import os, torch\n"
        "model = torch.nn.Linear(256, 256)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "rows = 8192 if os.environ['RANK'] == '1' else 1024\n"
        "for _ in range(3):\n"
        "    model(torch.ones(rows, 256)).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    import os

    for rank in range(3):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"}
        command = [sys.executable, "-m", "plimsoll", "run", "-o", "run.plim", "train.py"]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return [str(folder / f"run.rank{rank}.plim") for rank in range(3)]


def test_recordings_from_the_command_line(tmp_path):
    files = recordings(tmp_path / "monday")

    def command(*words, status=0):
        result = subprocess.run(
            [str(Path(sys.executable).with_name("plimsoll")), "fleet", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == status, result.stderr
        return result.stdout + result.stderr

    damaged = tmp_path / "damaged.plim"
    damaged.write_bytes(Path(files[2]).read_bytes()[:4096])
    (tmp_path / "text.txt").write_text("no recording")
    out = command("add", "runs", "--run=monday", *files[:2], "text.txt", "absent.plim", status=3)
    assert "runs: added 2 ranks (0, 1) to run monday" in out
    assert "text.txt: this text has none of the messages" in out
    assert "cannot open absent.plim" in out
    assert "added 1 rank (2) to run monday" in command("add", "runs", files[2])
    out = command("show", "runs")
    assert "WARNING Rank 1 peaks at" in out
    assert "train.py:6" in out
    assert (
        "activations and what is computed from them \N{MULTIPLICATION SIGN} 8" in out
    )  # as plimsoll diff says it
    serial = tmp_path / "serial"
    fleet.add(serial, files, runner=runners.serial)
    expected = comparable(fleet.open(serial).show())
    assert comparable(fleet.open(tmp_path / "runs").show()) == expected
    assert "3" in command("sql", "runs", "select count(*) from ranks")
    assert 'Did you mean "ranks"' in command("sql", "runs", "select * from rank", status=2)
    assert "runs has no run friday; it has monday" in command(
        "show", "runs", "--run=friday", status=2
    )
    assert "plimsoll fleet show does not take --mesh" in command(
        "show", "runs", "--mesh=dp=2", status=2
    )
    page = tmp_path / "out.html"
    assert str(page) in command("show", "runs", "--html", str(page))
    assert "Rank 1 peaks at" in page.read_text()
    # The peak by site is the peak of the report.
    report = plimsoll.open(files[1]).report
    live = report["tables"]["points_in_time"][0]["live_bytes"]
    rows = fleet.open(serial).sql("select sum(bytes) from peaks where rank = 1 and point = 'peak'")
    assert rows.fetchall() == [(live,)]


KILLED_BY_RANK_2 = """
import os, signal
from plimsoll.fleet import worker
from plimsoll.fleet.partial import Part

def partial(path, options):
    if path.endswith("rank2.plim"):
        os.kill(os.getpid(), signal.SIGKILL)
    return Part(path)

worker.partial = partial
worker.main()
"""


def test_a_process_that_is_killed_is_named_and_loses_no_other(tmp_path, monkeypatch):
    files = [str(tmp_path / f"rank{i}.plim") for i in range(8)]
    monkeypatch.setattr(runners, "WORKER", ("-c", KILLED_BY_RANK_2))
    parts = list(runners.processes(files, adding.RunOptions("a")))
    assert sorted(part.path for part in parts) == files
    problems = [part.problem for part in parts if part.problem]
    assert problems == [f"{files[2]}: the process that read it was killed"]


def test_a_script_without_a_guard_for_its_main_part_adds_once(tmp_path):
    (tmp_path / "a.txt").write_text("no recording")
    (tmp_path / "b.txt").write_text("no recording")
    script = tmp_path / "script.py"
    script.write_text(
        "from plimsoll import fleet\n"
        "print('begin')\n"
        "print(len(fleet.add('runs', ['a.txt', 'b.txt']).problems))\n"
    )
    command = [sys.executable, str(script)]
    out = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert out.stdout == "begin\n2\n"
    assert out.stderr == ""


def test_ranks_without_findings_are_joined(tmp_path):
    make = runner(has_findings=False)
    for path in paths(3):
        fleet.add(tmp_path, [path], run="a", runner=make)
    expected = comparable(fleet.open(tmp_path).show())
    assert fleet.finish(tmp_path) == 3
    assert comparable(fleet.open(tmp_path).show()) == expected
    assert expected["findings"] == []
    assert fleet.finish(tmp_path, "a") == 0  # the run is in a file with others
    with pytest.raises(FileNotFoundError, match="has no run b"):
        fleet.finish(tmp_path, "b")


@pytest.mark.parametrize("table", ["ranks", "peaks", "steps", "findings"])
@pytest.mark.parametrize("content", [b"", b"PAR1 damaged", None])
def test_a_damaged_file_is_named(tmp_path, table, content):
    fleet.add(tmp_path, paths(3), run="a", runner=runner())
    fleet.add(tmp_path, paths(3), run="b", runner=runner(seed=1))
    file = next((tmp_path / "v1" / table / "run=a").iterdir())
    if content is None:
        pq.write_table(pq.read_table(file).select(["run"]), file)
    else:
        file.write_bytes(content)
    with pytest.raises(plimsoll.Error, match=f"v1/{table}/run=a/.* is damaged, or not from"):
        fleet.open(tmp_path).show("a")
    with pytest.raises(plimsoll.Error, match="is damaged, or not from"):
        fleet.finish(tmp_path)
    assert fleet.open(tmp_path).show("b").run["ranks"] == 3


def command(*words, cwd):
    """Run plimsoll; return its status and output."""
    program = str(Path(sys.executable).with_name("plimsoll"))
    result = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_a_plot_of_the_ranks_needs_only_the_fleet(tmp_path):
    def stages(rank, row, sizes):
        sizes[0] += (rank // 4) * 5 * GIB
        sizes[4] += 2 * GIB if rank == 5 else 0

    make = runner(stages, steps=3)
    fleet.add(tmp_path / "runs", paths(8), run="monday", mesh="pp=2,dp=4", runner=make)
    fleet.add(tmp_path / "runs", paths(2), run="<b>", runner=runner(steps=3, seed=1))
    plot = ("plot", "runs", "--what", "ranks", "-o")
    assert command(*plot, "out.svg", "--run", "monday", cwd=tmp_path)[0] == 0
    picture = (tmp_path / "out.svg").read_text()
    assert "monday · 8 ranks" in picture
    assert "rank 5, step 2: 49.0 GiB, +2.0 GiB from the median" in picture
    assert "rank 4, step 2: 47.0 GiB, +" in picture.replace(", -", ", +")
    assert "5.0 GiB from the median" not in picture  # the stages are not compared
    for name in ("out.png", "out.pdf"):
        assert command(*plot, name, cwd=tmp_path)[0] == 0  # the latest
        assert (tmp_path / name).stat().st_size > 1_000
    status, text = command(*plot, "no.svg", "--run", "friday", cwd=tmp_path)
    assert (status, text) == (2, "plimsoll: runs has no run friday; it has <b>, monday\n")
    (tmp_path / "empty").mkdir()
    status, text = command("plot", "empty", "--what", "ranks", "-o", "no.svg", cwd=tmp_path)
    assert status == 3
    assert "empty is not a fleet" in text
    assert not (tmp_path / "no.svg").exists()


def test_a_picture_of_long_runs_has_the_highest_of_several_steps(tmp_path, monkeypatch):
    from plimsoll.fleet import questions

    monkeypatch.setattr(questions, "MOST_CELLS", 12)
    fleet.add(tmp_path, paths(3), run="a", runner=runner(steps=10))
    opened = fleet.open(tmp_path)
    found = opened.map(opened.show())
    assert found.each == 3
    peaks = opened.sql("select step, peak_bytes from steps where rank = 1 order by step").fetchall()
    expected = {
        first: max(peak for step, peak in peaks if first <= step < first + 3)
        for first in (1, 4, 7, 10)
    }
    assert found.ranks[1].peaks == expected
    assert not found.ranks[1].has_rest


def test_a_run_is_not_compared_with_itself(tmp_path):
    fleet.add(tmp_path, paths(3), run="a", runner=runner())
    with pytest.raises(ValueError, match="would be compared with itself"):
        fleet.open(tmp_path).show("a", against="a")


def test_a_warning_of_the_ranks_own_reports_is_a_verdict(tmp_path):
    fleet.add(tmp_path, paths(4), run="a", runner=runner(severity="warning"))
    answer = fleet.open(tmp_path).show()
    assert verdicts(answer) == ["Activations fill a quarter of the peak (4 ranks, such as rank 0)"]


def test_an_unchanged_run_says_so(tmp_path):
    fleet.add(tmp_path, paths(4), run="a", runner=runner())
    fleet.add(tmp_path, paths(4), run="b", runner=runner())
    answer = fleet.open(tmp_path).show("b", against="a")
    assert answer.verdicts == []
    assert "The peaks are those of run a." in str(answer)


def test_the_last_ranks_of_a_mesh_may_be_missing(tmp_path):
    fleet.add(tmp_path, paths(2), run="a", mesh="dp=4", runner=runner())
    assert "2 ranks, 2 missing (2, 3)" in str(fleet.open(tmp_path).show())


@pytest.mark.parametrize("run", ["\x1b[31m", "a\nb", "x" * 300])
def test_names_of_runs_that_break_a_terminal_or_a_folder_are_refused(tmp_path, run):
    with pytest.raises(ValueError, match="of the run should have"):
        fleet.add(tmp_path, paths(1), run=run, runner=runner())


def test_workloads_with_one_run_each_have_nothing_to_compare(tmp_path):
    for name in ("small", "large"):
        fleet.add(tmp_path, paths(1), run=name, tags={"workload": name}, runner=runner())
    assert str(fleet.open(tmp_path).history()).startswith(
        "Nothing to compare: 2 runs of 2 workloads."
    )


def test_a_full_disk_loses_nothing_that_was_there(tmp_path, monkeypatch):
    fleet.add(tmp_path, paths(3), run="a", runner=runner())
    expected = comparable(fleet.open(tmp_path).show())
    real = Folder.write

    def full(self, name, data):
        if name.startswith("peaks"):
            raise OSError(errno.ENOSPC, "No space left on device", name)
        real(self, name, data)

    monkeypatch.setattr(Folder, "write", full)
    with pytest.raises(OSError, match="No space left"):
        fleet.add(tmp_path, ["rank3.plim"], run="a", runner=runner())
    with pytest.raises(OSError, match="No space left"):
        fleet.add(tmp_path, ["rank0.plim"], run="b", runner=runner())
    monkeypatch.undo()
    assert comparable(fleet.open(tmp_path).show()) == expected
    assert not list(tmp_path.rglob("*.partial"))


def test_other_folders_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a fleet; plimsoll fleet add"):
        fleet.open(tmp_path)
    (tmp_path / "v7" / "ranks").mkdir(parents=True)
    with pytest.raises(plimsoll.Error, match="written by a newer Plimsoll"):
        fleet.open(tmp_path)
    with pytest.raises(ValueError, match="'tq=2' should be an axis"):
        fleet.add(tmp_path, ["rank0.plim"], mesh="pp=2,tq=2", runner=runner())
    with pytest.raises(ValueError, match="in several folders; name the run with --run"):
        fleet.add(tmp_path, ["a/rank0.plim", "b/rank1.plim"])


def test_a_rank_outside_the_mesh_is_a_problem(tmp_path):
    file = tmp_path / "rank9.plim"
    shutil.copy(RECORDING, file)
    added = fleet.add(tmp_path / "runs", [file], mesh="dp=4,tp=2")
    assert added.problems == [f"{file}: rank 9 is not in the mesh, which has 8 ranks"]
    assert fleet.add(tmp_path / "runs", [file], mesh="dp=5,tp=2").ranks == [9]


def test_names_of_runs_may_have_any_characters(tmp_path):
    names = ["a/b", "ü ?*[x]", "100%", "'quoted'", ".."]
    for name in names:
        fleet.add(tmp_path / "a[1]", paths(2), run=name, runner=runner())
    opened = fleet.open(tmp_path / "a[1]")
    assert opened.runs == sorted(names)
    for name in names:
        assert opened.show(name).run["ranks"] == 2
    fleet.finish(tmp_path / "a[1]")
    assert fleet.open(tmp_path / "a[1]").runs == sorted(names)


def test_without_duckdb_the_command_says_what_to_install(tmp_path, monkeypatch):
    fleet.add(tmp_path, paths(2), run="a", runner=runner())
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match="duckdb is not installed: pip install duckdb"):
        fleet.open(tmp_path)


@pytest.mark.parametrize("address", ["gs://bucket/runs", "s3://bucket/runs?region=us-east-1"])
def test_the_address_of_a_bucket_needs_no_network_to_be_understood(address):
    assert file_system_of(address)[1] == "bucket/runs"


def test_other_engines_read_the_files(tmp_path):
    fleet.add(tmp_path, paths(4), run="a", runner=runner())
    polars = pytest.importorskip("polars")
    ranks = polars.read_parquet(f"{tmp_path}/v1/ranks/*/*.parquet")
    assert ranks["rank"].to_list() == [0, 1, 2, 3]
    assert duckdb.sql(f"select count(*) from '{tmp_path}/v1/steps/*/*.parquet'").fetchall() == [
        (80,)
    ]
    assert pq.read_schema(next(tmp_path.rglob("v1/peaks/*/*.parquet"))).names[:3] == [
        "run",
        "rank",
        "point",
    ]


def test_newer_and_older_columns_are_read(tmp_path):
    fleet.add(tmp_path, paths(2), run="a", runner=runner())
    path = next(tmp_path.rglob("v1/ranks/*/*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["unused_bytes"]).append_column("new", [[1, 2]]), path)
    fleet.add(tmp_path, ["rank2.plim"], run="a", runner=runner())
    assert [row["unused_bytes"] for row in fleet.open(tmp_path).show().ranks] == [None] * 3
    fleet.finish(tmp_path)
    assert fleet.open(tmp_path).sql("select max(new) from ranks").fetchall() == [(2,)]


def test_the_questions_of_the_documentation_have_these_answers(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "fleets.md").read_text()
    block = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[0]
    fleet.add(tmp_path, paths(8), run="monday", runner=runner())
    change = runner(out_of_memory, seed=1)
    fleet.add(tmp_path, paths(8), run="tuesday", commit="1a2b3c", runner=change)
    opened = fleet.open(tmp_path)
    questions = re.findall(r"(.*?;)\n-- -> ([^\n]*)\n", block, re.DOTALL)
    assert len(questions) == 10
    for query, expected in questions:
        rows = opened.sql(query).fetchall()
        first = ", ".join(map(str, rows[0])) if rows else "no row"
        assert first + (f"; {len(rows)} rows" if len(rows) > 1 else "") == expected
