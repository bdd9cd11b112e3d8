"""Datasets on the Hub: a folder that `datasets` loads, and a Hub of our own on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from problem_rows import humaneval, kept, mbpp, run, write

from miner.config import ImportConfig
from miner.importers.hub import parse_hub
from miner.importers.problems import plan_problems
from schemas.errors import AssayError

sys.path.append(str(Path(__file__).parents[1] / "schemas"))
from loopback_hub import TOKEN, File, LoopbackHub, Repo


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("given", "dataset", "file", "config", "split", "revision"),
    [
        ("hub:a/b", "a/b", "", "", "", ""),
        ("hub:a/b:full:test@v1", "a/b", "", "full", "test", "v1"),
        ("hub:a/b::test", "a/b", "", "", "test", ""),
        ("hub:a/b@refs/convert/parquet", "a/b", "", "", "", "refs/convert/parquet"),
        ("hub:a/b/test6.jsonl", "a/b", "test6.jsonl", "", "", ""),
        ("hub:a/b/data/x.parquet@main", "a/b", "data/x.parquet", "", "", "main"),
        ("hub:./a:b:c", "./a", "", "b", "c", ""),
        ("hub:/a/b@c", "/a/b@c", "", "", "", ""),
    ],
)
def test_parts_of_a_source(
    given: str, dataset: str, file: str, config: str, split: str, revision: str
) -> None:
    found = parse_hub(given)
    assert (found.dataset, found.file, found.config, found.split, found.revision) == (
        dataset,
        file,
        config,
        split,
        revision,
    )


@pytest.mark.parametrize(
    "given",
    ["hub:", "hub:a", "hub:a/b/c", "hub:a/b:c:d:e", "hub:a/b@", "hub:a/../b", "hub:a/b/x.py", "hub:-a/b",
     "hub:a/b/x.jsonl:full", "hub:https://x.y/z", "hub:a/b@-x"],
)  # fmt: skip
def test_source_of_another_form_is_refused(given: str) -> None:
    with pytest.raises(AssayError, match="hub:"):
        plan_problems(ImportConfig(), [given])


def folder(tmp_path: Path, **splits: list[dict[str, Any]]) -> str:
    root = tmp_path / "set"
    root.mkdir(exist_ok=True)
    for split, rows in splits.items():
        write(root / f"{split}.parquet", *rows)
    return f"hub:{root}"


def test_folder_gives_the_rows_of_its_only_split(tmp_path: Path) -> None:
    found = kept(run(folder(tmp_path, train=[humaneval(n) for n in range(5)]), rows_per_part=2))
    assert [one.name for one in found] == [f"HumanEval/{n}" for n in range(5)]
    assert {one.source for one in found} == {"set"}


def test_split_is_named_where_there_are_several(tmp_path: Path) -> None:
    given = folder(tmp_path, train=[humaneval(0)], test=[humaneval(1)])
    (one,) = kept(run(f"{given}::test"))
    assert (one.name, one.source) == ("HumanEval/1", "set::test")
    with pytest.raises(AssayError, match="has the splits train, test; name one as in"):
        plan_problems(ImportConfig(), [given])
    with pytest.raises(AssayError, match="cannot be had"):
        plan_problems(ImportConfig(), [f"{given}::dev"])


def test_lines_of_a_folder_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    write(tmp_path / "set" / "train.jsonl", mbpp(1), mbpp(2))
    assert [one.name for one in kept(run(f"hub:{tmp_path / 'set'}"))] == ["MBPP/1", "MBPP/2"]


def test_only_as_many_rows_are_taken_as_are_wanted(tmp_path: Path) -> None:
    given = folder(tmp_path, train=[humaneval(n) for n in range(50)])
    assert len(kept(run(given, limit=3))) == 3
    (name,) = cached(tmp_path)
    assert len((tmp_path / "cache" / "datasets" / name).read_bytes().splitlines()) == 3


def test_rows_are_read_once_and_again_when_the_folder_changes(tmp_path: Path) -> None:
    given = folder(tmp_path, train=[humaneval(0)])
    first = plan_problems(ImportConfig(), [given])
    assert plan_problems(ImportConfig(), [given]) == first
    assert len(cached(tmp_path)) == 1
    folder(tmp_path, train=[humaneval(0), humaneval(1)])
    second = plan_problems(ImportConfig(), [given])
    assert second[0].inputs["revision"] != first[0].inputs["revision"]
    assert second[0].rows == 2


def test_too_many_bytes_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    given = folder(tmp_path, train=[humaneval(n) for n in range(5)])
    config = ImportConfig()
    object.__setattr__(config, "hub_max_gb", 0)  # a real limit would take a real dataset
    with pytest.raises(AssayError, match="hub_max_gb"):
        plan_problems(config, [given])
    assert cached(tmp_path) == []


@pytest.mark.parametrize("what", ["nothing", "no data", "a script"])
def test_folder_that_cannot_be_loaded_is_told_in_one_line(tmp_path: Path, what: str) -> None:
    root = tmp_path / "set"
    if what != "nothing":
        root.mkdir()
    if what == "a script":
        trap = f"import pathlib\npathlib.Path({str(tmp_path / 'trap')!r}).touch()\n"
        (root / "set.py").write_text(trap)
    with pytest.raises(AssayError) as caught:
        plan_problems(ImportConfig(), [f"hub:{root}"])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "trap").exists()
    assert cached(tmp_path) == []


def assay(hub: LoopbackHub, tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`assay problems` in a process that has the loopback as its Hub from the start."""
    env = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "ASSAY_CACHE": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-m", "assay", "problems", *args, "--run-dir", str(tmp_path / "run"), "--json"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def test_dataset_and_file_of_a_hub_are_imported_at_the_commit_that_it_names(tmp_path: Path) -> None:
    table = tmp_path / "test.parquet"
    pq.write_table(pa.Table.from_pylist([humaneval(n) for n in range(3)]), table)
    lines = write(tmp_path / "rows.jsonl", mbpp(1)).read_bytes()
    with LoopbackHub() as hub:
        hub.repos["org/set"] = Repo()
        files = {
            "data/test-00000-of-00001.parquet": File.of(table.read_bytes(), True),
            "rows.jsonl": File.of(lines, False),
            "README.md": File.of(
                b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n"
                b"    path: data/test-*\n---\n",
                False,
            ),
        }
        commit = hub.repos["org/set"].commit("rows", files)
        done = assay(hub, tmp_path, "hub:org/set", "hub:org/set/rows.jsonl")
        assert done.returncode == 0, done.stderr
        (stage,) = json.loads(done.stdout)["stages"]
        assert (stage["rows_in"], stage["kept"]) == (4, 4)
        sidecars = [json.loads(path.read_text()) for path in (tmp_path / "run" / "problems").glob("*.json")]
        assert {one["inputs"]["revision"] for one in sidecars} == {commit.sha}
        missing = assay(hub, tmp_path, "hub:org/none", "--clean")
        assert missing.returncode == 2
        assert missing.stderr.count("\n") == 1
        assert "hub:org/none: cannot be had" in missing.stderr
        assert TOKEN not in missing.stderr
