"""The `decontaminate` stage: what of a benchmark an edit may hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from split_runs import decided, edit, lines, mined, words, work

from miner.config import DecontaminateConfig
from miner.notices import NOTICES
from miner.steps import DecontaminateEdits, plan_decontaminate
from schemas.errors import AssayError, RunDirError
from schemas.records import Edit
from schemas.rundir import RunDir
from schemas.stage import VERDICTS


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.open(tmp_path / "run", create=True)


def bench(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def decontaminate(
    run: RunDir, limit: int | None = None, **settings: Any
) -> dict[str, tuple[str | None, str | None, list[str]]]:
    config = DecontaminateConfig(**settings)
    units = plan_decontaminate(config, run, limit)
    work(run, DecontaminateEdits(config, run.root, 0), (VERDICTS,), units)
    return decided(run, "decontaminate")


SOLUTION = "".join(lines("solution", 8))
ROW = {"task_id": "bench/3", "prompt": "Write it.", "canonical_solution": SOLUTION, "test": "assert x"}


def test_edit_that_adds_a_solution_goes_with_file_row_and_words(run: RunDir, tmp_path: Path) -> None:
    taken, other = edit("a/one", add=lines("solution", 8)), edit("a/two", add=lines("mine", 8))
    mined(run, {"p": [taken, other]}, "dedup")
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", {"x": "y"}, ROW),))
    assert found[other.id] == (None, None, [])
    reason, detail, _ = found[taken.id]
    assert reason == "contaminated"
    assert detail is not None
    assert "b.jsonl row 2" in detail
    assert "solution_0a call_solution_0b" in detail


@pytest.mark.parametrize("place", ["message", "old", "new"])
def test_text_is_found_wherever_an_edit_has_it(place: str, run: RunDir, tmp_path: Path) -> None:
    made = {
        "message": lambda: edit("a/one", add=["x\n"], message=f"Add it\n\n{SOLUTION}"),
        "old": lambda: edit("a/one", old=lines("solution", 8), add=["x\n"]),
        "new": lambda: edit("a/one", add=lines("solution", 8)),
    }[place]()
    mined(run, {"p": [made]}, "dedup")
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", ROW),))
    assert found[made.id][0] == "contaminated"


def test_another_layout_does_not_hide_a_copy(run: RunDir, tmp_path: Path) -> None:
    flat = [SOLUTION.upper().replace("\n", " ; ").replace("(", " ( ") + "\n"]
    made = edit("a/one", add=flat)
    mined(run, {"p": [made]}, "dedup")
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", ROW),))
    assert found[made.id][0] == "contaminated"


@pytest.mark.parametrize(("shared", "goes"), [(21, False), (22, True)])
def test_border_of_min_shared(shared: int, goes: bool, run: RunDir, tmp_path: Path) -> None:
    """22 words in a row are 10 runs of 13."""
    text = words("bench", 200)
    made = edit("a/one", add=[" ".join(text[50 : 50 + shared]) + "\n"])
    mined(run, {"p": [made]}, "dedup")
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", {"text": " ".join(text)}),))
    assert (found[made.id][0] == "contaminated") is goes


@pytest.mark.parametrize(("shared", "goes"), [(13, False), (14, True)])
def test_half_of_a_short_row_is_enough(shared: int, goes: bool, run: RunDir, tmp_path: Path) -> None:
    """16 words are 4 runs of 13, of which 14 words have 2."""
    text = words("short", 16)
    made = edit("a/one", add=[" ".join(text[:shared]) + "\n"])
    mined(run, {"p": [made]}, "dedup")
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", {"text": " ".join(text)}),))
    assert (found[made.id][0] == "contaminated") is goes


def test_what_is_shared_with_several_rows_does_not_add_up(run: RunDir, tmp_path: Path) -> None:
    rows = [words(f"row{n}", 100) for n in range(4)]
    made = edit("a/one", add=[" ".join(row[:18]) + "\n" for row in rows])
    mined(run, {"p": [made]}, "dedup")
    benchmarks = (bench(tmp_path / "b.jsonl", *({"text": " ".join(row)} for row in rows)),)
    assert decontaminate(run, benchmarks=benchmarks)[made.id][0] is None


@pytest.mark.parametrize("notice", range(len(NOTICES)))
def test_licence_notice_in_a_benchmark_costs_no_edit(notice: int, run: RunDir, tmp_path: Path) -> None:
    made = edit("a/one", old=[NOTICES[notice] + "\n", *lines("own", 10)], add=["x\n"])
    mined(run, {"p": [made]}, "dedup")
    row = {"text": f"# Copyright 2011 Somebody\n{NOTICES[notice]}\n{SOLUTION}"}
    assert decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", row),))[made.id][0] is None


def header(count: int, common: int) -> list[Edit]:
    """Edits of `count` files, of which `common` begin with the same ten lines."""
    head = lines("header", 10)
    return [
        edit("a/one", f"f{n}.py", old=[*(head if n < common else []), *lines(f"f{n}", 6)], add=["x\n"])
        for n in range(count)
    ]


@pytest.mark.parametrize(("files", "goes"), [(10, True), (11, False)])
def test_what_many_files_of_ones_own_hold_does_not_count(
    files: int, goes: bool, run: RunDir, tmp_path: Path
) -> None:
    edits = header(30, files)
    mined(run, {"p": edits}, "dedup")
    row = {"text": "".join(lines("header", 10)) + SOLUTION}
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", row),))
    assert [found[one.id][0] == "contaminated" for one in edits] == [goes] * files + [False] * (30 - files)


def test_copies_of_one_path_in_many_forks_do_not_make_it_common(run: RunDir, tmp_path: Path) -> None:
    edits = [edit(f"fork{n}/one", add=[*lines("solution", 8), f"# {n}\n"]) for n in range(30)]
    mined(run, {"p": edits}, "dedup")
    found = decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", ROW),))
    assert all(found[one.id][0] == "contaminated" for one in edits)


def test_without_a_benchmark_everything_stays_and_is_marked(run: RunDir) -> None:
    made = edit("a/one", add=["x\n"])
    mined(run, {"p": [made]}, "dedup")
    assert decontaminate(run) == {made.id: (None, None, ["not_checked"])}


def test_edits_that_dedup_dropped_are_not_considered(run: RunDir, tmp_path: Path) -> None:
    stays, gone = edit("a/one", add=lines("solution", 8)), edit("a/two", add=lines("solution", 8))
    mined(run, {"p": [stays, gone]}, "dedup", [gone])
    assert decontaminate(run, benchmarks=(bench(tmp_path / "b.jsonl", ROW),)).keys() == {stays.id}


def test_cut_into_parts_does_not_change_a_verdict(tmp_path: Path) -> None:
    edits = [*header(30, 12), edit("b/two", "taken.py", add=lines("solution", 8))]
    row = {"text": "".join(lines("header", 10)) + SOLUTION}
    benchmarks = (bench(tmp_path / "b.jsonl", row),)
    found = []
    for name, size in (("one", 40), ("many", 3)):
        run = RunDir.open(tmp_path / name, create=True)
        parts = {f"p{at:03}": edits[::-1][at : at + size] for at in range(0, len(edits), size)}
        mined(run, parts, "dedup")
        found.append(decontaminate(run, benchmarks=benchmarks, sampled_files=20))
    assert found[0] == found[1]
    assert {reason for reason, _, _ in found[0].values()} == {None, "contaminated"}


def test_limit_bounds_the_edits_over_all_parts(run: RunDir, tmp_path: Path) -> None:
    edits = [edit("a/one", f"f{n}.py", add=["x\n"]) for n in range(6)]
    mined(run, {"p": edits[:3], "q": edits[3:]}, "dedup")
    assert len(decontaminate(run, limit=4, benchmarks=(bench(tmp_path / "b.jsonl", ROW),))) == 4


def test_changed_benchmark_gives_other_keys(run: RunDir, tmp_path: Path) -> None:
    mined(run, {"p": [edit("a/one", add=["x\n"])]}, "dedup")
    config = DecontaminateConfig(benchmarks=(bench(tmp_path / "b.jsonl", ROW),))
    before = plan_decontaminate(config, run)[0].inputs
    bench(tmp_path / "b.jsonl", ROW, {"text": "another one"})
    assert plan_decontaminate(config, run)[0].inputs != before


def test_before_dedup_it_says_what_is_missing(run: RunDir) -> None:
    with pytest.raises(RunDirError, match="no edits yet"):
        plan_decontaminate(DecontaminateConfig(), run)


def test_all_formats_and_nested_columns_are_read(run: RunDir, tmp_path: Path) -> None:
    texts = {name: "".join(lines(name, 8)) for name in ("deep", "chosen", "zipped", "named")}
    folder = tmp_path / "benchmarks"
    (folder / "sub").mkdir(parents=True)
    nested = [{"id": 1, "chat": [{"role": "user", "parts": [texts["deep"]]}], "chosen": texts["chosen"]}]
    pq.write_table(pa.Table.from_pylist(nested), folder / "sub" / "a.parquet")
    with gzip.open(folder / "b.jsonl.gz", "wt") as handle:
        handle.write(json.dumps({"rows": {"x": [[texts["zipped"]]]}}) + "\n")
    (folder / "README.md").write_text(texts["named"])
    edits = {name: edit("a/one", f"{name}.py", add=lines(name, 8)) for name in texts}
    mined(run, {"p": list(edits.values())}, "dedup")
    found = decontaminate(run, benchmarks=(str(folder),))
    gone = {name for name, one in edits.items() if found[one.id][0]}
    assert gone == {"deep", "chosen", "zipped"}


def test_only_named_columns_count(run: RunDir, tmp_path: Path) -> None:
    made = edit("a/one", add=lines("solution", 8))
    mined(run, {"p": [made]}, "dedup")
    path = bench(tmp_path / "b.jsonl", ROW)
    assert decontaminate(run, benchmarks=(path,), columns=("prompt",))[made.id][0] is None
    assert decontaminate(run, benchmarks=(path,), columns=("canonical_solution",))[made.id][0]


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5])
def test_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(AssayError, match=r"decontaminate\.min_share"):
        DecontaminateConfig(min_share=share)
