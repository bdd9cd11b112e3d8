"""`assay export`: folders that load as they are, with the columns and types that TRL documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_runs import assay
from export_runs import candidate, make_run, program, put

from assay.export import READ, Shape, export_run
from labelers.programs.exports import Export
from schemas.errors import AssayError, RunDirError, ShardError
from schemas.rundir import RunDir

LEVELS = [("program", "outcome"), ("function", "reference")]
# https://huggingface.co/docs/trl/dataset_formats: text, or lists of messages, and a boolean label.
TEXT = (pa.string(), pa.large_string())


def wrong(value: int) -> str:
    return f"def one():\n    return {value}"


def rows(of: int = 0, split: str = "train") -> list[dict[str, Any]]:
    right = candidate(10 * of, of=of, split=split)
    return [
        right,
        *(candidate(10 * of + n, 0, wrong(n + 6), (0, 1), of=of, split=split) for n in (1, 2)),
        candidate(10 * of + 3, None, wrong(9), (None, None), of=of, split=split),
    ]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "run", {"a": [*rows(0), *rows(1, "test")], "b": rows(2)})


def export(run: RunDir, out: Path, to: str = "kto", level: str = "program", **shape: Any) -> dict[str, Any]:
    labels = dict(LEVELS)[level]
    export_run(run.root, out, Export(to, level, labels), Shape(**shape), seed=None, as_json=True)
    facts: dict[str, Any] = json.loads((out / "export.json").read_text())
    return facts


def is_text(kind: pa.DataType) -> bool:
    return kind in TEXT


def is_messages(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind)
        and [field.name for field in kind.value_type] == ["role", "content"]
        and all(is_text(field.type) for field in kind.value_type)
    )


@pytest.mark.parametrize("to", ["kto", "dpo"])
@pytest.mark.parametrize("level", ["program", "function"])
@pytest.mark.parametrize("conversational", [False, True], ids=["text", "messages"])
def test_columns_and_types_are_those_that_trl_documents(
    run: RunDir, tmp_path: Path, to: str, level: str, conversational: bool
) -> None:
    export(run, tmp_path / "out", to, level, conversational=conversational)
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    assert files
    for file in files:
        schema = pq.read_schema(file)
        assert tuple(schema.names[:3]) == READ[to]
        for name in READ[to]:
            kind = schema.field(name).type
            if name == "label":
                assert kind == pa.bool_()
            else:
                assert is_messages(kind) if conversational else is_text(kind)
        # Names that trainers give a meaning of their own.
        taken = {"messages", "text", "images", "image", "tools", "chat_template_kwargs", "completions"}
        assert not taken & set(schema.names)
        assert not [name for name in schema.names if name.startswith("ref_") or name.endswith("_ids")]


def test_messages_are_the_users_prompt_and_the_assistants_answer(run: RunDir, tmp_path: Path) -> None:
    export(run, tmp_path / "text", "dpo")
    export(run, tmp_path / "said", "dpo", conversational=True)
    (text,), (said,) = (
        pq.read_table(tmp_path / name / "test").slice(0, 1).to_pylist() for name in ("text", "said")
    )
    assert said["prompt"] == [{"role": "user", "content": text["prompt"]}]
    assert said["chosen"] == [{"role": "assistant", "content": text["chosen"]}]
    assert said["rejected"] == [{"role": "assistant", "content": text["rejected"]}]
    assert said["id"] == text["id"]


@pytest.mark.parametrize("shape", ["parquet", "jsonl"])
def test_the_folder_loads_with_its_splits(
    run: RunDir, tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    export(run, tmp_path / "out", format=shape)
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {split: part.num_rows for split, part in loaded.items()} == {"train": 6, "test": 3}
    assert loaded["test"]["label"] == [True, False, False]


def test_plain_has_nothing_but_what_trainers_read(run: RunDir, tmp_path: Path) -> None:
    for to, names in READ.items():
        export(run, tmp_path / to, to, plain=True)
        for file in (tmp_path / to).rglob("*.parquet"):
            assert tuple(pq.read_schema(file).names) == names


def test_lines_hold_what_the_shards_hold(run: RunDir, tmp_path: Path) -> None:
    export(run, tmp_path / "shards", "kto", "function")
    export(run, tmp_path / "lines", "kto", "function", format="jsonl")
    for file in sorted((tmp_path / "shards").rglob("*.parquet")):
        lines = tmp_path / "lines" / file.relative_to(tmp_path / "shards").with_suffix(".jsonl")
        # ParquetFile reads the file alone; a folder named `train` is no partition of it.
        assert pq.ParquetFile(file).read().to_pylist() == [*map(json.loads, lines.read_text().splitlines())]


def test_every_row_is_accounted_for(run: RunDir, tmp_path: Path) -> None:
    for to in READ:
        for (level, _), rows_in in zip(LEVELS, (12, 24), strict=True):
            facts = export(run, tmp_path / f"{to}-{level}", to, level)
            assert facts["rows_in"] == rows_in == facts["kept"] + sum(facts["left_out"].values())
            assert sum(facts["examples"].values()) == sum(file["rows"] for file in facts["files"])


def test_the_same_run_gives_the_same_bytes(run: RunDir, tmp_path: Path) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    for to in READ:
        export(run, tmp_path / "one", to, "function")
        first = contents(tmp_path / "one")
        export(run, tmp_path / "one", to, "function")
        assert contents(tmp_path / "one") == first


def test_an_export_is_replaced_whole(run: RunDir, tmp_path: Path) -> None:
    export(run, tmp_path / "out")
    export(run, tmp_path / "out", "dpo", format="jsonl")
    assert not list((tmp_path / "out").rglob("*.parquet"))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []


def test_a_folder_of_somebody_else_is_left_alone(run: RunDir, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("x")
    with pytest.raises(AssayError, match="holds something other than an export"):
        export(run, out)
    assert (out / "thesis.txt").read_text() == "x"


def test_a_failed_export_leaves_the_one_before(run: RunDir, tmp_path: Path) -> None:
    export(run, tmp_path / "out")
    before = (tmp_path / "out" / "export.json").read_bytes()
    run.parts("steps", "train")[1].path.write_bytes(b"PAR1 no more")
    with pytest.raises(ShardError, match=r"part-b\.parquet"):
        export(run, tmp_path / "out")
    assert (tmp_path / "out" / "export.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")] == []


def test_an_export_may_stand_in_the_run_that_it_is_of(run: RunDir) -> None:
    export(run, run.root / "exports" / "kto")
    again = export(run, run.root / "exports" / "kto")
    assert again["examples"] == {"test": 3, "train": 6}


def test_a_run_without_steps_is_one_line_and_exit_status_2(tmp_path: Path) -> None:
    RunDir.open(tmp_path / "run", create=True)
    ran = assay("export", "--run-dir", tmp_path / "run", "--to", "kto", "--out", tmp_path / "out")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.strip().endswith("no steps yet, so nothing to export; run `assay verify` first")
    assert len(ran.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_run_without_an_example_says_why(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [candidate(0), candidate(1, None)]})
    with pytest.raises(AssayError, match=r"none of 2 rows gives an example .*1 no_counterpart, 1 no_label"):
        export(run, tmp_path / "out", "dpo")


def test_functions_without_their_programs_are_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": rows(0), "b": rows(1)})
    for part in run.parts("programs"):
        if part.name == "b":
            part.path.unlink()
            part.path.with_suffix(".json").unlink()
    facts = export(run, tmp_path / "out", "kto", "function")
    assert facts["left_out"]["no_program"] == 6
    assert facts["examples"] == {"train": 4}


def test_a_program_of_another_problem_costs_its_own_rows(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [*rows(0), *rows(1)]})
    put(run, "decompose", "programs", "a", [program(0), program(1, problem_id="elsewhere")])
    facts = export(run, tmp_path / "out", "kto", "function")
    assert facts["left_out"]["no_program"] == 6


def test_the_command_tells_what_it_did(run: RunDir, tmp_path: Path) -> None:
    flags = ("--run-dir", run.root, "--to", "kto", "--out", tmp_path / "out")
    ran = assay("export", *flags)
    assert (ran.code, ran.err) == (0, "")
    assert "6 train + 3 test examples, 3 desirable and 6 not" in ran.out
    assert "left out 3: 3 no_label" in ran.out
    told = json.loads(assay("export", *flags, "--json").out)
    assert told == {
        "out": str(tmp_path / "out"),
        **json.loads((tmp_path / "out" / "export.json").read_text()),
    }
    assert (told["desirable"], told["undesirable"], told["columns"][:3]) == (3, 6, list(READ["kto"]))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--to", "ppo"), "ppo"),
        (("--to", "kto", "--labels", "own"), "whole programs have one label"),
        (("--to", "dpo", "--max-pairs", "0"), "max-pairs"),
    ],
)
def test_bad_flags_are_exit_status_2(run: RunDir, tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    ran = assay("export", "--run-dir", run.root, "--out", tmp_path / "out", *flags)
    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_the_seed_of_the_draw_is_the_recipes(run: RunDir, tmp_path: Path) -> None:
    (run.root / "recipe.toml").write_text("seed = 11\n")
    assert export(run, tmp_path / "out", "dpo")["seed"] == 11


def test_a_run_of_another_process_is_not_read(run: RunDir, tmp_path: Path) -> None:
    with run.lock(), pytest.raises(RunDirError, match="another assay process"):
        export(run, tmp_path / "out")
