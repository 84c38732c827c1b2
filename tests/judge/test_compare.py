"""Two results with one difference of each kind: the table has a line for each."""

from tests.judge import compare

MIB = 1 << 20
GROWTH = {
    "id": "memory_growth",
    "severity": "warning",
    "title": "Memory grows by 2.0 MiB per step at train.py:12 (main)",
    "evidence": ["30 steps: 60.0 MiB"],
    "next_step": "Detach what is kept.",
    "saving_bytes": 60 * MIB,
}
FACT = GROWTH | {"id": "activations_dominate", "severity": "info", "saving_bytes": 0}


def row(file, *findings, right=None, **changed):
    answer = {"findings": list(findings), "near_misses": [], "status": 0, "error": "", "seconds": 1}
    return {"suite": "made", "file": file, "program": "", "right": right} | answer | changed


def lines_of(before, after):
    return compare.table(
        {each["file"]: each for each in before}, {each["file"]: each for each in after}
    )


def only_line(one, two):
    (line,) = lines_of([row("a.plim", *one)], [row("a.plim", *two)])
    return line.split(maxsplit=2)


def test_equal_results_have_no_difference():
    rows = [row("a.plim", GROWTH), row("b.plim")]
    assert lines_of(rows, rows) == []


def test_each_kind_of_difference_is_named():
    assert only_line([GROWTH, FACT], [GROWTH])[2] == "ids        1  -activations_dominate  (a.plim)"
    assert only_line([GROWTH], [GROWTH | {"severity": "info"}])[0] == "severity"
    assert only_line([GROWTH], [GROWTH | {"saving_bytes": 70 * MIB}])[0] == "saving"
    assert lines_of([row("a", GROWTH)], [row("a", GROWTH | {"saving_bytes": 61 * MIB})]) == []
    assert only_line([GROWTH], [GROWTH | {"next_step": "Detach it."}])[0] == "words"
    three = [GROWTH, FACT, FACT | {"id": "gradients_kept"}]
    assert only_line(three, [three[0], three[2], three[1]])[0] == "order"


def test_another_first_finding_comes_before_the_set_of_ids():
    first, second = lines_of([row("a.plim", GROWTH)], [row("a.plim", FACT)])
    assert first.startswith("first finding")
    assert "memory_growth → activations_dominate" in first
    assert second.startswith("set of ids")


def test_equal_changes_of_many_files_are_one_line():
    titles = [f"Memory grows by {i}.0 MiB per step at a{i}.py:{i} (main)" for i in range(300)]
    before = [row(f"{i}.plim", GROWTH | {"title": title}) for i, title in enumerate(titles)]
    after = [
        row(f"{i}.plim", GROWTH | {"title": title.replace("per", "a")})
        for i, title in enumerate(titles)
    ]
    (line,) = lines_of(before, after)
    assert line.split()[:2] == ["words", "300"]
    assert "“per” → “a”" in line
    assert line.endswith("(0.plim)")


def test_a_failure_is_first_and_files_of_one_result_are_listed():
    failed = row("a.plim", status=None, error="no answer after 120 s")
    lines = lines_of([row("a.plim"), row("b.plim")], [failed, row("c.plim")])
    assert [line.split("  ")[0] for line in lines] == ["new failure", "first finding"] + [
        "only in one"
    ] * 2


def test_right_and_wrong_answers():
    right, clean = ["memory_growth"], [compare.CLEAN]
    pairs = {
        "fixed": (right, [FACT], [GROWTH]),
        "broken": (clean, [FACT], [GROWTH]),
        "wrong": (right, [], []),
        "without an expected answer": (None, [GROWTH], [FACT]),
    }
    before = {name: row(name, *one, right=ids) for name, (ids, one, _) in pairs.items()}
    after = {name: row(name, *two, right=ids) for name, (ids, _, two) in pairs.items()}
    lines = compare.right_or_wrong(before, after)
    assert lines[1].split() == ["made,", "planted", "2", "0", "1", "1", "0"]
    assert lines[2].split() == ["made,", "clean", "1", "1", "0", "0", "1"]
    assert lines[3:] == [
        "broke  broken: activations_dominate → memory_growth; expected clean",
        "fixed  fixed: activations_dominate → memory_growth; expected memory_growth",
        "wrong  wrong: (nothing); expected memory_growth",
    ]


def test_the_rows_of_the_table_of_causes_decide_for_its_programs():
    name = next(iter(compare.registry.planted()))
    finding = compare.registry.table()[name]["finding"].split("|")[0]
    assert compare.is_right(row("a.plim", GROWTH | {"id": finding}, program=name))
    assert not compare.is_right(row("a.plim", program=name))
