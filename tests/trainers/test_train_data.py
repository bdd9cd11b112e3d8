"""From pairs to tokens: windows, drops and their count, order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from train_helpers import made_pairs, pair_row, shard
from transformers import PreTrainedTokenizerFast

from schemas.errors import AssayError, ShardError
from schemas.stage import Drop
from trainers import data
from trainers.data import Cutting, Pair, Side, TokenPair
from trainers.items import collate
from trainers.objectives.bradley_terry import item_of
from trainers.packing import common_prefix
from trainers.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    rows = made_pairs(20)
    return train_tokenizer((text for row in rows for text in (row["chosen"], row["rejected"])), 512)


def as_pair(chosen: str, rejected: str, **other: str) -> Pair:
    row = pair_row("p", chosen, rejected) | other
    return Pair(**{name: row[name] for name in data.COLUMNS})


tokens = st.lists(st.integers(10, 13), max_size=40)


@given(
    shared=tokens,
    left=tokens,
    right=tokens,
    prompt=st.integers(0, 10),
    tail=st.integers(0, 3),
    max_length=st.integers(14, 60),
)
def test_a_window_holds_the_first_difference_of_both_sides(
    shared: list[int], left: list[int], right: list[int], prompt: int, tail: int, max_length: int
) -> None:
    bodies = [np.array(shared + end, dtype=np.int32) for end in (left, right)]
    head, foot = np.full(prompt, 1, np.int32), np.full(tail, 2, np.int32)
    sides = [Side(np.concatenate([head, body, foot]), prompt, prompt + len(body), True) for body in bodies]
    made = data.cut_pair(as_pair("a", "b"), sides[0], sides[1], Cutting(max_length, 1))
    if np.array_equal(*bodies):
        assert isinstance(made, Drop)
        assert made.reason == "identical"
        return
    assert isinstance(made, TokenPair)
    at = common_prefix(*bodies)
    cut_at = common_prefix(made.chosen, made.rejected)
    for cut, side, body in zip((made.chosen, made.rejected), sides, bodies, strict=True):
        assert len(cut) <= max_length
        assert cut[:prompt].tolist() == head.tolist()
        assert cut[len(cut) - tail :].tolist() == foot.tolist()
        kept = cut[prompt : len(cut) - tail]
        if at < len(body):
            assert kept[cut_at - prompt :].tolist() == body[at : at + len(kept) - (cut_at - prompt)].tolist()
            assert cut_at < len(cut) - tail
        if len(side.ids) <= max_length and len(sides[0].ids) <= max_length >= len(sides[1].ids):
            assert cut.tolist() == side.ids.tolist()


@given(st.integers(1, 500), st.integers(1, 200), st.data())
def test_a_window_lies_inside_the_longer_completion(longest: int, budget: int, draw: st.DataObject) -> None:
    difference = draw.draw(st.integers(0, longest - 1))
    start = data.window_start(difference, longest, budget)
    assert 0 <= start <= difference < start + budget
    assert start + min(budget, longest) <= longest


def test_a_pair_that_fits_is_what_apply_chat_template_gives(tokenizer: PreTrainedTokenizerFast) -> None:
    # A completion that begins with line ends: its first token may swallow the template's own.
    pair = as_pair("\n\nx = 1\n", "\nx = 2  ", system="Be strict.", input="Fix it.")
    kept, _ = data.encode_pairs([pair], tokenizer, Cutting(999, 9))
    for ids, text in ((kept[0].chosen, pair.chosen), (kept[0].rejected, pair.rejected)):
        messages = data.conversation(pair.system, pair.input, text)
        wanted = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
        assert ids.tolist() == wanted


def test_the_prompt_length_counts_tokens_and_not_keys(tokenizer: PreTrainedTokenizerFast) -> None:
    pair = as_pair("x = 1\n", "y = 2\n", input="A long instruction. " * 5)
    kept, _ = data.encode_pairs([pair], tokenizer, Cutting(999, 9))
    messages = data.conversation(pair.system, pair.input, "")[:-1]
    prompt = tokenizer.apply_chat_template(
        messages, tokenize=True, add_generation_prompt=True, return_dict=False
    )
    assert kept[0].prompt_length == len(prompt)
    assert kept[0].chosen[: len(prompt)].tolist() == prompt


def test_an_instruction_that_quotes_the_completion_is_not_taken_for_it(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    pair = as_pair("x = 1", "x = 2", input="Write x = 1 please, x = 1 and nothing else")
    kept, _ = data.encode_pairs([pair], tokenizer, Cutting(999, 9))
    completion = tokenizer.decode(kept[0].chosen[kept[0].prompt_length :])
    assert completion == "x = 1<|im_end|>\n"


def test_every_dropped_pair_is_counted_with_its_reason(tokenizer: PreTrainedTokenizerFast) -> None:
    pairs = [
        as_pair("x = 1\n", "x = 2\n"),
        as_pair(" \n", "x = 2\n"),
        as_pair("x = 2\n", ""),
        as_pair("x = 2\n", "x = 2\n"),
        as_pair("x = 1\n" * 60, "x = 2\n" * 60, input="word " * 200),
    ]
    kept, account = data.encode_pairs(pairs, tokenizer, Cutting(64, 32, long_prompt="drop"))
    assert account.by_reason() == {"empty_completion": 2, "identical": 1, "prompt_too_long": 1}
    assert account.rows == len(pairs) == account.kept + len(account.drops)
    assert len(kept) == account.kept == 1


def test_a_long_prompt_keeps_its_ends_and_leaves_half_to_the_completion(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    pair = as_pair("x = 1\n" * 60, "x = 2\n" * 60, system="Begin. " + "word " * 200, input="The end.")
    kept, account = data.encode_pairs([pair], tokenizer, Cutting(160, 80))
    assert (account.kept, account.noted["prompts_cut"], account.noted["windowed"]) == (1, 1, 1)
    made = kept[0]
    assert len(made.chosen) == len(made.rejected) == 160
    prompt = tokenizer.decode(made.chosen[: made.prompt_length])
    assert prompt.startswith("<|im_start|>system\nBegin. word")
    assert prompt.endswith("The end.<|im_end|>\n<|im_start|>assistant\n")
    assert item_of(made, 1).predicted == 80 + 2


def test_a_long_prompt_is_whole_where_the_completion_is_short(tokenizer: PreTrainedTokenizerFast) -> None:
    pair = as_pair("x\n", "y\n", input="word " * 20)
    size = len(data.encode_sides(tokenizer, [("", pair.input, pair.chosen)])[0].ids)
    kept, account = data.encode_pairs([pair], tokenizer, Cutting(size, size // 2))
    assert (account.kept, account.noted["prompts_cut"], account.noted["windowed"]) == (1, 0, 0)
    assert len(kept[0].chosen) == size


def test_the_head_rule_drops_pairs_that_it_makes_equal(tokenizer: PreTrainedTokenizerFast) -> None:
    pair = as_pair("x = 1\n" * 80 + "y = 1\n", "x = 1\n" * 80 + "y = 2\n")
    kept, account = data.encode_pairs([pair], tokenizer, Cutting(80, 80 // 2, truncation="head"))
    assert (kept, account.by_reason()) == ([], {"identical_after_truncation": 1})
    kept, account = data.encode_pairs([pair], tokenizer, Cutting(80, 80 // 2, truncation="difference"))
    assert (len(kept), account.noted["windowed"]) == (1, 1)


def test_a_template_that_rewrites_the_completion_drops_the_pair() -> None:
    made = train_tokenizer(["x = 1\n"], 512)
    made.chat_template = (made.chat_template or "").replace(
        "message['content']", "message['content'] | upper"
    )
    _, account = data.encode_pairs([as_pair("x = a\n", "x = b\n")], made, Cutting(99, 9))
    assert account.by_reason() == {"template_changes_text": 1}


def test_a_template_that_strips_blanks_still_finds_the_completion() -> None:
    made = train_tokenizer(["x = 1\n"], 512)
    made.chat_template = (made.chat_template or "").replace("message['content']", "message['content'] | trim")
    kept, _ = data.encode_pairs([as_pair("\n x = a\n", "\n x = b\n")], made, Cutting(99, 9))
    assert made.decode(kept[0].chosen[kept[0].prompt_length :]) == "x = a<|im_end|>\n"


def test_a_template_that_refuses_the_conversation_gives_one_line() -> None:
    made = train_tokenizer(["x = 1\n"], 512)
    made.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(AssayError, match=r"refuses a conversation of user and assistant .*no system role"):
        data.encode_pairs([as_pair("a", "b")], made, Cutting(99, 9))


def test_a_special_token_in_hostile_code_does_not_end_the_sequence_early(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    pair = as_pair("x = '<|im_end|>\n<|endoftext|>'\n", "x = 2\n")
    kept, _ = data.encode_pairs([pair], tokenizer, Cutting(99, 9))
    assert tokenizer.decode(kept[0].chosen).endswith("<|endoftext|>'\n<|im_end|>\n")


def test_pairs_do_not_depend_on_how_they_are_cut_into_shards(tmp_path: Path) -> None:
    rows = made_pairs(9)
    one = shard(tmp_path / "one.parquet", rows)
    two = [shard(tmp_path / "a.parquet", rows[5:]), shard(tmp_path / "b.parquet", rows[:5])]
    assert data.read_pairs([one]) == data.read_pairs(two)


def test_pairs_that_differ_in_a_missing_licence_only_have_an_order(tmp_path: Path) -> None:
    rows = [pair_row("p", "a", "b", license="MIT"), pair_row("p", "a", "b", license=None)]
    read = data.read_pairs([shard(tmp_path / "a.parquet", rows)])
    assert [pair.license for pair in read] == [None, "MIT"]


def test_a_shard_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    bad = tmp_path / "part-x.parquet"
    bad.write_bytes(b"not parquet")
    with pytest.raises(ShardError, match=r"part-x\.parquet"):
        data.read_pairs([bad])


def group(pair: data.Pair) -> str:
    return pair.commit or pair.idx


def test_pairs_of_one_commit_are_never_on_both_sides_of_the_hold_out() -> None:
    rows = [as_pair("a", "b", commit=f"c{i % 20}", idx=str(i)) for i in range(200)]
    train, dev = data.hold_out(rows, group, 0.3, seed=1)
    assert train
    assert dev
    assert not {pair.commit for pair in train} & {pair.commit for pair in dev}


def test_the_only_commit_is_trained_on_and_not_held_out() -> None:
    for seed in range(20):
        train, dev = data.hold_out([as_pair("a", "b", commit="only")], group, 0.5, seed)
        assert (len(train), len(dev)) == (1, 0)


def test_the_language_model_targets_are_the_completion_of_the_chosen_side(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    pairs, _ = data.encode_pairs(
        [as_pair("x = 1\n" * 9, "y\n"), as_pair("z\n", "x = 3\n" * 9)], tokenizer, Cutting(999, 9)
    )
    batch = collate([item_of(pair, 1) for pair in pairs], "padded", 0)
    wanted = [ids for pair in pairs for ids in pair.chosen[pair.prompt_length :].tolist()]
    assert batch.input_ids is not None
    assert batch.targets.tolist() == wanted
    assert batch.input_ids.flatten()[batch.positions + 1].tolist() == wanted


def test_a_single_conversation_loses_the_end_of_its_completion_and_keeps_the_end_of_turn(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    side = data.encode_sides(tokenizer, [("", "Go.", "x = 1\n" * 50)])[0]
    cut = data.cut_side(side, Cutting(40, 9))
    assert cut is not None
    assert len(cut) == 40
    assert cut[:37].tolist() == side.ids[:37].tolist()
    assert tokenizer.decode(cut).endswith("<|im_end|>\n")
    assert data.cut_side(side, Cutting(side.start + 1, 9, long_prompt="drop")) is None
