"""Scores of files: the same in any batch and order, each prompt computed once, and told how far they are."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from eval_models import reward_model

from trainers import rowfiles, scoring
from trainers.conversations import request_of
from trainers.score import Scorer


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    """A model with random weights, whose scores differ."""
    return Scorer(reward_model(tmp_path_factory.mktemp("models") / "rm", max_length=512))


def rows(tasks: int, each: int) -> list[dict[str, Any]]:
    """Responses to prompts of some length, tasks taking turns, and a pair a task."""
    found = []
    for number in range(each):
        for task in range(tasks):
            prompt = f"Task {task}. " + "Improve this function. " * 12
            found.append({"prompt": prompt, "response": "def f(value):\n" + "    x = 1\n" * (number * 5 % 7)})
    for task in range(tasks):
        prompt = f"Task {task}. " + "Improve this function. " * 12
        found.append({"prompt": prompt, "chosen": "return value\n", "rejected": "return eval(value)\n"})
    return found


def asked(found: list[dict[str, Any]]) -> list[tuple[Any, str]]:
    """Requests with a system prompt."""
    return [(request_of(row, number), "Be strict.") for number, row in enumerate(found)]


def values(found: list[Any]) -> list[float]:
    """All scores, in order."""
    return [value for one in found for value in one.values]


def test_a_score_is_the_same_in_any_batch_and_order_to_one_in_ten_thousand(scorer: Scorer) -> None:
    requests = asked(rows(3, 5))
    alone = [values(scoring.score_requests(scorer, [one], scoring.Options(1))) for one in requests]
    wanted = [value for one in alone for value in one]
    assert np.ptp(wanted) > 0.01
    for batch_size in (1, 2, 7, 64):
        found = scoring.score_requests(scorer, requests, scoring.Options(batch_size))
        assert np.abs(np.array(values(found)) - wanted).max() < 1e-4
    order = random.Random(0).sample(range(len(requests)), len(requests))
    mixed = scoring.score_requests(scorer, [requests[at] for at in order], scoring.Options(4))
    for at, one in zip(order, mixed, strict=True):
        assert one.values == pytest.approx(alone[at], abs=1e-4)


def test_a_prompt_is_computed_once_wherever_its_responses_stand(scorer: Scorer) -> None:
    positions: list[int] = []
    hook = scorer._model.base_model.embed_tokens.register_forward_pre_hook(
        lambda _module, args: positions.append(args[0].numel())
    )
    try:
        scoring.score_requests(scorer, asked(rows(3, 8)[:24]), scoring.Options(8))
        together = sum(positions)
        positions.clear()
        for one in asked(rows(3, 8)[:24]):
            scoring.score_requests(scorer, [one], scoring.Options(8))
    finally:
        hook.remove()
    assert not scorer.why_padded
    # A prompt is most of what is read, and each of three stands before eight responses.
    assert together < sum(positions) / 3


def test_progress_rises_to_the_number_of_rows(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_CALL", 4)
    told: list[int] = []
    requests = asked(rows(3, 5))
    scoring.score_requests(scorer, requests, scoring.Options(2), told.append)
    assert told == sorted(told)
    assert told[-1] == len(requests)
    assert len(set(told)) > 8


def test_progress_of_files_tells_what_had_been_done_from_what_is_new(scorer: Scorer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(2, 6)[:12]))
    told: list[tuple[int, int | None, int]] = []

    def score() -> None:
        told.clear()
        options = scoring.Options(batch_size=4, part_rows=5)
        scoring.score_files(
            lambda: scorer, [path], tmp_path / "out", lambda _: "", options, "k", lambda *n: told.append(n)
        )

    score()
    assert told[-1] == (12, 12, 12)
    assert told == sorted(told)
    (tmp_path / "out" / "part-00000-00002.parquet").unlink()
    score()
    assert told[0] == (5, 12, 0)
    assert told[-1] == (12, 12, 2)


@pytest.mark.parametrize(
    ("name", "text", "rows_"),
    [
        ("a.jsonl", b"{}\n{}\n{}\n", 3),
        ("a.json", b"[{}, {}]", None),
        ("a.jsonl.gz", b"not gzip", None),
        ("a.parquet", b"PAR1", None),
    ],
)
def test_rows_are_counted_where_that_is_cheap(
    name: str, text: bytes, rows_: int | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    assert rowfiles.count([path]) == rows_
    assert rowfiles.count([tmp_path / "none.jsonl"]) is None


def test_a_limit_is_one_of_each_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" * 9)
    assert rowfiles.count([path, path], limit=4) == 8
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), table)
    assert rowfiles.count([table]) == 3
