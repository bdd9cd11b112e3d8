"""Examples for preference trainers: what is right stays right, nothing appears twice, nothing disappears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose.functions import functions, source_of
from decompose.skeleton import splice
from labelers.programs import exports
from labelers.programs.exports import EXPORT_REASONS, Export, examples
from schemas.declare import as_row, validate
from schemas.errors import AssayError
from schemas.records import DpoExample, KtoExample

ONE, TWO = "def one():\n    return 1", "    def two(self):\n        return one() + 1"


def code(one: str = ONE, two: str = TWO) -> str:
    return f"{one}\n\n\nclass Box:\n{two}\n"


PROGRAM: dict[str, Any] = {
    "id": "g",
    "problem_id": "p",
    "language": "Python",
    "code": code(),
    "functions": [as_row(span) for span in functions(code())],
}
PROBLEM = {"id": "p", "prompt": "Write ```two```."}


def row(
    number: int,
    text: str | None = None,
    outcome: int | None = 1,
    labels: Sequence[int | None] = (1, 1),
    model: str = "m",
    **changed: Any,
) -> dict[str, Any]:
    text = code() if text is None else text
    try:
        found = {span.name: (span.start_byte, span.end_byte) for span in functions(text)}
    except AssayError:
        found = {}
    end = len(text.encode())
    steps = []
    for name, label in zip(("one", "Box.two"), labels, strict=True):
        start, stop = found.get(name, (end, end))
        steps.append(
            {
                "name": name,
                "start_byte": start,
                "end_byte": stop,
                "label": label,
                "reference_label": label,
                "suite_label": label,
                "own_label": label,
                "judge_label": None,
                "tests_run": 4,
                "tests_passed": 4,
                "reason": "passed" if label else "failed",
                "own_reason": "own",
                "first_failure": None,
                "mutation_score": 0.5,
                "trust": "external",
            }
        )
    values = {
        "id": f"c{number}",
        "problem_id": "p",
        "program_id": "g",
        "prompt": "Do.",
        "completion": text,
        "program": None,
        "outcome": outcome,
        "outcome_reason": "passed",
        "trust": "split",
        "steps": steps,
        "language": "Python",
        "source": "s",
        "license": None,
        "generator": {"model": model},
        "split": "train",
    }
    return {**values, **changed}


def made(
    rows: Sequence[dict[str, Any]], to: str = "kto", level: str = "program", **changed: Any
) -> tuple[list[Any], int, Counter[str]]:
    asked = {"labels": "outcome" if level == "program" else "reference", **changed}
    seed = asked.pop("seed", 0)
    found, kept, reasons = examples(rows, PROGRAM, PROBLEM, Export(to, level, **asked), seed)
    for one in found:
        validate(KtoExample if to == "kto" else DpoExample, one)
    assert set(reasons) <= set(EXPORT_REASONS)
    size = len(rows) if level == "program" else sum(len(one["steps"]) for one in rows)
    assert size == kept + reasons.total()
    return found, kept, reasons


def returning(value: object) -> str:
    return f"def one():\n    return {value}"


def test_a_programs_label_is_its_outcome() -> None:
    found, _, reasons = made([row(0), row(1, code(returning(7)), 0), row(2, code(returning(8)), None)])
    assert [(one.candidate_id, one.label, one.function) for one in found] == [
        ("c0", True, None),
        ("c1", False, None),
    ]
    assert reasons == {"no_label": 1}


def test_an_outcome_that_a_program_could_forge_is_left_out_unless_asked_for() -> None:
    rows = [row(0, trust="inproc"), row(1, code(returning(7)), 0)]
    assert made(rows)[2] == {"forgeable": 1}
    assert [one.trust for one in made(rows, inproc=True)[0]] == ["inproc", "split"]


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_a_completion_without_text_is_no_example(text: str) -> None:
    assert made([row(0, text, 0)])[2] == {"empty": 1}


def test_texts_that_differ_in_blank_space_are_one() -> None:
    found, _, reasons = made([row(0), row(1, code().replace("\n\n\n", "  \n\n") + "\n\n")])
    assert [one.candidate_id for one in found] == ["c0"]
    assert reasons == {"duplicate": 1}


def test_indentation_is_not_blank_space() -> None:
    a = code("def one():\n    if 0:\n        pass\n    return 1")
    b = code("def one():\n    if 0:\n        pass\n        return 1")
    assert len(made([row(0, a), row(1, b)])[0]) == 2


def test_a_text_with_both_labels_teaches_nothing() -> None:
    found, _, reasons = made([row(0), row(1, code(returning(2)), 0), row(2, outcome=0)])
    assert [one.candidate_id for one in found] == ["c1"]
    assert reasons == {"contradictory": 2}


def test_the_prompt_of_a_function_lacks_its_body_alone() -> None:
    found, _, _ = made([row(0, code(returning(7)), labels=(0, None))], level="function")
    (one,) = found
    assert one.completion == returning(7)
    assert "return 1\n" not in one.prompt
    assert "return one() + 1" in one.prompt
    assert one.prompt.startswith("Write ```two```.\n")
    assert "\n````python\n" in one.prompt
    assert (one.function, one.label, one.tests_run, one.mutation_score) == ("one", False, 4, 0.5)


def test_the_answer_fits_into_its_prompts_program() -> None:
    found, _, _ = made([row(0)], level="function")
    for one in found:
        blank = one.prompt.split("````python\n")[1].split("\n````")[0]
        whole = splice(blank, one.function, one.completion)
        span = next(span for span in functions(whole) if span.name == one.function)
        assert source_of(whole, span) == one.completion.strip()
        assert functions(whole)[0].name == "one"


def test_a_methods_text_keeps_the_indentation_of_its_first_line() -> None:
    found, _, _ = made([row(0, labels=(None, 1))], level="function")
    assert found[0].completion == TWO


def test_a_label_beside_the_candidates_functions_goes_with_the_candidates_program() -> None:
    text = code(returning(7))
    beside_reference, _, _ = made([row(0, text, labels=(None, 1))], level="function")
    beside_own, _, _ = made([row(0, text, labels=(None, 1))], level="function", labels="own")
    assert "return 1\n" in beside_reference[0].prompt
    assert "return 7\n" in beside_own[0].prompt
    assert beside_own[0].reason == "own"
    assert beside_own[0].tests_run is None


def test_a_candidates_program_is_the_one_that_was_found_in_its_prose() -> None:
    prose = f"Sure, here it is:\n```\n{code()}```\n"
    start = len(prose[: prose.index(code())].encode())
    one = row(0, code(), labels=(1, None))
    one["steps"][0]["start_byte"] += start
    one["steps"][0]["end_byte"] += start
    one |= {"completion": prose, "program": code()}
    found, _, _ = made([one], level="function", labels="own")
    assert found[0].completion == ONE
    assert "Sure" not in found[0].prompt


@pytest.mark.parametrize(
    ("labels", "expected"),
    [("reference", True), ("own", False), ("judge", False), ("counted", True), ("outcome", False)],
)
def test_each_label_is_the_one_that_was_asked_for(labels: str, expected: bool) -> None:
    one = row(0, outcome=0, labels=(1, None))
    one["steps"][0] |= {"own_label": 0, "judge_label": 0}
    if labels == "outcome":
        one["steps"].pop()
    found, _, _ = made([one], level="function", labels=labels)
    assert [(made_.label, made_.labels) for made_ in found] == [(expected, labels)]


@pytest.mark.parametrize(("counts", "body"), [("reference", 1), ("own", 7), ("judge", 7)])
def test_what_the_recipe_counts_goes_with_the_program_that_it_was_given_in(counts: str, body: int) -> None:
    one = row(0, code(returning(7)), labels=(None, 1))
    found, _, _ = made([one], level="function", labels="counted", counts=counts)
    assert f"return {body}\n" in found[0].prompt


def test_labels_of_functions_are_refused_for_programs() -> None:
    with pytest.raises(AssayError, match="whole programs have one label"):
        Export("kto", "program", "own")


def test_a_function_that_the_candidate_lacks_is_left_out() -> None:
    found, _, reasons = made([row(0, "class Box:\n" + TWO + "\n", labels=(0, 1))], level="function")
    assert [one.function for one in found] == ["Box.two"]
    assert reasons == {"empty": 1}


def test_spans_outside_of_the_text_cost_their_own_row() -> None:
    one = row(0)
    one["steps"][0] |= {"start_byte": 5, "end_byte": 10**9}
    found, _, reasons = made([one], level="function")
    assert [made_.function for made_ in found] == ["Box.two"]
    assert reasons == {"empty": 1}


@pytest.mark.parametrize("text", ["def one(:\n", "x = 1\n", "(" * 5000], ids=["broken", "none", "deep"])
def test_a_candidate_that_cannot_be_taken_apart_has_no_prompt_of_its_own(text: str) -> None:
    one = row(0, text, labels=(0, 0))
    for step in one["steps"]:
        step |= {"start_byte": 0, "end_byte": 3}
    found, _, reasons = made([one], level="function", labels="own")
    assert found == []
    assert reasons == {"not_blanked": 2}


def test_an_unknown_language_is_a_reason() -> None:
    found, kept, reasons = examples(
        [row(0)], {**PROGRAM, "language": "Fortran"}, PROBLEM, Export("kto", "function", "reference"), 0
    )
    assert (found, kept, reasons) == ([], 0, {"not_blanked": 2})


def test_a_missing_program_is_a_reason() -> None:
    found, kept, reasons = examples([row(0)], None, None, Export("kto", "function", "reference"), 0)
    assert (found, kept, reasons) == ([], 0, {"no_program": 2})


def test_a_pair_has_a_right_and_a_wrong_text_of_one_prompt() -> None:
    rows = [row(0), row(1, code(returning(7)), 0), row(2, code(returning(8)), 0, prompt="Other.")]
    found, kept, reasons = made(rows, "dpo")
    assert [(one.chosen_id, one.rejected_id, one.prompt) for one in found] == [("c0", "c1", "Do.")]
    assert (kept, reasons) == (2, {"no_counterpart": 1})


def test_pairs_of_one_generator_come_first() -> None:
    rows = [row(0, model="a"), row(1, code(returning("+1")), model="b")]
    rows += [row(2 + n, code(returning(n + 7)), 0, model="b") for n in range(3)]
    found, _, _ = made(rows, "dpo", max_pairs=3)
    assert {(one.chosen_generator, one.rejected_generator) for one in found} == {("b", "b")}
    more, _, _ = made(rows, "dpo", max_pairs=6)
    assert Counter(one.chosen_generator for one in more) == {"b": 3, "a": 3}


def test_candidates_take_turns() -> None:
    rows = [row(n, code(returning(f"1 # {n}"))) for n in range(4)]
    rows += [row(10 + n, code(returning(n + 7)), 0) for n in range(6)]
    found, kept, reasons = made(rows, "dpo", max_pairs=12)
    assert set(Counter(one.chosen_id for one in found).values()) == {3}
    assert set(Counter(one.rejected_id for one in found).values()) == {2}
    assert (kept, reasons) == (10, {})


def test_what_is_in_no_drawn_pair_is_counted() -> None:
    rows = [row(0)] + [row(1 + n, code(returning(n + 7)), 0) for n in range(9)]
    found, kept, reasons = made(rows, "dpo", max_pairs=4)
    assert len(found) == 4
    assert (kept, reasons) == (5, {"not_drawn": 5})


def test_the_references_own_text_is_a_right_answer() -> None:
    rows = [row(n, code(returning(n + 7)), labels=(0, None)) for n in range(2)]
    found, kept, reasons = made(rows, "dpo", "function")
    assert [(one.chosen, one.chosen_id, one.chosen_generator) for one in found] == [
        (ONE, None, "reference")
    ] * 2
    assert (kept, reasons) == (2, {"no_label": 2})


def test_the_references_text_is_not_right_where_it_failed_or_in_other_company() -> None:
    rows = [row(0, labels=(0, None))]
    assert made(rows, "dpo", "function")[0] == []
    wrong = [row(0, code(returning(7)), labels=(0, None))]
    assert made(wrong, "dpo", "function", labels="own")[0] == []


def test_candidates_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_ROWS", 2)
    rows = [row(n, code(returning(n))) for n in range(5)]
    assert made(rows)[2] == {"too_many": 3}
    assert made(rows, level="function")[2]["too_many"] == 6


def test_the_draw_depends_on_the_seed_alone() -> None:
    rows = [row(n, code(returning(n)), n % 2) for n in range(40)]
    first, again, other = (made(rows, "dpo", max_pairs=5, seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from([0, 1, None]), st.sampled_from("ab"), st.booleans()),
        max_size=24,
    ),
    st.integers(1, 9),
    st.sampled_from(["program", "function"]),
)
def test_nothing_disappears_and_no_pair_comes_twice(
    drawn: list[tuple[int, int | None, str, bool]], most: int, level: str
) -> None:
    rows = [
        row(n, code(returning(text)), label, (label, 1), model, trust="inproc" if forged else "split")
        for n, (text, label, model, forged) in enumerate(drawn)
    ]
    found, _, _ = made(rows, "dpo", level, max_pairs=most)
    assert len({one.id for one in found}) == len(found)
    labels = {(one["id"], step["name"]): step["label"] for one in rows for step in one["steps"]}
    outcomes = {one["id"]: one["outcome"] for one in rows}
    for one in found:
        assert one.chosen != one.rejected
        if level == "program":
            assert (outcomes[one.chosen_id], outcomes[one.rejected_id]) == (1, 0)
        else:
            assert labels[one.rejected_id, one.function] == 0
            assert one.chosen_id is None or labels[one.chosen_id, one.function] == 1
    per_prompt = Counter((one.prompt, one.function) for one in found)
    assert all(many <= most for many in per_prompt.values())
    singles, _, _ = made(rows, "kto", level)
    assert len({one.id for one in singles}) == len(singles)
