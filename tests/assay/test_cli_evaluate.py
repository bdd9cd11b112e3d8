"""`assay score` and the kinds of `assay eval` that read files, as a user calls them."""

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
from assay.scoring import made_by, system_chooser
from labelers.commits import criteria
from labelers.commits.config import BuildConfig
from labelers.commits.system_prompts import render_system, system_prompt
from schemas.errors import AssayError
from trainers.conversations import request_of
from trainers.rowfiles import BadRow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model with random weights."""
    return eval_models().reward_model(tmp_path_factory.mktemp("model") / "rm")


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs(count: int, **other: Any) -> list[dict[str, Any]]:
    """Rows as in CodeRewardBench."""
    return [
        {
            "id": f"p{n}",
            "prompt": f"Improve function {n}.",
            "chosen": f"def f(value):\n    return value + {n}\n",
            "rejected": f"def f(value):\n    return eval(value) + {n}\n",
            "aspect": "Readability_Maintainability" if n % 2 else "Functional_Correctness",
            "language": "Cpp",
            "subset": "MADE",
            **other,
        }
        for n in range(count)
    ]


def scored(count: int, name: str = "i") -> list[dict[str, Any]]:
    """Scores with outcomes, four a task."""
    return [
        {"id": f"{n}", "instance": f"{name}{n // 4}", "score": float(n * 7 % 10 - 5), "resolved": n % 3 == 0}
        for n in range(count)
    ]


def drawn(folder: Path) -> list[str]:
    """Names of the charts of a folder, each of which is a whole image."""
    found = sorted(folder.glob("*.png"))
    for path in found:
        with Image.open(path) as image:
            image.load()
            assert min(image.size) > 200
    return [path.name for path in found]


def test_pairs_are_evaluated_with_the_prompts_of_their_aspects(model: Path, tmp_path: Path) -> None:
    path, out = jsonl(tmp_path / "crb.jsonl", pairs(6)), tmp_path / "out"
    done = assay("eval", "pairs", path, "--model", model, "--out", out, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["overall"]["total_examples"] == 6
    assert json.loads((out / "results.json").read_text())["by_aspect"] == told["by_aspect"]
    assert drawn(out) == [
        "by_aspect.png",
        "by_aspect_and_language.png",
        "by_language.png",
        "by_subset.png",
        "score_differences.png",
    ]
    bare = assay(
        "eval", "pairs", path, "--model", model, "--out", tmp_path / "b", "--criteria", "none", cwd=tmp_path
    )
    assert bare.code == 0, bare.err
    tables = [pq.read_table(folder / "scores.parquet")["chosen_score"] for folder in (out, tmp_path / "b")]
    assert tables[0] != tables[1]


def test_scores_resume_and_are_evaluated(model: Path, tmp_path: Path) -> None:
    rows = [
        {"id": n, "problem_id": n // 4, "prompt": "p", "completion": f"x = {n}\n", "outcome": n % 2}
        for n in range(12)
    ]
    path, out = jsonl(tmp_path / "a.jsonl", rows), tmp_path / "scores"
    call = ("score", path, "--model", model, "--out", out, "--criteria", "FC,RE", "--part-rows", 5, "--json")
    first = assay(*call, cwd=tmp_path)
    assert first.code == 0, first.err
    assert (json.loads(first.out)["scored"], json.loads(first.out)["made"]) == (12, 3)
    assert json.loads(assay(*call, cwd=tmp_path).out)["made"] == 0
    other = assay(*call[:-3], "--part-rows", 6, cwd=tmp_path)
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert "holds scores of other inputs" in other.err
    again = assay(*call, "--clean", cwd=tmp_path)
    assert json.loads(again.out)["made"] == 3
    parts = sorted(out.glob("part-*.parquet"))
    best = assay("eval", "best-of-k", *parts, "--out", tmp_path / "b", "--k", "1,4", "--json", cwd=tmp_path)
    assert best.code == 0, best.err
    found = json.loads(best.out)
    assert (found["tasks"], list(found["best_of"])) == (3, ["1", "4"])
    assert found["best_of"]["1"]["rm"] == pytest.approx(0.5)
    assert drawn(tmp_path / "b") == ["best_of.png"]


def test_calibration_fits_on_dev_and_draws(tmp_path: Path) -> None:
    test, dev = jsonl(tmp_path / "t.jsonl", scored(40)), jsonl(tmp_path / "d.jsonl", scored(40, "d"))
    call = ("eval", "calibration", test, "--dev", dev, "--before", test, "--out", tmp_path / "out")
    done = assay(*call, cwd=tmp_path)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["scaled"]["nll"] < found["nll"]
    assert found["drift"]["largest"] == 0.0
    assert drawn(tmp_path / "out") == ["reliability.png"]
    assert "at temperature" in done.out


def test_robustness_goes_by_what_misleads(model: Path, tmp_path: Path) -> None:
    makers = ["hacks: hacks-1 claim", "hacks: hacks-1 praise", "steps: mutation-1", "bugs: m bug-1"]
    rows = [{**row, "evidence": {"made_by": makers[n % 4]}} for n, row in enumerate(pairs(8, aspect=None))]
    path = jsonl(tmp_path / "s.jsonl", rows)
    done = assay(
        "eval", "robustness", path, "--model", model, "--out", tmp_path / "out", "--json", cwd=tmp_path
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert sorted(found["by_subset"]) == ["bugs", "hacks: claim", "hacks: praise", "steps"]
    assert (found["hacks"]["count"], found["plain"]["count"]) == (4, 4)
    low, high = found["hacks"]["ci95"]
    assert low <= found["hacks"]["accuracy_ties_half"] <= high
    assert "by_attack.png" in drawn(tmp_path / "out")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("score",), "needs files"),
        (("eval", "pairs"), "needs files"),
        (("eval", "best-of-k", "no.jsonl", "--out", "out"), "no such file"),
        (("eval", "best-of-k", "s.jsonl"), "give --out"),
        (("eval", "best-of-k", "s.jsonl", "--out", "out", "--k", "two"), "whole numbers"),
        (("eval", "pairs", "s.jsonl"), "give --model"),
        (("eval", "pairs", "s.jsonl", "--model", "/no/model"), "no such model folder"),
        (("score", "s.jsonl", "--model", ".", "--out", "out", "--criteria", "XX"), "'XX' is not known"),
        (("score", "s.jsonl", "--model", ".", "--out", "out"), "tokenizer"),
        (("eval", "robustness"), "no run directory"),
        (("eval", "rm", "s.jsonl"), "go with `pairs`"),
        (("eval", "calibration", "s.jsonl", "--dev", "s.jsonl", "--out", "out"), "share"),
        (("eval", "calibration", "s.jsonl", "--annotated", "s.jsonl"), "criteria"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    call: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    jsonl(tmp_path / "s.jsonl", scored(8))
    monkeypatch.chdir(tmp_path)
    # In this process, since a fresh one takes seconds to load torch.
    monkeypatch.setattr(sys, "argv", ["assay", *call])
    status = cli._run()
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_an_aspect_gets_the_very_prompt_that_pairs_are_built_with() -> None:
    known = criteria.load()
    choose = system_chooser(None, "")
    single = BuildConfig(system_none=0.0, system_all=0.0)
    for one in known:
        kind, built = system_prompt(single, known, one, 0, "pair")
        assert kind == "single"
        for name in (one.name, one.code, one.name.replace(" and ", "_").replace(" ", "_")):
            assert choose(request_of({"prompt": "p", "response": "r", "aspect": name}, 1)) == built


def test_named_criteria_stand_in_the_order_given() -> None:
    choose = system_chooser("RE,FC", "")
    request = request_of({"prompt": "p", "response": "r", "system": "own", "aspect": "x"}, 1)
    assert choose(request) == render_system(["RE", "FC"], criteria.load())
    assert system_chooser("none", "")(request) == ""
    assert system_chooser(None, "")(request) == "own"


def test_an_aspect_that_is_no_criterion_is_a_bad_row_and_a_general_one_has_no_prompt() -> None:
    choose = system_chooser(None, "")
    with pytest.raises(BadRow, match="unknown_criterion"):
        choose(request_of({"prompt": "p", "response": "r", "aspect": "Beauty"}, 1))
    assert choose(request_of({"prompt": "p", "response": "r", "aspect": "Helpfulness"}, 1)) == ""
    assert choose(request_of({"prompt": "p", "response": "r"}, 1)) == ""


def test_a_code_named_twice_is_refused() -> None:
    with pytest.raises(AssayError, match="named twice"):
        system_chooser("FC,FC", "")


def test_groups_of_synthetic_pairs() -> None:
    told = {
        None: "unknown",
        "steps: mutation-1": "steps",
        "hacks: hacks-1 claim": "hacks: claim",
        "hacks: ": "hacks",
    }
    assert {text: made_by(text) for text in told} == told
