"""Publishing against a Hub of our own on the loopback: what arrives, what is refused, what is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from loopback_hub import TOKEN, File, LoopbackHub, Repo
from push_runs import candidate, new_run, pair, plan, put

from schemas.errors import AssayError
from schemas.hub import Contents, PublishResult, check_names
from schemas.hub_datasets import DATASET, contents, publish
from schemas.rundir import RunDir, outputs_of

NAME = "me/pairs"

# The client's own way to send a large file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture(autouse=True)
def _plain_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    # The client's other transport, xet, has a test of its own in a fresh process: it starts threads.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    huggingface_hub.close_session()
    yield
    huggingface_hub.close_session()


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as found:
        yield found


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = new_run(tmp_path / "run")
    put(made, "pairs", "a", [pair(1), pair(2), pair(3, split="test")])
    put(made, "pairs", "b", [pair(4)])
    return made


def push(run: RunDir, hub: LoopbackHub, **changed: Any) -> PublishResult:
    options: dict[str, Any] = {"private": False, "tag": None, "token": TOKEN, "endpoint": hub.url}
    return publish(run, NAME, **{**options, **changed})


def fresh(hub: LoopbackHub, text: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that has the loopback as its Hub from the start."""
    settings = {
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **settings, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_publish_sends_shards_with_rows_the_card_and_the_recipe(run: RunDir, hub: LoopbackHub) -> None:
    result = push(run, hub)
    files = hub.repos[NAME].head.files
    assert set(files) - {".gitattributes"} == {
        "README.md",
        "recipe.toml",
        "pairs/train/part-a.parquet",
        "pairs/train/part-b.parquet",
        "pairs/test/part-a.parquet",
    }
    assert files["pairs/train/part-a.parquet"].data == (run.root / "pairs/train/part-a.parquet").read_bytes()
    assert result.commit == hub.repos[NAME].head.sha
    assert result.rows == {"pairs": {"train": 3, "test": 1}}
    assert len(result.uploaded) == 5
    assert hub.repos[NAME].head.title == "Publish 4 pairs (3 train, 1 test)"


def test_nothing_published_names_a_path_of_the_machine(run: RunDir, hub: LoopbackHub) -> None:
    push(run, hub)
    for path, file in hub.repos[NAME].head.files.items():
        assert file.data is not None
        assert b"somebody" not in file.data, path
        assert os.fsencode(run.root.parent) not in file.data, path


def test_publish_leaves_nothing_behind_in_the_run(run: RunDir, hub: LoopbackHub) -> None:
    before = sorted(run.root.rglob("*"))
    push(run, hub)
    assert sorted(run.root.rglob("*")) == before


def test_a_file_system_without_hard_links_will_do(
    run: RunDir, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    assert len(push(run, hub).uploaded) == 5
    assert (run.root / "pairs/train/part-a.parquet").is_file()


def test_publishing_again_sends_nothing(run: RunDir, hub: LoopbackHub) -> None:
    first = push(run, hub)
    hub.requests.clear()
    second = push(run, hub)
    assert (second.changed, second.commit, second.unchanged) == (False, first.commit, 5)
    assert hub.written() == [("POST", "/api/repos/create")]
    assert len(hub.repos[NAME].commits) == 2


def test_a_changed_shard_is_sent_alone(run: RunDir, hub: LoopbackHub) -> None:
    push(run, hub)
    put(run, "pairs", "b", [pair(5)])
    hub.requests.clear()
    result = push(run, hub)
    assert result.uploaded == ("pairs/train/part-b.parquet",)
    assert len([path for method, path in hub.requests if method == "PUT"]) == 1
    assert len(hub.repos[NAME].commits) == 3


def test_shards_that_the_run_no_longer_has_are_deleted(run: RunDir, hub: LoopbackHub) -> None:
    push(run, hub)
    run.retire("build", outputs_of("pairs"), keep=["a"])
    result = push(run, hub)
    assert result.deleted == ("pairs/train/part-b.parquet",)
    assert "pairs/train/part-b.parquet" not in hub.repos[NAME].head.files


def test_an_upload_of_many_files_gives_the_same_as_one_of_few(
    run: RunDir, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schemas.hub._COMMIT_FILES", 1)
    assert len(push(run, hub).uploaded) == 5
    repo = hub.repos[NAME]
    repo.commit("add a picture", {**repo.head.files, "pairs/train/deep/part-x.parquet": File.of(b"x", False)})
    run.retire("build", outputs_of("pairs"), keep=["a"])
    result = push(run, hub)
    assert result.deleted == ("pairs/train/part-b.parquet",)
    assert set(repo.head.files) - {".gitattributes"} == {
        *("README.md", "recipe.toml", "pairs/train/part-a.parquet", "pairs/test/part-a.parquet"),
        "pairs/train/deep/part-x.parquet",
    }


def test_files_of_others_beside_a_published_run_stay(run: RunDir, hub: LoopbackHub) -> None:
    push(run, hub)
    repo = hub.repos[NAME]
    repo.commit("add a picture", {**repo.head.files, "pairs/plot.png": File.of(b"png", False)})
    assert not push(run, hub).changed
    put(run, "pairs", "b", [pair(5)])
    push(run, hub)
    assert "pairs/plot.png" in repo.head.files


def test_a_dataset_that_assay_did_not_push_is_refused_untouched(run: RunDir, hub: LoopbackHub) -> None:
    repo = hub.repos[NAME] = Repo()
    repo.commit("theirs", {"data/train.csv": File.of(b"a,b\n", False)})
    with pytest.raises(AssayError, match=r"did not push \(1, first 'data/train.csv'\)"):
        push(run, hub)
    assert len(repo.commits) == 1


def test_a_repository_made_on_the_website_is_used(run: RunDir, hub: LoopbackHub) -> None:
    repo = hub.repos[NAME] = Repo()
    start = {".gitattributes": b"", "README.md": b"# mine", "LICENSE.md": b"MIT"}
    repo.commit("initial", {name: File.of(data, False) for name, data in start.items()})
    assert push(run, hub).changed


def test_a_tag_stands_at_the_verified_commit(run: RunDir, hub: LoopbackHub) -> None:
    result = push(run, hub, tag="v1")
    assert hub.repos[NAME].tags == {"v1": result.commit}
    order = [path for _, path in hub.requests]
    read_back = order.index(f"/api/datasets/{NAME}/tree/{result.commit}")
    assert read_back < order.index(f"/api/datasets/{NAME}/tag/{result.commit}")


def test_the_same_tag_at_the_same_commit_is_no_error(run: RunDir, hub: LoopbackHub) -> None:
    push(run, hub, tag="v1")
    assert not push(run, hub, tag="v1").changed


def test_a_taken_tag_is_refused_before_anything_is_sent(run: RunDir, hub: LoopbackHub) -> None:
    push(run, hub, tag="v1")
    put(run, "pairs", "b", [pair(5)])
    with pytest.raises(AssayError, match="tag v1 stands at another commit already"):
        push(run, hub, tag="v1")
    assert len(hub.repos[NAME].commits) == 2


def test_private_makes_a_private_dataset(run: RunDir, hub: LoopbackHub) -> None:
    assert push(run, hub, private=True).private
    assert hub.repos[NAME].private


def test_private_rows_do_not_go_to_a_public_dataset(run: RunDir, hub: LoopbackHub) -> None:
    hub.repos[NAME] = Repo()
    hub.repos[NAME].commit("initial", {})
    with pytest.raises(AssayError, match="public"):
        push(run, hub, private=True)
    assert len(hub.repos[NAME].commits) == 1


def test_other_bytes_on_the_hub_are_an_error_and_get_no_tag(run: RunDir, hub: LoopbackHub) -> None:
    hub.corrupt = lambda data: data[:-1] + b"?"
    with pytest.raises(AssayError, match=r"other bytes than the run \(3 files, first pairs/test/part-a"):
        push(run, hub, tag="v1")
    assert hub.repos[NAME].tags == {}


def test_a_push_repairs_what_the_hub_holds_wrong(run: RunDir, hub: LoopbackHub) -> None:
    hub.corrupt = lambda data: data[:-1] + b"?"
    with pytest.raises(AssayError):
        push(run, hub)
    hub.corrupt = None
    assert len(push(run, hub).uploaded) == 3


def test_load_dataset_gives_the_rows_of_the_run(run: RunDir, hub: LoopbackHub, tmp_path: Path) -> None:
    put(run, "steps", "s", [candidate(1), candidate(2, outcome=None, steps=[])])
    push(run, hub, tag="v1")
    text = (
        "import datasets, json; "
        f"found = {{t: {{s: list(d) for s, d in datasets.load_dataset({NAME!r}, t, revision='v1').items()}} "
        "for t in ('pairs', 'steps')}; "
        f"default = datasets.load_dataset({NAME!r}, split='test'); "
        "print(json.dumps([found, default.num_rows]))"
    )
    done = fresh(hub, text, tmp_path, HF_HUB_DISABLE_XET="1")
    assert done.returncode == 0, done.stderr
    found, default = json.loads(done.stdout)
    wanted = {
        table: {
            split: list(run.rows(table, split)) for split in ("train", "test") if list(run.rows(table, split))
        }
        for table in ("pairs", "steps")
    }
    assert found == wanted
    assert default == 1


def test_the_xet_transport_and_the_command_arrive_too(run: RunDir, tmp_path: Path) -> None:
    cas = tmp_path / "cas"
    cas.mkdir()
    text = (
        "from pathlib import Path; from assay.push import push_run; "
        f"push_run(Path({str(run.root)!r}), {NAME!r}, private=True, tag='v1', dry_run=False, as_json=True)"
    )
    with LoopbackHub(cas) as hub:
        done = fresh(hub, text, tmp_path, HF_HUB_DISABLE_XET="0")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["commit"] == hub.repos[NAME].tags["v1"]
        assert told["rows"] == {"pairs": {"train": 3, "test": 1}}
        assert any("xet-write-token" in path for _, path in hub.requests)
        sent = hub.repos[NAME].head.files["pairs/train/part-a.parquet"]
    part = next(part for part in run.parts("pairs", "train") if part.name == "a")
    assert sent.sha256 == part.sidecar.sha256
    assert TOKEN not in done.stdout + done.stderr


def test_a_dry_run_talks_to_nobody_and_prints_the_card(
    run: RunDir, hub: LoopbackHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.push import push_run
    from assay.session import reasons

    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    push_run(run.root, NAME, private=False, tag="v1", dry_run=True, as_json=False)
    out, err = capsys.readouterr()
    assert hub.requests == []
    assert out == contents(run, NAME, reasons()).card
    assert "pairs/train/part-a.parquet" in err
    assert "pairs 3 train + 1 test; nothing was sent" in err


def refused(run: RunDir, hub: LoopbackHub, **changed: Any) -> str:
    with pytest.raises(AssayError) as caught:
        push(run, hub, **changed)
    told = str(caught.value)
    assert "\n" not in told
    assert TOKEN not in told
    return told


@pytest.mark.parametrize("token", ["hf_wrong", "hf_wr\x01ong", "hf wrong"])
def test_a_wrong_token_is_told_without_it(run: RunDir, hub: LoopbackHub, token: str) -> None:
    told = refused(run, hub, token=token)
    assert "token" in told
    assert token not in told


def test_a_missing_token_says_how_to_log_in(run: RunDir, hub: LoopbackHub) -> None:
    assert "hf auth login" in refused(run, hub, token=None)
    assert hub.requests == []


@pytest.mark.parametrize(
    ("method", "pattern", "status", "words"),
    [
        ("POST", "repos/create", 403, "may not write to me/pairs"),
        ("POST", "preupload", 403, "may not write to me/pairs"),
        ("GET", f"datasets/{NAME}$", 404, "no such dataset"),
        ("POST", "commit/main", 412, "somebody else committed"),
        ("POST", "commit/main", 409, "conflict"),
        ("POST", "repos/create", 429, "too many requests"),
        ("POST", "repos/create", 500, "out of order"),
        ("POST", "repos/create", 418, "HTTP 418"),
        ("PUT", "lfs", 403, "may not write"),
    ],
)
def test_refusals_of_the_hub_are_one_line(
    run: RunDir, hub: LoopbackHub, method: str, pattern: str, status: int, words: str
) -> None:
    hub.fail(method, pattern, status, f"no\nway for {TOKEN}")
    assert words in refused(run, hub)


def test_a_hub_that_is_down_is_named(run: RunDir, hub: LoopbackHub) -> None:
    assert "http://127.0.0.1:9: cannot be reached" in refused(run, hub, endpoint="http://127.0.0.1:9")


def test_offline_mode_is_named(run: RunDir, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    huggingface_hub.close_session()
    assert "HF_HUB_OFFLINE" in refused(run, hub)


def test_an_empty_run_is_refused_before_the_hub_is_asked(tmp_path: Path, hub: LoopbackHub) -> None:
    run = new_run(tmp_path / "run")
    assert "nothing to publish" in refused(run, hub)
    put(run, "pairs", "a", [])
    assert "nothing to publish" in refused(run, hub)
    assert hub.requests == []


def test_a_shard_that_is_not_what_its_sidecar_says_is_refused(run: RunDir, hub: LoopbackHub) -> None:
    other = new_run(run.root.parent / "other")
    put(other, "pairs", "a", [pair(9)])
    place = Path("pairs/train/part-a.parquet")
    (run.root / place).write_bytes((other.root / place).read_bytes())
    assert re.search(r"part-a\.parquet: not the bytes .* run `assay build`", refused(run, hub))
    assert hub.requests == []


def test_a_stopped_stage_is_refused(run: RunDir, hub: LoopbackHub) -> None:
    plan(run, "build", {"a": "key", "b": "key", "c": "key"})
    assert "1 of 3 units left" in refused(run, hub)


def test_shards_of_old_settings_are_refused(run: RunDir, hub: LoopbackHub) -> None:
    plan(run, "build", {"a": "new", "b": "key"})
    assert "1 of old settings" in refused(run, hub)


def test_failed_units_do_not_keep_the_others_from_the_hub(run: RunDir, hub: LoopbackHub) -> None:
    plan(run, "build", {"a": "key", "b": "key", "c": "key"}, failed=["c"])
    assert push(run, hub).changed


def test_a_run_without_a_recipe_is_refused(run: RunDir, hub: LoopbackHub) -> None:
    (run.root / "recipe.toml").unlink()
    assert "recipe.toml: cannot be read" in refused(run, hub)


def test_contents_count_every_byte(run: RunDir, hub: LoopbackHub) -> None:
    found: Contents = contents(run, NAME)
    push(run, hub)
    files = hub.repos[NAME].head.files
    assert found.bytes == sum(file.size for path, file in files.items() if path != ".gitattributes")


@pytest.mark.parametrize("name", ["pairs", "a/b/c", "me/", "/x", "me/a--b", "me/a..b", "me/.x", "me/x.git"])
def test_bad_dataset_ids_are_refused(name: str) -> None:
    with pytest.raises(AssayError, match="OWNER/NAME"):
        check_names(name, DATASET)


@pytest.mark.parametrize("tag", ["", "-x", "a b", "a..b", "a/b", "v1.", "x.lock", "a\n"])
def test_bad_tags_are_refused(tag: str) -> None:
    with pytest.raises(AssayError, match="not a tag"):
        check_names(NAME, DATASET, tag)
