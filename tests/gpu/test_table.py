"""The parts of tests/gpu/run that need no GPU: how it runs cases, and its table."""

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(HERE))  # as for a script in that folder
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table():
    return loaded("table")


def test_without_a_gpu_one_sentence_is_printed():
    ran = subprocess.run(
        [str(HERE / "run")],
        env=os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 3
    assert len(ran.stdout.splitlines()) == 1
    assert "nothing was checked" in ran.stdout


def test_each_case_has_its_function(table):
    cases = loaded("cases")
    known = {*cases.CASES, "overhead"}
    assert {each.function for each in table.all_cases()} == known
    assert len({each.name for each in table.all_cases()}) == len(table.all_cases())
    assert {each.words[0] for each in table.all_cases() if each.function == "example"} == {
        *cases.ARGUMENTS
    }
    for name in cases.ARGUMENTS:
        assert (cases.ROOT / "examples" / f"{name}.py").is_file()


@pytest.mark.slow
def test_a_trace_is_read_without_the_engine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    driver = loaded("driver")
    records = json.loads((driver.ROOT / "tests/compat/v2.json").read_text())["records"]
    allocations, left = driver.allocations_of(
        driver.dumped(driver.ROOT / "tests/compat/v2.plimsoll")
    )
    assert sum(allocations.values()) == records["alloc"]
    assert left == records["alloc"] - records["free"]
    assert {key.split(" ")[0] for key in allocations} == {"cpu", "cuda"}


def test_the_trace_of_a_program_has_its_process_id(tmp_path, monkeypatch):
    driver = loaded("driver")
    (tmp_path / "driver.plim.7").touch()
    (tmp_path / "driver.plim.12").touch()
    assert driver.trace_of(tmp_path / "driver.plim", 12) == tmp_path / "driver.plim.12"
    assert driver.trace_of(tmp_path / "driver.plim", 8) is None


def test_a_case_gets_its_settings_and_no_others(table, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "mine")
    case_list = loaded("case_list")
    by_name = {each.name: each for each in table.all_cases()}

    def environment(name):
        return case_list.environment_of(by_name[name], tmp_path)

    assert environment("graphs, expandable")["PYTORCH_CUDA_ALLOC_CONF"] == (
        "expandable_segments:True"
    )
    assert "PYTORCH_CUDA_ALLOC_CONF" not in environment("graphs, default")
    without = environment("without a compiler")
    assert without["CXX"] == "/nonexistent"
    assert without["PLIMSOLL_CACHE"] == str(tmp_path / "cache")


def test_what_needs_the_whole_device_runs_alone(table):
    alone = {each.function for each in table.all_cases() if each.alone}
    assert alone == {"device_bar", "caught_oom", "oom_search", "overhead"}


def check_line(what, holds=True, found=""):
    return f"print(json.dumps(dict(check={what!r}, holds={holds}, found={found!r})), flush=True)"


class Run:
    """Runs a program in place of cases.py for each case; the function of the case is its code."""

    def __init__(self, table, folder):
        self.table, self.folder = table, folder
        folder.mkdir(exist_ok=True)
        (folder / "machine.json").write_text('{"card": "none"}')
        self.program = folder / "program.py"
        self.program.write_text("import json, os, pathlib, sys, time\nexec(sys.argv[1])\n")

    def __call__(self, *cases, seconds=None, jobs=2):
        options = self.table.parsed([str(self.folder), "--jobs", str(jobs)])
        options.seconds = seconds
        program = (sys.executable, str(self.program))
        return self.table.run(cases, self.folder, options, program)

    def rows(self):
        lines = (self.folder / "results/results.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def checks(self):
        return [each for each in self.rows() if "state" in each]


@pytest.fixture
def run(table, tmp_path):
    return Run(table, tmp_path / "gpu")


@pytest.fixture
def case(table):
    return loaded("case_list").Case


def test_lines_of_a_case_become_checks(table):
    text = 'loss 0.3\n{"check": "sums", "holds": true, "found": "9 times"}\n{"other": 1}\n'
    running = loaded("running")
    assert running.checks_of("one", text) == [running.Check("one", "sums", "holds", "9 times")]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("sys.exit('no memory')", "status 1: no memory"),
        ("pass", "status 0: no message"),  # no check was printed
        (f"{check_line('a')}; sys.exit(3)", "status 3: no message"),
    ],
)
def test_a_case_without_a_good_end_fails(run, case, program, found):
    assert run(case("one", program)) == 1
    last = {"case": "one", "what": "ends", "state": "FAILS", "found": found}
    assert run.checks()[-1] == last


def test_cases_run_side_by_side_and_those_that_are_alone_after_them(run, case):
    folder = str(run.folder)

    def meet(mine, other):  # ends only if both cases run at the same time
        return (
            f"pathlib.Path({folder!r}, {mine!r}).touch()\n"
            f"while not pathlib.Path({folder!r}, {other!r}).exists(): time.sleep(0.01)\n"
            f"{check_line('met')}"
        )

    last = check_line("last") + f"; assert pathlib.Path({folder!r}, 'b').exists()"
    assert (
        run(case("last", last, alone=True), case("a", meet("a", "b")), case("b", meet("b", "a")))
        == 0
    )
    assert [each["what"] for each in run.checks()] == ["met", "met", "last"]


def test_each_check_is_written_as_soon_as_it_is_known(run, case):
    table = run.folder / "results/table.txt"
    wait = f"while 'early' not in open({str(table)!r}).read(): time.sleep(0.01)"
    assert run(case("one", f"{check_line('early')}\n{wait}\n{check_line('late')}")) == 0
    assert [each["what"] for each in run.checks()] == ["early", "late"]


def test_a_run_that_is_cut_off_lists_what_did_not_run(run, case):
    forever = f"{check_line('begun')}; time.sleep(600)"
    cases = [case("runs", forever), case("waits", check_line("a")), case("alone", "", alone=True)]
    assert run(*cases, seconds=2, jobs=1) == 1
    states = {(each["case"], each["what"]): each["state"] for each in run.checks()}
    assert states == {
        ("runs", "begun"): "holds",
        ("runs", "ends"): "not run",
        ("waits", "ends"): "not run",
        ("alone", "ends"): "not run",
    }
    text = (run.folder / "results/table.txt").read_text()
    assert "1 checks hold, 3 cases did not run to their end" in text


def test_past_the_limit_nothing_runs(run, case):
    assert run(case("one", check_line("a")), seconds=-1) == 1
    (row,) = run.checks()
    assert (row["state"], row["found"]) == ("not run", "not started: the limit is -1 s")


def test_results_of_an_earlier_run_are_removed(run, case):
    again = "assert not os.path.exists('old'); open('old', 'w'); " + check_line("fresh")
    assert run(case("one", again)) == 0
    assert run(case("one", again)) == 0


def test_files_of_failed_cases_are_kept(run, case):
    fails = "pathlib.Path('run.plim').write_text('x'); " + check_line("a", holds=False)
    assert run(case("bad", fails), case("good", check_line("a"))) == 1
    with tarfile.open(run.folder / "results/failed.tar.gz") as archive:
        assert "bad/run.plim" in archive.getnames()
        assert {Path(name).parent.name for name in archive.getnames()} == {"bad"}


def test_the_table_names_what_fails(table):
    running = loaded("running")
    checks = [
        running.Check("one", "sums", "holds", "9 times"),
        running.Check("other", "end", "FAILS", "a\nb"),
    ]
    last = table.summary(checks, {"one": 2.0, "other": 3.0})
    assert last[0] == "slowest: other 3 s, one 2 s"
    assert last[1].split() == ["FAILS", "other", "end", "a", "|", "b"]
    assert last[2] == "1 checks hold, 1 fail"


def test_unknown_cases_are_named(table, tmp_path, capsys):
    assert table.main([str(tmp_path), "magic"]) == 2
    assert "planted oom" in capsys.readouterr().out


def test_sums_that_differ_are_reported(monkeypatch):
    module = loaded("sums")

    class Share:
        size_bytes = 40

    class Row:
        name = "cuda:0"
        live_bytes = 100
        categories = (Share(), Share())

    class Sample:
        devices = (Row(),)

    state = {"allocated_bytes": 100, "reserved_bytes": 200}
    monkeypatch.setattr(module._record, "take_sample", Sample)
    monkeypatch.setattr(module.cuda_hooks, "state", lambda: [state])
    monkeypatch.setattr(module.torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(module.torch.cuda, "memory_reserved", lambda device: 200)
    sums = module.Sums()
    sums.compare()
    assert sums.compared == 1
    assert sums.wrong == ["categories of cuda:0: 80 for 100"]


def test_the_interval_contains_the_median():
    middle, low, high = loaded("overhead").interval([1.0, 2.0, 3.0, 4.0, 50.0])
    assert low <= middle == 3.0 <= high


def test_results_become_rows_of_the_documentation(tmp_path, capsys):
    markdown = loaded("markdown")
    machine = dict.fromkeys(markdown.COLUMNS, "x") | {"date": "2026-11-26", "driver": ""}
    found = "+0.31 % (+0.12 to +0.55), 9 pairs of 5 steps of 99.1 ms"
    rows = [{"machine": machine}]
    rows += [
        {"case": "overhead, compute-bound", "what": name, "state": "holds", "found": found}
        for name in markdown.VARIANTS
    ]
    rows += [
        {"case": "lite", "what": "sums", "state": "FAILS", "found": "a\nb"},
        {"case": "lite", "seconds": 2.0},
        {"case": "late", "what": "ends", "state": "not run", "found": "c"},
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    markdown.main(str(path))
    run, overhead, failed, not_run = [x for x in capsys.readouterr().out.splitlines() if x]
    assert run == "| 2026-11-26 | x | x | — | x | x | x | 2 | 5 hold, 1 fail |"
    percent = "+0.31 % (+0.12 to +0.55)"
    assert overhead.split(" | ")[1] == "compute-bound, 99.1 ms"
    assert overhead.count(percent) == 5
    assert failed == "| lite | sums | FAILS | a / b |"
    assert not_run == "| late | ends | not run | c |"
