"""Files of problems: what is planned, kept and dropped, and how a file's format is told."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problem_rows import BODY as SOLUTION
from problem_rows import CHECK as TEST
from problem_rows import LAYOUTS, PROMPT, dropped, humaneval, kept, read, run, write

from miner.config import ImportConfig
from miner.importers.fields import BadRow
from miner.importers.formats import FORMATS, choose
from miner.importers.problems import import_problems, plan_problems
from miner.reasons import PROBLEMS
from schemas.declare import validate
from schemas.errors import AssayError
from schemas.ids import content_id, digest_json
from schemas.records import Problem, ProblemTest
from schemas.stage import Drop, Keep


def row(number: int = 0, **change: Any) -> dict[str, Any]:
    return humaneval(number, **{"task_id": f"Set/{number}", **change})


def test_row_becomes_a_problem_with_all_columns(tmp_path: Path) -> None:
    (outcome,) = run(write(tmp_path / "set.jsonl", row()), license="MIT")
    assert isinstance(outcome, Keep)
    (problem,) = outcome.records
    validate(Problem, problem)
    test = ProblemTest(kind="check", code=TEST, stdin=None, stdout=None, args=None, expected=None)
    tests = digest_json([dataclasses.asdict(test)])
    assert problem == Problem(
        id=content_id("set.jsonl", "Set/0", "Python", PROMPT, PROMPT + SOLUTION, tests),
        name="Set/0",
        prompt=PROMPT,
        language="Python",
        entry_point="add",
        solution=PROMPT + SOLUTION,
        references=[],
        tests=[test],
        tolerance=0.0,
        time_limit_s=None,
        memory_limit_mb=None,
        source="set.jsonl",
        license="MIT",
        difficulty=None,
        released=None,
        url=None,
    )


def test_gzip_gives_the_same_problems_but_for_their_source(tmp_path: Path) -> None:
    plain = run(write(tmp_path / "set.jsonl", row(), row(1)))
    packed = run(write(tmp_path / "set.jsonl.gz", row(), row(1)))
    assert [one.records[0].name for one in packed if isinstance(one, Keep)] == ["Set/0", "Set/1"]
    assert len(plain) == len(packed)


@pytest.mark.parametrize(
    ("bad", "reason", "named"),
    [
        (b"{", "bad_json", "not JSON"),
        (b"[1]", "bad_json", "not an object but a list"),
        (b"null", "bad_json", "null"),
        (b"\xff\xfe", "bad_json", "not UTF-8"),
        (b"[" * 100_000, "bad_json", "nested too deep"),
        (b'{"task_id": ' + b"1" * 5000 + b"}", "bad_json", "not JSON"),
        ({"task_id": "x"}, "bad_field", "prompt: missing"),
        (row(prompt=3), "bad_field", "prompt: expected a string, got a number"),
        (row(prompt=None), "bad_field", "prompt: expected a string, got null"),
        (row(task_id=True), "bad_field", "task_id: expected a string, got a boolean"),
        (row(task_id=" "), "bad_field", "task_id: empty"),
        (row(test="\ud800"), "bad_field", "test: holds half of a surrogate pair"),
        (row(entry_point="add; import os"), "bad_field", "entry_point"),
        (row(entry_point="sub"), "no_entry_point", "no function sub"),
        (row(canonical_solution="    return (\n"), "bad_program", "canonical_solution"),
        (row(test="def check(candidate:\n"), "bad_program", "test"),
        (row(test="def test(candidate):\n    pass\n"), "bad_field", "test: defines no function check"),
        (row(canonical_solution="    return a\0\n"), "bad_program", "canonical_solution"),
        (row(canonical_solution="    return " + "(" * 5000), "bad_program", "canonical_solution"),
    ],
)
def test_bad_row_is_dropped_with_line_and_field_and_costs_no_other(
    tmp_path: Path, bad: Any, reason: str, named: str
) -> None:
    first, bad_one, last = run(write(tmp_path / "set.jsonl", row(0), bad, row(2)))
    assert isinstance(first, Keep)
    assert isinstance(last, Keep)
    assert isinstance(bad_one, Drop)
    assert (bad_one.id, bad_one.reason) == ("set.jsonl:2", reason)
    assert bad_one.reason in PROBLEMS
    assert bad_one.detail is not None
    assert bad_one.detail.startswith("line 2: ")
    assert named in bad_one.detail


def test_entry_point_inside_another_function_does_not_count() -> None:
    nested = row(prompt="def outer():\n    def add(a, b):\n", canonical_solution="        return a + b\n")
    with pytest.raises(BadRow, match="no_entry_point"):
        read("humaneval", nested)


def test_program_with_an_invalid_escape_is_no_error() -> None:
    assert read("humaneval", row(canonical_solution="    return a + b  # '\\d'\n    '\\d'\n"))


def test_second_row_of_a_name_is_a_duplicate_across_units(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", row(0), row(1), row(2), row(0, prompt=PROMPT + "\n"))
    outcomes = run(path, rows_per_part=2)
    assert outcomes[3] == Drop("set.jsonl:4", "duplicate", "line 4: the same as line 1")
    assert all(isinstance(one, Keep) for one in outcomes[:3])


def test_bad_row_does_not_take_a_name(tmp_path: Path) -> None:
    bad, good = run(write(tmp_path / "set.jsonl", row(0, test=1), row(0)))
    assert isinstance(bad, Drop)
    assert isinstance(good, Keep)


def test_too_long_line_is_dropped_and_the_next_is_read_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", row(0), row(1, prompt="x" * 3_000_000), row(2))
    first, bad_one, last = run(path, max_row_bytes=1000)
    assert isinstance(first, Keep)
    assert isinstance(last, Keep)
    assert bad_one == Drop("set.jsonl:2", "line_too_long", "line 2: more than 1000 bytes")


@given(
    limit=st.integers(1, 12), lengths=st.lists(st.integers(1, 14), min_size=1, max_size=6), end=st.booleans()
)
def test_lines_around_the_limit_are_told_apart_exactly(
    tmp_path_factory: pytest.TempPathFactory, limit: int, lengths: list[int], end: bool
) -> None:
    from miner.importers.lines import numbered_lines

    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_bytes(b"\n".join(b"x" * length for length in lengths) + b"\n" * end)
    expected = [(i, b"x" * n if n <= limit else None) for i, n in enumerate(lengths, 1)]
    assert [(number, line) for number, _, line in numbered_lines(path, limit)] == expected


def test_blank_lines_are_no_rows_but_count_as_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", b"", row(0), b"  ", row(1, test=1), b"")
    good, bad_one = run(path)
    assert isinstance(good, Keep)
    assert isinstance(bad_one, Drop)
    assert bad_one.id == "set.jsonl:4"


def test_byte_order_mark_and_crlf_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row()).encode() + b"\r\n" + json.dumps(row(1)).encode())
    assert all(isinstance(one, Keep) for one in run(path))


def refusal(*files: Path, **settings: Any) -> str:
    with pytest.raises(AssayError) as caught:
        plan_problems(ImportConfig(**settings), files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_empty_and_unusable_files_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    assert "is empty" in refusal(tmp_path / "empty.jsonl")
    assert "is a folder" in refusal(tmp_path)
    assert "blank lines" in refusal(write(tmp_path / "blank.jsonl", b"", b" "))
    told = refusal(write(tmp_path / "other.jsonl", {"task_id": "x", "odd": 1}))
    assert "line 1: its fields are those of no known format: odd, task_id" in told
    assert all(name in told for name in FORMATS)


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl.gz", *(row(number) for number in range(50)))
    path.write_bytes(path.read_bytes()[:-20])
    assert "damaged" in refusal(path)
    path.write_bytes(b"no gzip at all")
    assert "damaged" in refusal(path)


def test_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", row())
    (tmp_path / "link.jsonl").symlink_to(path)
    assert "twice" in refusal(path, tmp_path / "link.jsonl")


def test_no_file_is_refused() -> None:
    assert "no file" in refusal()


def test_files_of_one_name_have_units_of_their_own(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "set.jsonl", row())
    units = plan_problems(ImportConfig(), [tmp_path / "x" / "set.jsonl", tmp_path / "y" / "set.jsonl"])
    assert [unit.name for unit in units] == ["set-00000", "set-2-00000"]


def test_grown_file_keeps_its_full_units(tmp_path: Path) -> None:
    config = ImportConfig(rows_per_part=2)
    path = write(tmp_path / "set.jsonl", row(0), row(1), row(2))
    before = plan_problems(config, [path])
    write(path, row(0), row(1), row(2), row(3))
    after = plan_problems(config, [path])
    assert (after[0].name, after[0].inputs) == (before[0].name, before[0].inputs)
    assert after[1].inputs != before[1].inputs


def test_changed_row_changes_its_unit_only(tmp_path: Path) -> None:
    config = ImportConfig(rows_per_part=2)
    path = write(tmp_path / "set.jsonl", *(row(number) for number in range(4)))
    before = plan_problems(config, [path])
    write(path, row(0), row(1), row(2), row(3, test=TEST + "\n"))
    after = plan_problems(config, [path])
    assert [one.inputs == two.inputs for one, two in zip(before, after, strict=True)] == [True, False]


def test_limit_bounds_rows_over_all_files(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", *(row(number) for number in range(3)))
    two = write(tmp_path / "two.jsonl", *(row(number) for number in range(3)))
    units = plan_problems(ImportConfig(rows_per_part=2), [one, two], limit=4)
    assert [(unit.name, unit.rows) for unit in units] == [
        ("one-00000", 2),
        ("one-00001", 1),
        ("two-00000", 1),
    ]


def test_limit_below_the_first_good_row_is_no_refusal(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", b"{", row(1))
    assert [unit.rows for unit in plan_problems(ImportConfig(), [path], limit=1)] == [1]


def test_file_that_shrank_since_planning_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", row(0), row(1))
    (unit,) = plan_problems(ImportConfig(), [path])
    write(path, row(0))
    with pytest.raises(AssayError, match="shorter than when it was planned"):
        list(import_problems(ImportConfig(), unit))


def test_no_absolute_path_gets_into_rows(tmp_path: Path) -> None:
    assert str(tmp_path) not in repr(run(write(tmp_path / "set.jsonl", row(0), b"{")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["task_id", "prompt", "entry_point", "canonical_solution", "test"]))
def test_any_json_is_kept_or_a_bad_row(value: Any, field: str) -> None:
    reason = None
    try:
        read("humaneval", row(**{field: value}))
    except BadRow as bad:
        reason = bad.reason
    assert reason is None or reason in PROBLEMS


@pytest.mark.parametrize("name", LAYOUTS)
def test_format_is_told_by_the_fields(name: str) -> None:
    assert choose(LAYOUTS[name]()).name == name


@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_of_every_format_are_kept_with_the_format_told_or_forced(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "set.jsonl", LAYOUTS[name](0), LAYOUTS[name](1))
    told, forced = run(path), run(path, format=name)
    assert told == forced
    assert dropped(told) == []
    assert len({one.id for one in kept(told)}) == len(kept(told)) >= 2
    for one in kept(told):
        validate(Problem, one)


def test_settings_name_every_format() -> None:
    (hint,) = (one.type for one in dataclasses.fields(ImportConfig) if one.name == "format")
    assert set(FORMATS) == {name for name in LAYOUTS if f'"{name}"' in str(hint) or f"'{name}'" in str(hint)}


def test_file_has_the_format_of_its_first_good_row(tmp_path: Path) -> None:
    rows = [LAYOUTS["apps"](solutions="[1]"), row(0), LAYOUTS["apps"](1), row(1)]
    outcomes = run(write(tmp_path / "set.jsonl", *rows))
    assert [one.name for one in kept(outcomes)] == ["Set/0", "Set/1"]
    assert [one.id for one in dropped(outcomes)] == ["set.jsonl:1", "set.jsonl:3"]


def test_forced_format_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", row())
    assert "question: missing" in refusal(path, format="apps")


def test_format_is_part_of_a_units_inputs(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", row())
    (unit,) = plan_problems(ImportConfig(), [path])
    assert unit.inputs["format"] == "humaneval"


def test_row_that_becomes_several_problems_counts_once(tmp_path: Path) -> None:
    (outcome,) = run(write(tmp_path / "set.jsonl", LAYOUTS["codecontests"]()))
    assert isinstance(outcome, Keep)
    assert [one.language for one in outcome.records] == ["C++", "Python"]


def test_name_that_two_statements_share_is_no_duplicate_where_sets_have_no_ids(tmp_path: Path) -> None:
    taco = LAYOUTS["taco"]
    rows = [taco(name="Sum"), taco(name="Sum", question="Another."), taco(name="Sum")]
    outcomes = run(write(tmp_path / "set.jsonl", *rows))
    assert [isinstance(one, Keep) for one in outcomes] == [True, True, False]


def test_license_of_the_setting_goes_before_that_of_the_card(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", LAYOUTS["kodcode"]())
    assert kept(run(path))[0].license == "CC-BY-NC-4.0"
    assert kept(run(path, license="MIT"))[0].license == "MIT"


def test_language_that_is_not_wanted_is_a_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", LAYOUTS["codecontests"](), LAYOUTS["codecontests"](1, solutions=[]))
    (problem,) = kept(run(path, languages=("C++",)))
    assert problem.language == "C++"
    assert "the solution is in Python" in refusal(write(tmp_path / "h.jsonl", row()), languages=("C++",))


def test_setting_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(AssayError, match=r"importing\.max_tests"):
        ImportConfig(max_tests=0)
    with pytest.raises(AssayError, match=r"importing\.languages: 'Cobol'"):
        ImportConfig(languages=("Cobol",))


LAYOUT_FIELDS = [(name, field) for name, make in LAYOUTS.items() for field in make()]


@given(st.sampled_from(LAYOUT_FIELDS), JSON)
def test_any_value_in_any_field_of_any_format_is_kept_or_a_bad_row(
    where: tuple[str, str], value: Any
) -> None:
    name, field = where
    assert reason_of(name, LAYOUTS[name](**{field: value})) in (None, *PROBLEMS)


def reason_of(name: str, row: dict[str, Any]) -> str | None:
    """Why a row is dropped, or None; what is said of it can be stored."""
    try:
        read(name, row)
    except BadRow as bad:
        bad.detail.encode()
        return bad.reason
    return None


@given(st.sampled_from(sorted(LAYOUTS)), st.data())
def test_any_nested_value_is_kept_or_a_bad_row(name: str, data: st.DataObject) -> None:
    """A value deep in a row, or in the JSON text of one of its fields, is replaced."""
    assert reason_of(name, replaced(LAYOUTS[name](), data)) in (None, *PROBLEMS)


def replaced(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, str) and value[:1] in ("[", "{") and data.draw(st.booleans()):
        try:
            return json.dumps(replaced(json.loads(value), data))
        except ValueError:
            return value
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(value[key], data)}
    if isinstance(value, list) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], replaced(value[at], data), *value[at + 1 :]]
    return data.draw(JSON | st.just(float("nan")) | st.just("\ud800") | st.just(10**400))
