"""Rows of preference sets in the layouts in which they are published, written for the tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from miner.config import PreferencesConfig
from miner.importers.preferences import import_preferences, plan_preferences
from miner.importers.preferences_formats import FORMATS
from miner.importers.preferences_making import PairReading
from schemas.declare import validate
from schemas.records import ImportedPair
from schemas.stage import Drop, Keep, Outcome

Row = dict[str, Any]

ASKED = "Write a function that adds two numbers."
GOOD = "def add(a, b):\n    return a + b\n"
BAD = "def add(a, b):\n    return a - b\n"


def asked(number: int) -> str:
    return f"{ASKED} ({number})"


def messages(*texts: str, system: str = "") -> list[dict[str, str]]:
    """A chat that begins with the user; a system message before it where one is given."""
    roles = ("user", "assistant")
    chat = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *chat] if system else chat


def pairs(number: int = 0, **change: Any) -> Row:
    evidence = {
        "edit_id": f"edit-{number}",
        "labeler": "rules 3",
        "method": "classifier",
        "confidence": 0.75,
        "single_intent": 0.9,
        "scores": [{"criterion": "FC", "score": 0.75}],
        "terms": ["fix"],
        "subject": "Fix the sum",
        "merged_by": "pr:7",
        "instruction_by": "instruction 2",
        "instruction_kind": "template",
        "instruction_style": None,
        "system_kind": "single",
        "level": "file",
        "names": ["add"],
        "measures": [{"name": "lint", "old": 2, "new": 0.0, "tool": "ruff 1"}],
        "bearings": [{"criterion": "FC", "verdict": "silent", "by": []}],
        "share": 0.875,
        "strength": None,
        "specificity": None,
        "votes": [
            {"judge": "m", "criterion": "FC", "order": "old_first", "new": 3, "old": 1, "tie": 0, "error": 0}
        ],
        "trade_offs": ["RM"],
        "made_by": None,
        "detail": None,
    }
    return {
        "system": "Judge the code.",
        "input": asked(number),
        "chosen": GOOD,
        "rejected": BAD,
        "language": "Python",
        "aspect": "Functional Correctness",
        "source": "commits",
        "idx": f"{number:032x}",
        "repo": "owner/name",
        "commit": "c" * 40,
        "path": "src/add.py",
        "license": "MIT OR Apache-2.0",
        "evidence": evidence,
        "split": "test",
        **change,
    }


def themis(number: int = 0, **change: Any) -> Row:
    return {
        "system": "",
        "input": asked(number),
        "chosen": GOOD,
        "rejected": BAD,
        "language": "C++",
        "aspect": "Readability and Maintainability",
        "source": "Commit-Preference",
        "idx": f"t-{number}",
        **change,
    }


def coderewardbench(number: int = 0, **change: Any) -> Row:
    return {
        "prompt": asked(number),
        "chosen": GOOD,
        "rejected": BAD,
        "language": "CSharp",
        "aspect": "Readability_Maintainability",
        "subset": "COMMITPREFS_READABILITY",
        "id": f"b-{number}",
        **change,
    }


def helpsteer3(number: int = 0, **change: Any) -> Row:
    return {
        "domain": "code",
        "language": "python",
        "context": messages("Hello", "Hello!", asked(number)),
        "response1": BAD,
        "response2": GOOD,
        "overall_preference": 2,
        "individual_preference": [{"score": 2, "reasoning": "r", "feedback1": "f", "feedback2": "f"}],
        **change,
    }


def helpsteer2_preference(number: int = 0, **change: Any) -> Row:
    return {
        "split": "train",
        "prompt": asked(number),
        "response_1": GOOD,
        "response_2": BAD,
        "preference_strength": -1,
        "preference_statement": "Response 1 is slightly better than Response 2.",
        "preference_elaboration": "It adds.",
        "three_most_similar_preferences": [{"statement": "s", "elaboration": "e", "strength": -1}],
        "all_preferences_unprocessed": [{"statement": "s", "elaboration": "e", "strength": -1}],
        **change,
    }


def helpsteer(number: int = 0, **change: Any) -> Row:
    """A response with its ratings; rows 2n and 2n + 1 answer the same prompt, the first one better."""
    return {
        "prompt": asked(number // 2),
        "response": BAD if number % 2 else GOOD,
        "helpfulness": 1 if number % 2 else 4,
        "correctness": 1 if number % 2 else 4,
        "coherence": 4,
        "complexity": 1,
        "verbosity": 2,
        **change,
    }


def completion(text: str, overall: float, *ratings: str, model: str = "alpaca-7b") -> Row:
    """A completion of UltraFeedback: ratings of helpfulness, honesty, instruction following, truthfulness."""
    aspects = ("helpfulness", "honesty", "instruction_following", "truthfulness")
    return {
        "annotations": {
            aspect: {"Rating": rating, "Rationale": "r"}
            for aspect, rating in zip(aspects, ratings, strict=False)
        },
        "critique": "c",
        "custom_system_prompt": "You are helpful.",
        "fine-grained_score": 0.0,
        "model": model,
        "overall_score": overall,
        "principle": "helpfulness",
        "response": text,
    }


def ultrafeedback(number: int = 0, **change: Any) -> Row:
    return {
        "source": "evol_instruct",
        "instruction": asked(number),
        "models": ["alpaca-7b", "gpt-4", "bard"],
        "completions": [
            completion("So so.", 10.0, "3", "3", "3", "N/A"),
            completion(GOOD, 8.0, "5", "5", "4", "5", model="gpt-4"),
            completion(BAD, 1.0, "1", "2", "1", "2", model="bard"),
        ],
        "correct_answers": [],
        "incorrect_answers": [],
        **change,
    }


def ultrafeedback_binarized(number: int = 0, **change: Any) -> Row:
    return {
        "prompt": asked(number),
        "prompt_id": f"{number:064x}",
        "chosen": messages(asked(number), GOOD),
        "rejected": messages(asked(number), BAD),
        "messages": messages(asked(number), GOOD),
        "score_chosen": 8.5,
        "score_rejected": 4.0,
        **change,
    }


def rewardbench2(number: int = 0, **change: Any) -> Row:
    return {
        "id": f"r-{number}",
        "prompt": asked(number),
        "chosen": [GOOD],
        "rejected": [BAD, "No.", "Never."],
        "num_correct": 1,
        "num_incorrect": 3,
        "total_completions": 4,
        "models": ["a", "b", "c", "d"],
        "subset": "Safety",
        "additional_metadata": {"category": None, "index": 1.0},
        **change,
    }


def rewardbench(number: int = 0, **change: Any) -> Row:
    return {
        "prompt": asked(number),
        "chosen": GOOD,
        "chosen_model": "human",
        "rejected": BAD,
        "rejected_model": "human",
        "subset": "hep-cpp",
        "id": number,
        **change,
    }


def tulu(number: int = 0, **change: Any) -> Row:
    return {
        "id": f"tulu-{number}",
        "prompt": asked(number),
        "chosen": messages(asked(number), GOOD),
        "rejected": messages(asked(number), BAD),
        "source": "ai2-adapt-dev/sft_v3.9",
        **change,
    }


def skywork(number: int = 0, **change: Any) -> Row:
    return {
        "chosen": messages(asked(number), GOOD),
        "rejected": messages(asked(number), BAD),
        "source": "magpie_ultra",
        **change,
    }


def transcript(*texts: str) -> str:
    return "".join(f"\n\n{('Human', 'Assistant')[at % 2]}: {text}" for at, text in enumerate(texts))


def hh(number: int = 0, **change: Any) -> Row:
    return {
        "chosen": transcript("Hello", "Hello!", asked(number), "Here it is."),
        "rejected": transcript("Hello", "Hello!", asked(number), "I will not."),
        **change,
    }


def plain(number: int = 0, **change: Any) -> Row:
    return {"prompt": asked(number), "chosen": GOOD, "rejected": BAD, **change}


LAYOUTS = {
    "pairs": pairs,
    "themis": themis,
    "coderewardbench": coderewardbench,
    "helpsteer-preference": helpsteer3,
    "helpsteer": helpsteer,
    "ultrafeedback": ultrafeedback,
    "ultrafeedback-binarized": ultrafeedback_binarized,
    "rewardbench2": rewardbench2,
    "rewardbench": rewardbench,
    "tulu": tulu,
    "skywork": skywork,
    "hh": hh,
    "plain": plain,
}


def read(
    form: str, row: Row, source: str = "x", seed: int = 0, hub_split: str = "", **settings: Any
) -> list[ImportedPair]:
    """Pairs of one row, each checked against the schema."""
    found = FORMATS[form].read(row, PairReading(source, PreferencesConfig(**settings), seed, hub_split))
    for one in found:
        validate(ImportedPair, one)
    return found


def run(*files: Path | str, seed: int = 0, limit: int | None = None, **settings: Any) -> list[Outcome]:
    """Plan and import, with the accounting checked."""
    config = PreferencesConfig(**settings)
    outcomes: list[Outcome] = []
    for unit in plan_preferences(config, files, limit):
        found = list(import_preferences(config, unit, seed))
        assert len(found) == unit.rows
        outcomes += found
    for one in kept(outcomes):
        validate(ImportedPair, one)
    return outcomes


def kept(outcomes: Iterable[Outcome]) -> list[ImportedPair]:
    """Pairs of the rows that were kept."""
    return [pair for one in outcomes if isinstance(one, Keep) for pair in one.records]


def dropped(outcomes: Iterable[Outcome]) -> list[Drop]:
    return [one for one in outcomes if isinstance(one, Drop)]
