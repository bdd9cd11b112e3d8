"""Bringing a dataset back from a Hub of our own on the loopback: what arrives, resumes, and is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from cli_runs import command
from huggingface_hub.utils.tqdm import disable_progress_bars

from assay.diff import compare
from schemas import shards
from schemas.errors import AssayError
from schemas.hub_datasets import publish
from schemas.hub_pull import PullResult, bring, listing, read_facts
from schemas.rundir import RunDir

sys.path.append(str(Path(__file__).parents[1] / "schemas"))
from loopback_hub import TOKEN, File, LoopbackHub
from push_runs import candidate, new_run, pair, put, trajectory

NAME = "me/pairs"

# The client's own way to send a large file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture(autouse=True)
def _plain_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    disable_progress_bars()
    huggingface_hub.close_session()
    yield
    huggingface_hub.close_session()


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as found:
        yield found


@pytest.fixture
def run(tmp_path: Path, hub: LoopbackHub) -> RunDir:
    """A run that was pushed as v1."""
    made = new_run(tmp_path / "run")
    put(made, "pairs", "a", [pair(1), pair(2), pair(3, split="test")])
    put(made, "pairs", "b", [pair(4)])
    put(made, "steps", "a", [candidate(1)])
    put(made, "trajectories", "a", [trajectory(1)])
    publish(made, NAME, private=False, tag="v1", token=TOKEN, endpoint=hub.url)
    hub.requests.clear()
    return made


def pull(root: Path, hub: LoopbackHub, revision: str | None = None, token: str | None = TOKEN) -> PullResult:
    found = listing(NAME, revision, token=token, endpoint=hub.url)
    into = RunDir.open(root, create=True)
    with into.lock():
        return bring(into, found)


def refused(root: Path, hub: LoopbackHub, **asked: Any) -> str:
    with pytest.raises(AssayError) as caught:
        pull(root, hub, **asked)
    told = str(caught.value)
    assert "\n" not in told
    assert TOKEN not in told
    return told


def shards_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("part-*.parquet"))
        if "verdicts" not in path.parts and shards.read_sidecar(path).rows
    }


def downloads(hub: LoopbackHub) -> list[str]:
    return [path for method, path in hub.requests if method == "GET" and "/resolve/" in path]


def test_a_pulled_run_holds_the_published_bytes(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    result = pull(tmp_path / "back", hub, "v1")
    assert shards_of(tmp_path / "back") == shards_of(run.root)
    assert result.rows["pairs"] == {"train": 3, "test": 1}
    assert result.commit == hub.repos[NAME].head.sha
    back = RunDir.open(tmp_path / "back")
    for table in ("pairs", "steps", "trajectories"):
        assert list(back.rows(table)) == list(run.rows(table))
        for part in back.parts(table):
            assert shards.is_whole(part.path, part.sidecar)
            assert part.sidecar.stage == "pull"
    facts = read_facts(back)
    assert facts is not None
    assert facts["commit"] == result.commit
    assert not (back.root / ".pull").exists()


def test_a_pulled_run_can_be_compared_and_pushed_again(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    pull(tmp_path / "back", hub)
    (found,) = compare(run.root, tmp_path / "back", "pairs")["tables"]
    assert found["unread"] == found["same"] == 4
    before = dict(hub.repos[NAME].head.files)
    again = publish(
        RunDir.open(tmp_path / "back"), NAME, private=False, tag=None, token=TOKEN, endpoint=hub.url
    )
    # The card alone tells of another history.
    assert again.uploaded == ("README.md",)
    after = hub.repos[NAME].head.files
    assert {path: file.sha256 for path, file in after.items() if path != "README.md"} == {
        path: file.sha256 for path, file in before.items() if path != "README.md"
    }


def test_pulling_again_brings_nothing(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    pull(tmp_path / "back", hub)
    hub.requests.clear()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "back").rglob("part-*")}
    assert pull(tmp_path / "back", hub).downloaded == ()
    assert downloads(hub) == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "back").rglob("part-*")} == before


def test_the_run_that_was_pushed_keeps_its_own_files(run: RunDir, hub: LoopbackHub) -> None:
    (run.root / "run.lock").touch()
    before = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
    assert pull(run.root, hub).downloaded == ()
    after = {path: path.read_bytes() for path in run.root.rglob("*") if path.is_file()}
    assert after == before


def test_a_pull_that_stops_at_any_request_goes_on_from_there(
    run: RunDir, hub: LoopbackHub, tmp_path: Path
) -> None:
    pull(tmp_path / "whole", hub)
    wanted = downloads(hub)
    for number, path in enumerate(wanted):
        root = tmp_path / f"stopped-{number}"
        hub.fail("GET", path.replace(".", r"\."), 500)
        assert "HTTP 500" in refused(root, hub)
        hub.failures.clear()
        hub.requests.clear()
        pull(root, hub)
        assert downloads(hub) == wanted[number:]
        assert shards_of(root) == shards_of(run.root)


def test_a_crash_between_shard_and_sidecar_is_mended(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    pull(tmp_path / "back", hub)
    path = tmp_path / "back" / "pairs/train/part-a.parquet"
    shards.sidecar_path(path).unlink()
    hub.requests.clear()
    pull(tmp_path / "back", hub)
    assert downloads(hub) == []
    assert shards.read_sidecar(path).rows == 2


def _change(hub: LoopbackHub, path: str, make: Callable[[File], File]) -> None:
    head = hub.repos[NAME].head
    hub.repos[NAME].commit("changed", {**head.files, path: make(head.files[path])})


def test_bytes_that_are_not_the_listings_never_take_their_place(
    run: RunDir, hub: LoopbackHub, tmp_path: Path
) -> None:
    def rot(file: File) -> File:
        data = (file.data or b"")[:-1] + b"?"
        return File(data, file.size, file.sha256, file.lfs)

    _change(hub, "pairs/train/part-b.parquet", rot)
    assert "other bytes than the Hub's listing says" in refused(tmp_path / "back", hub)
    assert not (tmp_path / "back" / "pairs/train/part-b.parquet").exists()


@pytest.mark.parametrize("data", [b"PAR1", b"", b"not parquet at all"])
def test_a_shard_that_is_no_parquet_is_refused(
    run: RunDir, hub: LoopbackHub, tmp_path: Path, data: bytes
) -> None:
    _change(hub, "pairs/train/part-b.parquet", lambda _: File.of(data, True))
    assert "cannot be read as Parquet" in refused(tmp_path / "back", hub)


def test_rows_of_another_split_or_table_are_refused(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    files = hub.repos[NAME].head.files
    test, steps = files["pairs/test/part-a.parquet"], files["steps/train/part-a.parquet"]
    _change(hub, "pairs/train/part-b.parquet", lambda _: test)
    assert "rows of another split" in refused(tmp_path / "one", hub)
    _change(hub, "pairs/train/part-b.parquet", lambda _: steps)
    assert "not the columns of pairs of this version" in refused(tmp_path / "two", hub)


def test_a_run_with_other_rows_stays_as_it_is(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    other = new_run(tmp_path / "other")
    put(other, "pairs", "a", [pair(9)])
    before = {path: path.read_bytes() for path in other.root.rglob("*") if path.is_file()}
    assert "holds other rows than me/pairs" in refused(other.root, hub)
    after = {path: path.read_bytes() for path in other.root.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before


def test_a_newer_version_is_not_laid_over_an_older_one(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    pull(tmp_path / "back", hub, "v1")
    put(run, "pairs", "b", [pair(4), pair(5)])
    publish(run, NAME, private=False, tag="v2", token=TOKEN, endpoint=hub.url)
    assert "holds other rows" in refused(tmp_path / "back", hub, revision="v2")
    assert pull(tmp_path / "back", hub, "v1").downloaded == ()
    assert pull(tmp_path / "new", hub, "v2").rows["pairs"]["train"] == 4


def test_a_run_with_another_recipe_is_refused(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    new_run(tmp_path / "other", "seed = 99\n")
    assert "holds another recipe.toml" in refused(tmp_path / "other", hub)


def test_what_the_hub_refuses_is_told(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    assert "give another --revision" in refused(tmp_path / "a", hub, revision="v9")
    assert "does not accept the token" in refused(tmp_path / "a", hub, token="hf_other")
    assert "not a tag" in refused(tmp_path / "a", hub, revision="../x")
    hub.fail("GET", "/tree/", 403, f"no, {TOKEN} may not\nenter")
    assert "ask for access" in refused(tmp_path / "a", hub)
    assert not (tmp_path / "a").exists()


def test_a_dataset_of_somebody_else_is_refused(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    hub.repos[NAME].commit("theirs", {"data/train.parquet": File.of(b"x", True)})
    assert "not a dataset that assay pushed" in refused(tmp_path / "a", hub)


def test_a_name_that_leaves_its_folder_is_no_shard(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    files = hub.repos[NAME].head.files
    shard = files["pairs/train/part-b.parquet"]
    hub.repos[NAME].commit("hostile", {**files, "pairs/train/part-\\..\\x.parquet": shard})
    assert "not the name of a shard" in refused(tmp_path / "a", hub)


def test_a_recipe_that_names_servers_or_unknown_settings_is_pointed_out(tmp_path: Path) -> None:
    from assay.pull import _notes

    assert _notes(new_run(tmp_path / "plain", "seed = 7\n")) == []
    text = '[model]\nmodel = "openai/x"\nbase_url = "http://203.0.113.9/\\u001b[2J"\n'
    notes = _notes(new_run(tmp_path / "server", text))
    assert any("talk to: http://203.0.113.9/" in note for note in notes)
    assert "\x1b" not in "".join(notes)
    (note,) = _notes(new_run(tmp_path / "later", "[later]\nx = 1\n"))
    assert "want another --recipe" in note


def test_a_hub_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with LoopbackHub() as gone:
        pass
    assert "cannot be reached" in refused(tmp_path / "a", gone)


def test_the_command_pulls_and_status_and_report_read_it(
    run: RunDir, hub: LoopbackHub, tmp_path: Path
) -> None:
    home = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf")}
    settings = {**os.environ, **home, "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}

    def assay(*args: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command(*args), env=settings, capture_output=True, text=True, timeout=120)

    back = tmp_path / "back"
    done = assay("pull", NAME, "--run-dir", back, "--revision", "v1", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["rows"]["pairs"] == {"train": 3, "test": 1}
    assert TOKEN not in done.stdout + done.stderr
    told = assay("status", "--run-dir", back)
    assert told.returncode == 0, told.stderr
    assert f"pulled from {NAME} at {facts['commit'][:12]}" in told.stdout
    for table in ("trajectories", "steps"):
        shutil.rmtree(back / table)
    report = assay("report", "--run-dir", back)
    assert report.returncode == 0, report.stderr
    missing = assay("pull", "me/nothing", "--run-dir", tmp_path / "none")
    assert missing.returncode == 2
    assert missing.stderr.startswith("assay: me/nothing: the Hub has no such dataset")
    assert missing.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()
