"""Every published layout of preferences: how it is told, and what becomes of its fields."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from preference_rows import (
    ASKED,
    BAD,
    GOOD,
    LAYOUTS,
    Row,
    asked,
    coderewardbench,
    completion,
    helpsteer,
    helpsteer2_preference,
    helpsteer3,
    hh,
    messages,
    pairs,
    plain,
    read,
    rewardbench,
    rewardbench2,
    skywork,
    themis,
    transcript,
    tulu,
    ultrafeedback,
    ultrafeedback_binarized,
)

from miner.config import PreferencesConfig
from miner.importers.fields import BadRow
from miner.importers.layouts import choose
from miner.importers.preferences_formats import FORMATS
from schemas.records import CriterionScore, ImportedPair, Measure, VoteCount


def one(form: str, row: Row, **settings: Any) -> ImportedPair:
    (found,) = read(form, row, **settings)
    return found


def bad(form: str, row: Row, **settings: Any) -> str:
    with pytest.raises(BadRow) as caught:
        read(form, row, **settings)
    return str(caught.value)


@pytest.mark.parametrize("name", LAYOUTS)
def test_format_is_told_by_the_fields(name: str) -> None:
    assert choose(LAYOUTS[name](), FORMATS).name == name


def test_second_layouts_of_a_format_are_told_too() -> None:
    assert choose(helpsteer2_preference(), FORMATS).name == "helpsteer-preference"
    argilla = ultrafeedback_binarized()
    for old, new in (("score_chosen", "chosen-rating"), ("score_rejected", "rejected-rating")):
        argilla[new] = argilla.pop(old)
    assert choose(argilla, FORMATS).name == "ultrafeedback-binarized"
    assert choose(plain(prompt=transcript("Hi") + "\n\nAssistant:"), FORMATS).name == "plain"


def test_settings_name_every_format() -> None:
    (hint,) = (field.type for field in dataclasses.fields(PreferencesConfig) if field.name == "format")
    assert list(FORMATS) == list(LAYOUTS)
    assert set(FORMATS) == {name for name in LAYOUTS if f'"{name}"' in str(hint) or f"'{name}'" in str(hint)}


def test_themis_row_keeps_its_columns_and_says_that_it_was_published() -> None:
    found = one("themis", themis(system="Judge the code."), source="hub", license="Apache-2.0")
    assert (found.system, found.input, found.chosen, found.rejected) == (
        "Judge the code.",
        asked(0),
        GOOD,
        BAD,
    )
    assert (found.language, found.aspect) == ("C++", "Readability and Maintainability")
    assert (found.source, found.license, found.repo, found.commit, found.path) == (
        "Commit-Preference",
        "Apache-2.0",
        None,
        None,
        None,
    )
    evidence = found.evidence
    assert (evidence.method, evidence.labeler, evidence.confidence) == ("published", "hub", 1.0)
    assert (evidence.detail, evidence.edit_id, evidence.level) == ("t-0", None, "answer")
    assert (evidence.instruction_kind, evidence.system_kind) == ("given", "given")


def test_null_system_prompt_of_themis_is_none() -> None:
    found = one("themis", themis(system=None))
    assert (found.system, found.evidence.system_kind) == ("", "none")


@pytest.mark.parametrize(
    ("told", "ours"),
    [
        ("Cpp", "C++"),
        ("CSharp", "C#"),
        ("JavaScript", "JavaScript"),
        ("c", "C"),
        ("NL", "NL"),
        ("Perl", "Perl"),
        ("  Go ", "Go"),
    ],
)
def test_languages_of_code_sets_get_our_spelling_and_others_stay(told: str, ours: str) -> None:
    assert one("coderewardbench", coderewardbench(language=told)).language == ours


@pytest.mark.parametrize(
    ("told", "ours"),
    [
        ("Functional_Correctness", "Functional Correctness"),
        ("Readability_Maintainability", "Readability and Maintainability"),
        ("readability & maintainability", "Readability and Maintainability"),
        ("Readability and Maintainability", "Readability and Maintainability"),
        ("runtime efficiency", "Runtime Efficiency"),
        ("Test Coverage", "Test Coverage"),
    ],
)
def test_aspects_get_the_spelling_of_themis_and_others_stay(told: str, ours: str) -> None:
    assert one("coderewardbench", coderewardbench(aspect=told)).aspect == ours


def test_subset_of_the_benchmark_is_its_source() -> None:
    found = one("coderewardbench", coderewardbench())
    assert (found.source, found.evidence.detail) == ("COMMITPREFS_READABILITY", "b-0")


def test_pairs_of_a_run_come_back_as_they_were() -> None:
    found = one("pairs", pairs(3))
    row = pairs(3)
    for name in (
        "system",
        "input",
        "chosen",
        "language",
        "aspect",
        "source",
        "idx",
        "repo",
        "commit",
        "path",
    ):
        assert getattr(found, name) == row[name]
    assert (found.license, found.split) == ("MIT OR Apache-2.0", "test")
    evidence = found.evidence
    assert (evidence.edit_id, evidence.method, evidence.confidence) == ("edit-3", "classifier", 0.75)
    assert evidence.scores == [CriterionScore(criterion="FC", score=0.75)]
    assert evidence.measures == [Measure(name="lint", old=2, new=0.0, tool="ruff 1")]
    assert isinstance(evidence.votes[0], VoteCount)
    assert evidence.trade_offs == ["RM"]


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": "high"},
        {"confidence": float("nan")},
        {"scores": [{"criterion": "FC"}]},
        {"votes": [None]},
        {"names": None},
        {"more": 1},
    ],
)
def test_evidence_of_another_form_costs_the_row(change: Row) -> None:
    evidence = {**pairs()["evidence"], **change}
    assert bad("pairs", pairs(evidence=evidence)).startswith("bad_field")


def test_evidence_that_is_no_record_costs_the_row() -> None:
    assert bad("pairs", pairs(evidence=[1])).startswith("bad_field")


@pytest.mark.parametrize(("strength", "chosen"), [(-3, BAD), (-1, BAD), (1, GOOD), (3, GOOD)])
def test_sign_of_a_preference_tells_the_chosen_response(strength: int, chosen: str) -> None:
    found = one("helpsteer-preference", helpsteer3(overall_preference=strength))
    assert found.chosen == chosen
    assert found.evidence.confidence == pytest.approx(0.5 + abs(strength) / 6)


def test_helpsteer_2_has_other_names_for_the_same() -> None:
    found = one("helpsteer-preference", helpsteer2_preference(split="validation"))
    assert (found.chosen, found.rejected, found.split) == (GOOD, BAD, "test")


@pytest.mark.parametrize("strength", [None, 4, -3.5, "2", True, float("nan"), 10**400])
def test_preference_off_its_scale_costs_the_row(strength: Any) -> None:
    assert bad("helpsteer-preference", helpsteer3(overall_preference=strength)).startswith("bad_field")


def test_natural_language_is_no_programming_language() -> None:
    row = helpsteer3(domain="multilingual", language="french")
    assert one("helpsteer-preference", row).language == "NL"
    assert one("helpsteer-preference", helpsteer3(language="sql")).language == "sql"


def test_earlier_turns_are_part_of_what_was_asked() -> None:
    found = one("helpsteer-preference", helpsteer3())
    assert found.input == f"User: Hello\n\nAssistant: Hello!\n\nUser: {asked(0)}"


def group(*rows: Row) -> Row:
    return {"group": list(rows)}


def test_ratings_of_two_responses_make_a_pair() -> None:
    found = one("helpsteer", group(helpsteer(1), helpsteer(0)))
    assert (found.chosen, found.rejected, found.input) == (GOOD, BAD, asked(0))
    assert found.evidence.confidence == pytest.approx(0.5 + 3 / 8)
    assert found.evidence.measures == [Measure(name="helpfulness", old=1.0, new=4.0, tool="x")]


@pytest.mark.parametrize(
    ("score", "chosen"), [("auto", GOOD), ("correctness", GOOD), ("verbosity", "longer"), ("mean", GOOD)]
)
def test_setting_says_which_rating_decides(score: str, chosen: str) -> None:
    longer = helpsteer(1, response="longer", verbosity=4)
    assert one("helpsteer", group(helpsteer(0), longer), score=score).chosen == chosen


def test_best_and_worst_of_more_responses_make_the_pair_or_all_that_differ() -> None:
    rows = [helpsteer(0, response=f"r{at}", helpfulness=at) for at in (2, 0, 3)]
    found = one("helpsteer", group(*rows))
    assert (found.chosen, found.rejected) == ("r3", "r0")
    every = {(pair.chosen, pair.rejected) for pair in read("helpsteer", group(*rows), answers="all")}
    assert every == {("r3", "r0"), ("r3", "r2"), ("r2", "r0")}
    wide = read("helpsteer", group(*rows), answers="all", min_margin=2)
    assert {(pair.chosen, pair.rejected) for pair in wide} == {("r3", "r0"), ("r2", "r0")}


def test_most_pairs_of_a_prompt_are_a_draw_by_the_seed() -> None:
    rows = group(*(helpsteer(0, response=f"r{at}", helpfulness=at) for at in range(5)))
    draws = {
        tuple(pair.idx for pair in read("helpsteer", rows, answers="all", max_pairs=3, seed=seed))
        for seed in range(8)
    }
    assert {len(draw) for draw in draws} == {3}
    assert len(draws) > 1


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([helpsteer(0)], "no_counterpart"),
        ([helpsteer(0), helpsteer(1, helpfulness=None)], "no_counterpart"),
        ([helpsteer(0), helpsteer(1, helpfulness=4)], "tie"),
        ([helpsteer(0), helpsteer(1, response=GOOD)], "same_answers"),
        ([helpsteer(0), helpsteer(1, helpfulness=float("nan"))], "bad_field"),
        ([helpsteer(0), helpsteer(1, response=None)], "bad_field"),
        ([helpsteer(0), None], "bad_field"),
    ],
)
def test_groups_without_two_different_responses_are_dropped(rows: list[Any], reason: str) -> None:
    assert bad("helpsteer", group(*rows)).startswith(reason)


def test_mean_of_the_ratings_decides_and_not_the_overall_score() -> None:
    found = one("ultrafeedback", ultrafeedback())
    assert (found.chosen, found.rejected) == (GOOD, BAD)
    assert found.evidence.measures == [Measure(name="mean", old=1.5, new=4.75, tool="x")]
    assert found.evidence.detail == "completion 1 (gpt-4) and completion 2 (bard)"
    assert one("ultrafeedback", ultrafeedback(), score="overall").chosen == "So so."
    assert one("ultrafeedback", ultrafeedback(), score="truthfulness").chosen == GOOD


def test_rating_that_is_not_available_leaves_its_completion_out() -> None:
    unrated = [completion("unrated", 9.0, "N/A", "N/A"), *ultrafeedback()["completions"]]
    found = read("ultrafeedback", ultrafeedback(completions=unrated), answers="all")
    assert "unrated" not in {text for pair in found for text in (pair.chosen, pair.rejected)}
    assert bad("ultrafeedback", ultrafeedback(completions=unrated[:2])).startswith("no_counterpart")


def test_row_with_more_answers_than_any_set_has_is_refused() -> None:
    many = [completion(f"c{at}", 1.0, str(at % 5)) for at in range(65)]
    assert "more than 64" in bad("ultrafeedback", ultrafeedback(completions=many))


def test_scores_of_both_sides_are_kept_and_tell_the_confidence() -> None:
    found = one("ultrafeedback-binarized", ultrafeedback_binarized())
    assert found.evidence.measures == [Measure(name="score", old=4.0, new=8.5, tool="x")]
    assert found.evidence.confidence == pytest.approx(0.75)
    assert found.evidence.detail == f"{0:064x}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"score_rejected": 8.5}, "tie"),
        ({"score_rejected": 9}, "contradiction"),
        ({"score_rejected": float("nan")}, "bad_field"),
        ({"score_rejected": float("inf")}, "bad_field"),
        ({"score_rejected": "4"}, "bad_field"),
        ({"score_chosen": True}, "bad_field"),
    ],
)
def test_scores_that_tell_no_preference_cost_the_row(change: Row, reason: str) -> None:
    assert bad("ultrafeedback-binarized", ultrafeedback_binarized(**change)).startswith(reason)


def test_least_margin_is_on_the_sets_own_scale_and_keeps_what_has_no_scores() -> None:
    assert bad("ultrafeedback-binarized", ultrafeedback_binarized(), min_margin=4.6).startswith(
        "small_margin"
    )
    assert one("ultrafeedback-binarized", ultrafeedback_binarized(), min_margin=4.5)
    unrated = one("ultrafeedback-binarized", ultrafeedback_binarized(score_chosen=None), min_margin=4.6)
    assert unrated.evidence.confidence == 1.0


def test_first_of_several_answers_make_one_pair_or_all_do() -> None:
    row = rewardbench2(chosen=[GOOD, "Sure."])
    found = one("rewardbench2", row)
    assert (found.chosen, found.rejected) == (GOOD, BAD)
    every = read("rewardbench2", row, answers="all")
    assert len({pair.idx for pair in every}) == len(every) == 6
    assert every[-1].evidence.detail == "r-0: chosen[1] and rejected[2]"
    assert len(read("rewardbench2", row, answers="all", max_pairs=4)) == 4


def test_answer_that_is_no_text_costs_only_its_pairs() -> None:
    row = rewardbench2(rejected=[None, BAD])
    assert [pair.rejected for pair in read("rewardbench2", row, answers="all")] == [BAD]
    assert bad("rewardbench2", rewardbench2(rejected=[None])).startswith("bad_field: rejected[0]")
    assert bad("rewardbench2", rewardbench2(rejected=[])).startswith("no_counterpart")


def test_subsets_of_rewardbench_tell_language_and_aspect() -> None:
    code = one("rewardbench", rewardbench())
    assert (code.language, code.aspect, code.source) == ("C++", "Functional Correctness", "hep-cpp")
    safe = one("rewardbench", rewardbench(subset="refusals-dangerous"))
    assert (safe.language, safe.aspect) == ("NL", "Harmlessness")
    assert one("rewardbench2", rewardbench2()).aspect == "Harmlessness"
    chat = one("rewardbench", rewardbench(subset="alpacaeval-easy"), aspect="Chat")
    assert (chat.language, chat.aspect, chat.evidence.detail) == ("NL", "Chat", "0")


@pytest.mark.parametrize(
    ("name", "row"),
    [("tulu", tulu()), ("skywork", skywork()), ("ultrafeedback-binarized", ultrafeedback_binarized())],
)
def test_chats_give_the_prompt_that_both_sides_share(name: str, row: Row) -> None:
    found = one(name, row)
    assert (found.input, found.chosen, found.rejected, found.system) == (asked(0), GOOD, BAD, "")


def test_system_messages_of_a_chat_are_the_system_prompt() -> None:
    row = skywork(
        chosen=messages(ASKED, GOOD, system="Be brief."), rejected=messages(ASKED, BAD, system="Be brief.")
    )
    found = one("skywork", row)
    assert (found.system, found.input) == ("Be brief.", ASKED)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rejected": messages("Another.", BAD)}, "different_prompts"),
        ({"rejected": messages(asked(0), BAD, system="Be brief.")}, "different_prompts"),
        ({"rejected": messages(asked(0))}, "bad_field: rejected: its last message"),
        ({"rejected": []}, "bad_field: rejected: its last message"),
        ({"rejected": BAD}, "bad_field: rejected: expected a list of messages"),
        ({"rejected": [None]}, "bad_field: rejected[0]: expected an object"),
        ({"rejected": [{"role": "user"}, {"role": "narrator"}]}, "bad_field: rejected[1].role"),
        ({"rejected": [{"role": None, "content": "x"}]}, "bad_field: rejected[0].role"),
        ({"chosen": messages(asked(0), "")}, "empty_answer"),
        ({"chosen": [{"role": "user", "content": asked(0)}, {"role": "assistant", "content": None}]},
         "empty_answer"),
        ({"chosen": messages(asked(0), BAD)}, "same_answers"),
        ({"chosen": messages(asked(0), f"{BAD}\n ")}, "same_answers"),
    ],
)  # fmt: skip
def test_chats_that_are_no_pair_cost_the_row(change: Row, reason: str) -> None:
    assert bad("skywork", skywork(**change)).startswith(reason)


@pytest.mark.parametrize("prompt", [ASKED, messages(ASKED)])
def test_answers_alone_answer_the_prompt_beside_them(prompt: Any) -> None:
    sides = {
        name: [{"role": "assistant", "content": text}] for name, text in (("chosen", GOOD), ("rejected", BAD))
    }
    found = one("tulu", tulu(prompt=prompt, **sides))
    assert (found.input, found.chosen) == (ASKED, GOOD)
    nothing = {**tulu(prompt=None), **sides}
    assert bad("tulu", nothing) == "bad_field: prompt: missing"


def test_transcripts_come_apart_at_their_last_answers() -> None:
    found = one("hh", hh())
    assert found.input == f"User: Hello\n\nAssistant: Hello!\n\nUser: {asked(0)}"
    assert (found.chosen, found.rejected) == ("Here it is.", "I will not.")
    assert bad("hh", hh(rejected=transcript("Hello", "Bye."))).startswith("different_prompts")
    assert bad("hh", hh(rejected=transcript("Hello", "Bye.", "Why?"))).startswith("bad_field: rejected")
    assert bad("hh", hh(rejected="Hello")).startswith("bad_field: rejected: does not begin")


def test_prompt_that_is_a_transcript_comes_apart_too() -> None:
    found = one("plain", plain(prompt=transcript("Hello", "Hello!", "Add.") + "\n\nAssistant:"))
    assert found.input == "User: Hello\n\nAssistant: Hello!\n\nUser: Add."


def test_plain_rows_may_have_the_columns_of_a_pair() -> None:
    row = plain(
        system="Be brief.", language="js", aspect="Memory Efficiency", source="mine", id=7, license="mit"
    )
    found = one("plain", row)
    assert (found.system, found.language, found.aspect) == ("Be brief.", "JavaScript", "Memory Efficiency")
    assert (found.source, found.license, found.evidence.detail) == ("mine", "MIT", "7")
    assert one("plain", row, license="Apache-2.0").license == "Apache-2.0"
    assert bad("plain", plain(license="mine alone")).startswith("bad_field: license")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chosen": " \n"}, "empty_answer: chosen"),
        ({"rejected": ""}, "empty_answer: rejected"),
        ({"prompt": ""}, "empty_prompt"),
        ({"chosen": None}, "bad_field: chosen"),
        ({"prompt": None}, "bad_field: prompt"),
        ({"chosen": {"text": None}}, "bad_field: chosen"),
        ({"chosen": "\ud800"}, "bad_field: chosen"),
        ({"system": 1}, "bad_field: system"),
        ({"source": ["a"]}, "bad_field: source"),
        ({"source": "s" * 2000}, "bad_field: source"),
        ({"aspect": "two\nlines"}, "bad_field: aspect"),
        ({"aspect": "a" * 101}, "bad_field: aspect"),
        ({"language": 3}, "unnamed_class: language"),
        ({"language": 10**400}, "unnamed_class: language"),
        ({"aspect": -1}, "unnamed_class: aspect"),
        ({"language": 3.5}, "bad_field: language"),
    ],
)
def test_fields_that_are_not_what_they_should_be_cost_the_row(change: Row, reason: str) -> None:
    assert bad("plain", plain(**change)).startswith(reason)


def test_long_text_is_measured_in_bytes() -> None:
    row = plain(chosen="é" * 50)
    assert one("plain", row, max_text_bytes=100)
    assert bad("plain", row, max_text_bytes=99).startswith("too_long: chosen")
