"""Programs with labelled functions as items, and the mismatched pairs for the reference point of KTO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_helpers import (
    made_programs,
    numbered,
    program_row,
    step_row,
    steps_shard,
    tokenizer_for,
)
from program_helpers import settings as configured
from train_helpers import made_pairs, shard
from transformers import PreTrainedTokenizerFast

from schemas.errors import ShardError
from trainers.data import Cutting
from trainers.objectives.kto import Kto
from trainers.packing import epoch_order
from trainers.programs import (
    NOTES,
    Function,
    Labelled,
    characters,
    encode_programs,
    mismatched,
    read_programs,
)

WIDE = Cutting(4096, 2048)
TEXTS = [text for row in made_programs(4) for text in (row["prompt"], row["completion"])]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tokenizer_for([*TEXTS, "é è 漢字 漢字 🙂🙂 naïve"])


def labelled(completion: str, functions: list[Function], outcome: int | None = 1, **other: Any) -> Labelled:
    values: dict[str, Any] = {
        "idx": "a",
        "problem_id": "p",
        "prompt": "Do it.",
        "completion": completion,
        "outcome": outcome,
        "functions": tuple(functions),
        "language": "Python",
        "license": None,
    }
    return Labelled(**{**values, **other})


def rows_of(tmp_path: Path, rows: list[dict[str, Any]], label: str = "label") -> list[Labelled]:
    return read_programs([steps_shard(tmp_path / "part-a.parquet", rows)], label)


pieces = st.lists(st.text("ab (\n)é漢🙂", min_size=0, max_size=8), min_size=1, max_size=6)


@settings(deadline=None)
@given(pieces, st.data())
def test_a_token_that_holds_a_byte_of_a_function_belongs_to_it(
    tokenizer: PreTrainedTokenizerFast, parts: list[str], data: st.DataObject
) -> None:
    text = "x" + "".join(parts) + "x"
    size = len(text.encode())
    # Any bytes, also such as cut a character.
    start = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(start + 1, size))
    (item,), account = encode_programs([labelled(text, [Function(start, end, 1)])], tokenizer, WIDE, False)
    assert account.noted["functions_labelled"] == 1
    # In a byte-level vocabulary every character of a token stands for one byte.
    lengths = [len(token) for token in tokenizer.convert_ids_to_tokens(item.targets[0].tolist())]
    ends = np.cumsum(lengths)
    whole = [0, *np.cumsum([len(char.encode()) for char in text])]
    first = max(byte for byte in whole if byte <= start)
    last = min(byte for byte in whole if byte >= end)
    held = [at for at in range(len(ends)) if ends[at] > first and ends[at] - lengths[at] < last]
    assert item.facts.spans.tolist() == [[held[0], held[-1] + 1]]


@given(st.text("aé漢🙂", max_size=10), st.data())
def test_characters_are_the_inverse_of_encoding(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = (len(text[:start].encode()), len(text[:end].encode()))
    (found,) = characters(text, [span])
    assert found is not None
    assert text[slice(*found)] == text[start:end]


def test_offsets_outside_of_the_completion_are_counted_and_cost_nothing_else(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    functions = [Function(-1, 2, 1), Function(3, 2, 1), Function(0, 99, 0), Function(0, 3, 0)]
    (item,), account = encode_programs([labelled("def f(): pass", functions)], tokenizer, WIDE, False)
    assert account.noted["functions_misplaced"] == 3
    assert item.facts.labels.tolist() == [0]


def test_blanks_that_a_template_strips_do_not_shift_functions() -> None:
    tokenizer = tokenizer_for(TEXTS)
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "message['content']", "message['content'] | trim"
    )
    text = " \n\n def f(x):\n    return 1\n\n"
    start = text.index("def")
    rows = [labelled(text, [Function(start, start + 10, 1), Function(0, 2, 1)])]
    (item,), account = encode_programs(rows, tokenizer, WIDE, False)
    (span,) = item.facts.spans
    assert tokenizer.decode(item.targets[0][slice(*span)]).strip().startswith("def f(x)")
    # Of the other function the template has left nothing.
    assert account.noted["functions_absent"] == 1


def test_targets_are_the_completion_and_the_end_of_turn(tokenizer: PreTrainedTokenizerFast) -> None:
    (item,), _ = encode_programs([labelled("def f(): pass", [])], tokenizer, WIDE, False)
    assert tokenizer.decode(item.targets[0]) == "def f(): pass<|im_end|>\n"
    assert np.array_equal(item.sequences[0][item.at[0] + 1], item.targets[0])
    assert tokenizer.decode(item.sequences[0]) == (
        "<|im_start|>user\nDo it.<|im_end|>\n<|im_start|>assistant\ndef f(): pass<|im_end|>\n"
    )


def test_a_program_that_is_too_long_keeps_its_beginning_and_does_not_stop_there(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    text = "def f(): pass\n" * 30
    functions = [Function(0, 13, 1), Function(14, len(text), 0), Function(400, 413, 1)]
    (whole,), _ = encode_programs([labelled(text, functions)], tokenizer, WIDE, False)
    (item,), account = encode_programs([labelled(text, functions)], tokenizer, Cutting(64, 32), False)
    assert len(item.sequences[0]) == 64
    assert np.array_equal(item.sequences[0], whole.sequences[0][:64])
    assert tokenizer.eos_token_id not in item.targets[0]
    assert item.facts.labels.tolist() == [1]
    noted = {name: account.noted[name] for name in ("windowed", "functions", "functions_cut")}
    assert noted == {"windowed": 1, "functions": 3, "functions_cut": 2}


def test_a_long_prompt_is_cut_or_costs_the_row(tokenizer: PreTrainedTokenizerFast) -> None:
    row = labelled("def f(): pass", [Function(0, 13, 1)], prompt="Do it. " * 50)
    (item,), account = encode_programs([row], tokenizer, Cutting(64, 32), False)
    assert account.noted["prompts_cut"] == 1
    (span,) = item.facts.spans
    assert tokenizer.decode(item.targets[0][slice(*span)]) == "def f(): pass"
    items, account = encode_programs([row], tokenizer, Cutting(64, 32, long_prompt="drop"), False)
    assert not items
    assert account.by_reason() == {"prompt_too_long": 1}


def test_every_row_and_every_function_is_accounted_for(tokenizer: PreTrainedTokenizerFast) -> None:
    rows = [
        labelled("def f(): pass", [Function(0, 5, 1), Function(0, 5, None), Function(3, 3, 0)]),
        labelled("def f(): pass", [Function(0, 5, 0), Function(0, 50, 1)]),
        labelled("def f(): pass", [Function(0, 5, 7)]),
        labelled("def f(): pass", [], outcome=None),
        labelled("def f(): pass", [], outcome=-1),
        labelled(" \n", []),
    ]
    for mask in (False, True):
        items, account = encode_programs(rows, tokenizer, WIDE, mask)
        assert account.rows == len(rows) == account.kept + len(account.drops)
        assert account.kept == len(items) == 2
        assert account.by_reason() == {
            "bad_label": 1,
            "bad_outcome": 1,
            "empty_completion": 1,
            "no_outcome": 1,
        }
        noted = account.noted
        assert noted["functions"] == 5 == sum(noted[name] for name in NOTES[3:])
        assert noted["functions_masked"] == int(mask)


def test_masking_conflicts_leaves_the_labels_that_agree_with_the_outcome(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    functions = [Function(0, 5, 1), Function(5, 9, 0)]
    rows = [labelled("def f(): pass", functions, outcome) for outcome in (1, 0)]
    kept = [item.facts.trained.tolist() for item in encode_programs(rows, tokenizer, WIDE, False)[0]]
    assert kept == [[1, 0], [1, 0]]
    masked = encode_programs(rows, tokenizer, WIDE, True)[0]
    assert [item.facts.trained.tolist() for item in masked] == [[1, -1], [-1, 0]]
    # What a model is judged by stays.
    assert [item.facts.labels.tolist() for item in masked] == [[1, 0], [1, 0]]


def test_rows_do_not_depend_on_the_cut_of_shards_and_labels_are_of_the_column_asked_for(
    tmp_path: Path,
) -> None:
    rows = made_programs(3)
    for row in rows:
        row["steps"] = [{**step, "judge_label": 0} for step in row["steps"]]
    whole = rows_of(tmp_path, rows)
    parts = [steps_shard(tmp_path / f"{n}.parquet", rows[n::2]) for n in (1, 0)]
    assert read_programs(parts, "label") == whole
    assert {f.label for row in read_programs(parts, "judge_label") for f in row.functions} == {0}


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "other_table"])
def test_a_shard_that_is_not_one_of_steps_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    path = steps_shard(tmp_path / "part-a.parquet", made_programs(2))
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.unlink()
        shard(path, made_pairs(2))
    with pytest.raises(ShardError, match=r"part-a\.parquet") as caught:
        Kto(configured(objective="kto")).read([path])
    assert "\n" not in str(caught.value)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=24), st.integers(0, 3), st.integers(1, 4))
def test_a_mismatched_pair_joins_a_prompt_with_the_completion_of_another_task(
    groups: list[int], epoch: int, together: int
) -> None:
    items = numbered(groups)
    order = epoch_order(len(items), epoch, 0, [item.share for item in items], together)
    made = mismatched(items, order, 99)
    assert len(made) == len(order)
    for index, pair in zip(order, made, strict=True):
        assert pair.sequences[0][:2].tolist() == [groups[index]] * 2
        other = int(pair.sequences[0][2]) - 1000
        assert pair.facts.own_task == (len(set(groups)) == 1)
        if len(set(groups)) > 1:
            assert groups[other] != groups[index]
        elif len(groups) > 1:
            assert other != index


def test_candidates_of_a_task_are_joined_with_different_completions() -> None:
    items = numbered([number // 4 for number in range(32)])
    order = epoch_order(32, 0, 0, [item.share for item in items], 4)
    others = [int(pair.sequences[0][2]) for pair in mismatched(items, order, 99)]
    assert len(set(others)) == 32


def test_mismatched_pairs_change_from_epoch_to_epoch() -> None:
    items = numbered(list(range(20)))
    epochs = [{pair.idx for pair in mismatched(items, epoch_order(20, epoch, 0), 99)} for epoch in range(2)]
    assert len(epochs[0] & epochs[1]) < 10


def test_a_mismatched_pair_is_cut_and_loses_the_functions_that_do_not_fit() -> None:
    items = numbered([0, 1])
    pair = mismatched(items, [0, 1], 3)[0]
    assert pair.sequences[0].tolist() == [0, 0, 1001]
    assert len(pair.targets[0]) == 1
    assert len(pair.facts.spans) == 0


def test_missing_functions_have_no_tokens_but_are_counted(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    row = program_row("a", "def f(): pass", 0, [("def f(): pass", 1)])
    row["steps"].append(step_row("g", 0, 0, 0, reason="missing"))
    objective = Kto(configured(objective="step-kto"))
    (item,), account = objective.encode(rows_of(tmp_path, [row]), tokenizer, "train")
    assert account.noted["functions_absent"] == 1
    assert item.facts.labels.tolist() == [1]
