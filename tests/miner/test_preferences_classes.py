"""Columns that hold numbers of classes, in tables that `datasets` wrote and in its datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preference_rows import asked, dropped, helpsteer, kept, run, skywork, themis
from problem_rows import write

from miner.config import PreferencesConfig
from miner.importers.preferences import plan_preferences
from schemas.errors import AssayError

LANGUAGES = ["JavaScript", "Python", "Ruby", "C++", "C", "Go", "Java", "C#", "NL"]
ASPECTS = [
    "Readability and Maintainability",
    "Runtime Efficiency",
    "Security Hardness",
    "Functional Correctness",
    "Memory Efficiency",
    "Helpfulness",
    "Harmlessness",
]


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))


def published(path: Path, *rows: dict[str, Any]) -> Path:
    """Rows as Themis publishes them: written by `datasets`, texts large, two columns of classes."""
    import datasets

    features = datasets.Features(
        {
            **{name: datasets.Value("large_string") for name in ("system", "input", "chosen", "rejected")},
            "language": datasets.ClassLabel(names=LANGUAGES),
            "aspect": datasets.ClassLabel(names=ASPECTS),
            "source": datasets.Value("string"),
            "idx": datasets.Value("string"),
        }
    )
    datasets.Dataset.from_list(list(rows), features=features).to_parquet(str(path))
    return path


def test_numbers_of_classes_become_their_names(tmp_path: Path) -> None:
    rows = [themis(at, language=language, aspect=ASPECTS[at % 7]) for at, language in enumerate(LANGUAGES)]
    path = published(tmp_path / "train-00000-of-00001.parquet", *rows)
    assert pq.read_table(path).column("language").to_pylist() == list(range(9))
    outcomes = run(path, rows_per_part=4)
    assert [one.language for one in kept(outcomes)] == LANGUAGES
    assert [one.aspect for one in kept(outcomes)] == [ASPECTS[at % 7] for at in range(9)]


def test_class_that_is_missing_is_as_one_that_is_not_told(tmp_path: Path) -> None:
    path = published(tmp_path / "set.parquet", themis(language=None, aspect=None))
    (found,) = kept(run(path, aspect="Harmlessness"))
    assert (found.language, found.aspect) == ("NL", "Harmlessness")


def test_dataset_gives_names_of_classes_too(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    published(tmp_path / "set" / "train.parquet", themis(0, language="Go"), themis(1))
    outcomes = run(f"hub:{tmp_path / 'set'}::train")
    assert [(one.language, one.split) for one in kept(outcomes)] == [("Go", "train"), ("C++", "train")]
    assert {one.evidence.labeler for one in kept(outcomes)} == {"set::train"}


def test_split_of_a_dataset_is_that_of_its_pairs(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for split in ("train", "test"):
        write(tmp_path / "set" / f"{split}.parquet", *(skywork(at) for at in range(3)))
    outcomes = run(f"hub:{tmp_path / 'set'}::test", test_share=0.0)
    assert [one.split for one in kept(outcomes)] == ["test"] * 3


def test_limit_of_a_dataset_counts_pairs_and_not_rows(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    write(tmp_path / "set" / "train.parquet", *(helpsteer(at) for at in range(20)))
    outcomes = run(f"hub:{tmp_path / 'set'}", limit=3)
    assert [one.input for one in kept(outcomes)] == [asked(at) for at in range(3)]
    assert dropped(outcomes) == []


def numbers(path: Path, metadata: bytes | None) -> Path:
    """A table whose classes are numbers, with whatever metadata beside it."""
    table = pa.Table.from_pylist([themis(at, language=at, aspect=at) for at in range(3)])
    pq.write_table(table.replace_schema_metadata({b"huggingface": metadata} if metadata else None), path)
    return path


def features(language: Any) -> bytes:
    return json.dumps({"info": {"features": {"language": language, "aspect": {"names": ASPECTS}}}}).encode()


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b'{"info": null}',
        b'{"info": {"features": [1]}}',
        features(None),
        features({"names": "abc"}),
        features({"names": [1, 2, 3]}),
        features({"names": []}),
    ],
)
def test_numbers_without_names_are_never_guessed(tmp_path: Path, metadata: bytes | None) -> None:
    path = numbers(tmp_path / "set.parquet", metadata)
    with pytest.raises(
        AssayError, match=r"no name is known for 0; name them in order by preferences\.language"
    ):
        plan_preferences(PreferencesConfig(), [path])


def test_number_beyond_the_names_costs_its_row(tmp_path: Path) -> None:
    path = numbers(tmp_path / "set.parquet", features({"names": ["Python", "Go"]}))
    outcomes = run(path)
    assert [one.language for one in kept(outcomes)] == ["Python", "Go"]
    assert [one.reason for one in dropped(outcomes)] == ["unnamed_class"]


def test_settings_name_classes_where_the_file_does_not(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", themis(0, language=3, aspect=0), themis(1, language=8, aspect=6))
    outcomes = run(path, language_names=tuple(LANGUAGES), aspect_names=tuple(ASPECTS))
    assert [(one.language, one.aspect) for one in kept(outcomes)] == [
        ("C++", "Readability and Maintainability"),
        ("NL", "Harmlessness"),
    ]


def test_columns_of_problem_sets_keep_their_numbers(tmp_path: Path) -> None:
    from miner.importers.rows import source_rows

    path = numbers(tmp_path / "set.parquet", features({"names": LANGUAGES}))
    plain, named = (list(source_rows(path, 1 << 20, classes=classes)) for classes in ((), ("language",)))
    assert [json.loads(row)["language"] for _, _, row in plain] == [0, 1, 2]
    assert [json.loads(row)["language"] for _, _, row in named] == LANGUAGES[:3]
