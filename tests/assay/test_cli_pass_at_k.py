"""`assay eval pass-at-k`: files of samples, and a model whose answers are run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from cli_runs import assay, eval_models
from PIL import Image

from assay import cli
from assay.passing import Journal
from assay.passing_problems import Asked, asked_of_files
from assay.passing_runs import program_of
from miner.config import ImportConfig
from schemas.errors import AssayError

ADD = {
    "name": "add",
    "prompt": "Add two numbers.",
    "entry_point": "add",
    "solution": "def add(a, b):\n    return a + b\n",
    "tests": [
        {"kind": "call", "args": [1, 2], "expected": 3},
        {"kind": "call", "args": [2, 2], "expected": 4},
    ],
}
ONE = {
    "name": "one",
    "prompt": "Print the number one.",
    "solution": "print(1)\n",
    "tests": [{"kind": "stdin", "stdin": "", "stdout": "1\n"}],
}
HEAD = {
    "task_id": "t/0",
    "prompt": 'def twice(x):\n    """Twice x."""\n',
    "entry_point": "twice",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(4) == 8\n",
}
RIGHT = "```python\ndef add(a, b):\n    return a + b\n```\n"
WRONG = "```python\nprint(2)\n```\n"


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(path: Path, skeletons: bool = False) -> list[Asked]:
    """Problems of a file."""
    return asked_of_files(ImportConfig(), [str(path)], None, skeletons, 0)[0]


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two problems, and one whose own solution is wrong."""
    broken = {**ADD, "name": "broken", "solution": "def add(a, b):\n    return a - b\n"}
    return jsonl(tmp_path_factory.mktemp("problems") / "mine.jsonl", [ADD, ONE, broken])


@pytest.fixture(scope="module")
def model(problems: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned a right answer to one problem and a wrong one to the other."""
    prompts = {one.name: one.prompt(chat=True) for one in asked(problems)}
    learned = {prompts["add"]: RIGHT, prompts["one"]: WRONG}
    return eval_models().policy(tmp_path_factory.mktemp("model") / "by-heart", learned=learned)


CALL = ("--samples", 3, "--temperature", 0.1, "--max-new-tokens", 60, "--seed", 1)


def here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *call: object
) -> tuple[int, str, str]:
    """Status, output and errors of a command in this process: a fresh one takes seconds to load torch."""
    monkeypatch.setattr(sys, "argv", ["assay", *map(str, call)])
    status = cli._run()
    return status, *capsys.readouterr()


def test_answers_of_a_model_are_run_and_what_is_kept_is_not_done_again(
    model: Path,
    problems: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    call = ("eval", "pass-at-k", "--model", model, "--problems", problems, "--out", out, *CALL)
    done = assay(*call, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    own = found["policies"]["by-heart"]
    assert (found["problems"], found["rows"], found["dropped"]) == (3, 6, {"reference_fails": 1})
    assert own["pass_at_k"]["1"]["value"] == pytest.approx(0.5)
    assert own["pass_at_k"]["3"]["problems"] == 2
    rows = {row["problem"]: row for row in pq.read_table(out / "samples.parquet").to_pylist()}
    assert rows["add"]["completion"] == RIGHT
    assert (rows["add"]["passed"], rows["add"]["program"]) == (True, "def add(a, b):\n    return a + b\n")
    assert (rows["one"]["passed"], rows["one"]["reason"]) == (False, "failed")
    with Image.open(out / "pass_at_k.png") as image:
        image.load()

    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    journal = out / "journal.jsonl"
    # What a kill leaves: verdicts that are not there, and half of a line.
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = b"".join(line for line in lines if b'"verdicts"' not in line)
    journal.write_bytes(kept + lines[-1][: len(lines[-1]) // 2])
    assert json.loads(here(monkeypatch, capsys, *call, "--json")[1]) == found
    assert journal.read_bytes().startswith(kept)
    assert journal.read_bytes().count(b'"answers"') == kept.count(b'"answers"')
    for name in ("samples.parquet", "results.json", "pass_at_k.png"):
        assert (out / name).read_bytes() == whole[name]

    more = here(monkeypatch, capsys, *call, "--samples", 4, "--json")[1]
    assert json.loads(more)["rows"] == 8
    asked_for = [
        [answer["sample"] for answer in line["answers"]]
        for line in map(json.loads, journal.read_text().splitlines())
        if "answers" in line
    ]
    assert asked_for == [[0, 1, 2], [0, 1, 2], [3], [3]]
    status, _, err = here(monkeypatch, capsys, *call, "--temperature", 0.2)
    assert (status, err.count("\n")) == (2, 1)
    assert "holds answers of another model, seed, sampling" in err


def test_samples_of_files_are_counted_by_policy(tmp_path: Path) -> None:
    rows = [
        {"task_id": f"t{n // 4}", "passed": n % 4 == 0, "policy": "a" if n < 8 else "b", "language": "Go"}
        for n in range(11)
    ]
    path = jsonl(tmp_path / "s.jsonl", rows)
    done = assay("eval", "pass-at-k", path, "--out", tmp_path / "out", "--k", "1,4", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "a pass@1 0.250" in done.out
    assert "1 with fewer than 4 samples are left out there" in done.out
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["policies"]["b"]["pass_at_k"]["4"] == {
        "value": None,
        "ci95": None,
        "problems": 0,
        "short": 1,
    }
    assert found["policies"]["a"]["by_language"]["Go"]["pass_at_k"]["4"]["value"] == 1.0
    only = assay("eval", "pass-at-k", path, "--policy", "b", "--out", tmp_path / "b", "--json", cwd=tmp_path)
    assert list(json.loads(only.out)["policies"]) == ["b"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ((), "no run directory, so no samples"),
        (("s.jsonl",), "give --out"),
        (("s.jsonl", "--model", "m"), "need no model"),
        (("--problems", "p.jsonl"), "give --model"),
        (("--model", "/no/model", "--problems", "p.jsonl"), "no such model folder"),
        (("--model", "a/b"), "no run directory, so no problems"),
        (("--model", "a/b", "--problems", "none.jsonl"), "none.jsonl"),
        (("--model", "a/b", "--problems", "s.jsonl"), "s.jsonl"),
        (("--model", "a/b", "--temperature", "0"), "--samples 1"),
        (("--model", "a/b", "--top-p", "2"), "top-p: 2.0"),
        (("--model", "a/b", "--policy", "x"), "--policy picks samples of files"),
        (("s.jsonl", "--out", "out", "--k", "0"), "whole numbers"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    call: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    jsonl(tmp_path / "s.jsonl", [{"task_id": "a", "passed": True}])
    monkeypatch.chdir(tmp_path)
    status, out, err = here(monkeypatch, capsys, "eval", "pass-at-k", *call)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_prompt_says_what_is_to_be_written(problems: Path) -> None:
    add, one, _ = asked(problems)
    assert "Write the function `add` in Python." in add.prompt(chat=True)
    assert "Write a program in Python that reads standard input" in one.prompt(chat=True)
    assert (add.prompt(chat=False), one.prompt(chat=False)) == ("Add two numbers.", "Print the number one.")
    shown = asked(problems, skeletons=True)[0]
    assert "def add(a, b):" in shown.prompt(chat=True)
    assert "return a + b" not in shown.prompt(chat=True)


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nprint(1)\n```",
        "Here:\n```py\nprint(1)\n```\nInput:\n```\n1 2 3 4 5 6 7 8 9 10 11 12\n```\n",
        "<think>print(2)</think>print(1)\n",
        "print(1)",
        "Sure.\n~~~\nprint(1)\n~~~\n",
    ],
)
def test_a_program_that_needs_no_name_is_found_in_an_answer(problems: Path, answer: str) -> None:
    one = asked(problems)[1]
    assert program_of(answer, one, chat=True).program.strip() == "print(1)"


@pytest.mark.parametrize(("answer", "fault"), [("", "empty"), ("```go\npackage main\n```", "other_language")])
def test_an_answer_without_a_program_has_a_fault(problems: Path, answer: str, fault: str) -> None:
    assert program_of(answer, asked(problems)[1], chat=True).fault == fault


def test_a_text_that_goes_on_is_cut_where_the_function_ends(tmp_path: Path) -> None:
    (head,) = asked(jsonl(tmp_path / "h.jsonl", [HEAD]))
    tail = "    return 2 * x\n\n\ndef other(:\n  broken"
    found = program_of(tail, head, chat=False)
    assert found.program == HEAD["prompt"] + "    return 2 * x\n\n\n"
    assert found.fault is None


def test_a_journal_of_another_key_or_with_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, "a") as journal:
        journal.add({"x": 1})
    path.write_bytes(path.read_bytes() + b'{"half')
    with Journal(path, "a") as journal:
        assert journal.lines == [{"key": "a"}, {"x": 1}]
        journal.add({"y": 2})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"key": "a"}, {"x": 1}, {"y": 2}]
    with pytest.raises(AssayError, match="another model"):
        Journal(path, "b")
    path.write_bytes(b'{"key": "a"}\n[1]\n{"z": 3}\n')
    with pytest.raises(AssayError, match="line 2 is damaged"):
        Journal(path, "a")
