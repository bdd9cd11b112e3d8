"""Files of published layouts through a small real model, against the model itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.errors import AssayError
from trainers import evaluate as own
from trainers import pairs, scoring
from trainers.conversations import Request
from trainers.score import Scorer

OPTIONS = scoring.Options(batch_size=8)


def no_system(request: Request) -> str:
    """The row's own system prompt, or none."""
    return request.system or ""


@pytest.fixture(scope="module")
def model(trained: tuple[Any, Path]) -> Path:
    """Folder of the trained model."""
    return trained[1].parent / "models" / "rm"


@pytest.fixture(scope="module")
def scorer(model: Path) -> Scorer:
    """The model."""
    return Scorer(model)


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pair(number: int, **other: Any) -> dict[str, Any]:
    """A row as in CodeRewardBench."""
    return {
        "id": f"p{number}",
        "prompt": f"Improve function {number}.",
        "chosen": f"def f(value):\n    x = {number}\n    if value is None:\n        return []\n",
        "rejected": f"def f(value):\n    x = {number}\n    return eval(value)\n",
        "language": "Python" if number % 2 else "Go",
        "aspect": "Functional_Correctness" if number % 3 else "Security_Hardness",
        "subset": "MADE",
        **other,
    }


def run(scorer: Scorer, path: Path, out: Path, layout: str = "auto") -> dict[str, Any]:
    """Evaluate one file."""
    return pairs.evaluate(scorer, pairs.load([path], no_system, layout), out, OPTIONS)


def test_results_are_in_the_published_layout(scorer: Scorer, tmp_path: Path) -> None:
    found = run(scorer, jsonl(tmp_path / "crb.jsonl", [pair(n) for n in range(9)]), tmp_path / "out")
    assert found["layout"] == "pairs"
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == found
    assert list(found["overall"])[:6] == [
        "accuracy",
        "total_examples",
        "correct_predictions",
        "mean_score_difference",
        "median_score_difference",
        "std_score_difference",
    ]
    assert found["by_language"]["Go"]["count"] + found["by_language"]["Python"]["count"] == 9
    assert sorted(found["by_aspect"]) == ["Functional_Correctness", "Security_Hardness"]
    table = pq.read_table(tmp_path / "out" / "scores.parquet")
    assert table.column_names == [
        "id",
        "chosen_score",
        "rejected_score",
        "correct",
        "score_diff",
        "language",
        "aspect",
        "subset",
    ]
    rows = table.to_pylist()
    assert sum(row["correct"] for row in rows) == found["overall"]["correct_predictions"]
    assert all(row["correct"] == (row["chosen_score"] > row["rejected_score"]) for row in rows)


def test_scores_are_those_of_the_model_itself(scorer: Scorer, tmp_path: Path) -> None:
    rows = [pair(n) for n in range(4)]
    run(scorer, jsonl(tmp_path / "crb.jsonl", rows), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "scores.parquet")
    expected = scorer.score([row["prompt"] for row in rows], [row["chosen"] for row in rows])
    assert table["chosen_score"].to_pylist() == pytest.approx(expected, abs=1e-4)


def test_shards_of_assay_give_what_its_own_evaluation_gives(
    model: Path, scorer: Scorer, trained: tuple[Any, Path], tmp_path: Path
) -> None:
    theirs = own.evaluate(model, [trained[1]], tmp_path / "own")
    found = run(scorer, trained[1], tmp_path / "out")
    assert found["overall"]["accuracy_ties_half"] == theirs["overall"]["accuracy"]
    assert found["overall"]["mean_score_difference"] == pytest.approx(
        theirs["overall"]["margin_mean"], abs=1e-5
    )


def test_a_pair_that_differs_beyond_the_window_is_no_tie(scorer: Scorer, tmp_path: Path) -> None:
    head = "".join(f"line_{n} = {n}\n" for n in range(400))
    long = pair(0, chosen=head + "return value\n", rejected=head + "return eval(value)\n")
    found = run(scorer, jsonl(tmp_path / "a.jsonl", [long]), tmp_path / "out")
    assert found["overall"]["ties"] == 0
    same = pair(1, rejected=pair(1)["chosen"])
    found = run(scorer, jsonl(tmp_path / "b.jsonl", [long, same]), tmp_path / "out")
    assert (found["scored"], found["dropped"]) == (1, {"identical": 1})


def test_bad_rows_are_counted_and_do_not_move_the_others(scorer: Scorer, tmp_path: Path) -> None:
    good = [pair(n) for n in range(4)]
    alone = run(scorer, jsonl(tmp_path / "a.jsonl", good), tmp_path / "a")
    bad = [good[0], {"prompt": "p"}, *good[1:], pair(9, chosen=7), pair(8, rejected="  ")]
    mixed = run(scorer, jsonl(tmp_path / "b.jsonl", bad), tmp_path / "b")
    assert mixed["overall"] == alone["overall"]
    assert mixed["dropped"] == {"empty": 1, "missing_field": 1, "wrong_type": 1}
    assert mixed["rows"] == mixed["scored"] + sum(mixed["dropped"].values())


def test_a_file_without_a_good_row_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=r"none of 2 rows can be used; the first: row 1 .*missing_field"):
        pairs.load([jsonl(tmp_path / "a.jsonl", [{"prompt": "p"}] * 2)], no_system)


def test_rewardbench_1_has_sections(scorer: Scorer, tmp_path: Path) -> None:
    names = ("hep-python", "math-prm", "alpacaeval-easy")
    rows = [pair(n, subset=names[n % 3], aspect=None, language=None) for n in range(6)]
    found = run(scorer, jsonl(tmp_path / "rb.jsonl", rows), tmp_path / "out")
    assert found["layout"] == "rewardbench"
    assert found["sections"]["Chat"] == found["by_subset"]["alpacaeval-easy"]["accuracy_ties_half"]
    assert (found["sections"]["Safety"], found["sections"]["score"]) == (None, None)
    assert found["by_aspect"] == {}


def test_rewardbench_2_compares_every_answer(scorer: Scorer, tmp_path: Path) -> None:
    one = pair(1)
    four = {"prompt": one["prompt"], "chosen": [one["chosen"]], "rejected": [one["rejected"]] * 3}
    rows = [
        {**four, "id": "1", "subset": "Math"},
        {**four, "id": "ref:1", "subset": "Ties"},
        {**four, "id": "tied:1", "subset": "Ties", "chosen": [one["chosen"]] * 2},
    ]
    found = run(scorer, jsonl(tmp_path / "rb2.jsonl", rows), tmp_path / "out")
    right, wrong = scorer.score([one["prompt"]] * 2, [one["chosen"], one["rejected"]])
    assert found["layout"] == "rewardbench2"
    assert found["by_subset"]["Math"]["score"] == float(right > wrong)
    assert found["by_subset"]["Ties"]["ref_accuracy"] == float(right > wrong)
    assert found["by_subset"]["Ties"]["numbers"] == 1
    table = pq.read_table(tmp_path / "out" / "scores.parquet")
    assert table["chosen_scores"].to_pylist()[2] == pytest.approx([right] * 2, abs=1e-4)


def test_rm_bench_has_a_matrix_a_domain(scorer: Scorer, tmp_path: Path) -> None:
    one = pair(1)
    styles = [one["chosen"], one["chosen"] + "# done\n", "```python\n" + one["chosen"] + "```\n"]
    worse = [text.replace("if value is None", "if eval(value)") for text in styles]
    rows = [
        {"id": n, "prompt": "p", "chosen": styles, "rejected": worse, "domain": domain}
        for n, domain in enumerate(["code", "safety-refuse", "safety-response"])
    ]
    path = tmp_path / "total_dataset.json"
    path.write_text(json.dumps(rows))
    found = run(scorer, path, tmp_path / "out")
    assert found["layout"] == "rm-bench"
    assert {name: row["prompts"] for name, row in found["by_domain"].items()} == {"code": 1, "safety": 2}
    right, wrong = scorer.score(["p"] * 2, [styles[0], worse[2]])
    assert found["by_domain"]["code"]["matrix"][0][2] == float(right > wrong)


def test_two_layouts_in_one_go_are_refused(tmp_path: Path) -> None:
    lists = {"prompt": "p", "chosen": ["a"], "rejected": ["b"], "subset": "Math"}
    with pytest.raises(AssayError, match="row 2 is laid out as rewardbench2"):
        pairs.load([jsonl(tmp_path / "a.jsonl", [pair(1), lists])], no_system)
