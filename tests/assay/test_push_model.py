"""Publishing a trained model to a Hub of our own on the loopback, and loading it from there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from cli_runs import command
from training_rows import pairs_shard

from schemas import hub_models
from schemas.errors import AssayError
from schemas.hub import PublishResult
from schemas.hub_models import contents, publish
from schemas.rundir import RunDir

sys.path.append(str(Path(__file__).parents[1] / "schemas"))
from loopback_hub import TOKEN, File, LoopbackHub, Repo

NAME = "me/judge"
SETTINGS = {"vocab_size": 512, "max_length": 192, "batch_size": 4, "threads": 1, "max_steps": 2}

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
    huggingface_hub.close_session()
    yield
    huggingface_hub.close_session()


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as found:
        yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a trained and evaluated reward model, and one that began from it."""
    from trainers.config import TrainConfig
    from trainers.evaluate import evaluate
    from trainers.loop import train

    root = tmp_path_factory.mktemp("secret-client")
    shard = root / "a.parquet"
    pairs_shard(shard, 16)
    run = RunDir.open(root / "run", create=True).root
    train(TrainConfig.from_mapping(SETTINGS), [shard], run / "models" / "rm")
    evaluate(run / "models" / "rm", [shard], run / "models" / "rm" / "eval")
    (run / "models" / "rm" / "training.png").write_bytes(b"png")
    began = {**SETTINGS, "model": str(run / "models" / "rm"), "objective": "dpo"}
    train(TrainConfig.from_mapping(began), [shard], run / "models" / "policy")
    return run


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "models" / "rm", tmp_path / "models" / "rm"))


def push(folder: Path, hub: LoopbackHub, **changed: Any) -> PublishResult:
    options: dict[str, Any] = {"private": False, "tag": None, "token": TOKEN, "endpoint": hub.url}
    return publish(folder, NAME, **{**options, **changed})


def refused(folder: Path, hub: LoopbackHub, **changed: Any) -> str:
    with pytest.raises(AssayError) as caught:
        push(folder, hub, **changed)
    told = str(caught.value)
    assert "\n" not in told
    assert TOKEN not in told
    return told


def surroundings(hub: LoopbackHub, tmp_path: Path) -> dict[str, str]:
    """Variables of a process that has the loopback as its Hub."""
    return {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
    }


def cli(hub: LoopbackHub, tmp_path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("push", *words),
        env=surroundings(hub, tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def change_weights(folder: Path) -> None:
    """Another model of the same shape."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (folder / "eval" / "results.json").unlink(missing_ok=True)


def halve(folder: Path) -> None:
    """The same model in two files of weights and an index."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    parts = {
        "model-00001-of-00002.safetensors": names[: len(names) // 2],
        "model-00002-of-00002.safetensors": names[len(names) // 2 :],
    }
    for path, some in parts.items():
        save_file({name: weights[name] for name in some}, folder / path)
    where = {name: path for path, some in parts.items() for name in some}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    (folder / "model.safetensors").unlink()


def test_a_models_files_arrive_byte_for_byte_and_rows_stay_at_home(model: Path, hub: LoopbackHub) -> None:
    result = push(model, hub)
    files = hub.models[NAME].head.files
    assert set(files) - {".gitattributes"} == {
        *("README.md", "run.json", "train.toml", "train.jsonl", "training.png", "eval/results.json"),
        *("model.safetensors", "config.json"),
        *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    }
    assert set(hub_models.left_out(model)) == {"drops.jsonl", "eval/drops.jsonl", "eval/scores.parquet"}
    for path in files.keys() - {".gitattributes"}:
        assert files[path].data == (model / path).read_bytes(), path
    assert result.commit == hub.models[NAME].head.sha
    assert result.url == f"{hub.url}/{NAME}"
    assert result.model["objective"] == "bt"
    assert hub.models[NAME].head.title.endswith("parameters, trained by bt")
    assert [path.name for path in model.parent.iterdir()] == ["rm"]


def test_nothing_published_names_a_path_of_the_machine(made: Path, hub: LoopbackHub) -> None:
    from trainers.config import TrainConfig

    folder = made / "models" / "policy"
    push(folder, hub)
    files = hub.models[NAME].head.files
    for path, file in files.items():
        assert file.data is not None
        assert b"secret-client" not in file.data, path
    run, settings = files["run.json"].data or b"", files["train.toml"].data or b""
    config = json.loads(run)["config"]
    assert config["model"] == "rm"
    assert TrainConfig.from_mapping(config) == TrainConfig.from_mapping(tomllib.loads(settings.decode()))
    here = json.loads((folder / "run.json").read_text())
    assert {**here, "config": {**here["config"], "model": "rm"}} == json.loads(run)


@pytest.mark.parametrize(
    ("base", "shown"),
    [
        ("tiny", "tiny"),
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("/data/secret/base", "base"),
        ("~/secret/base/", "base"),
        ("../secret/base", "base"),
        ("secret/client/base", "base"),
        ("secret/there", "there"),
        ("C:\\secret\\base", "base"),
    ],
)
def test_a_base_model_in_a_folder_is_named_by_its_last_part(
    base: str, shown: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    run = json.loads((model / "run.json").read_text())
    run["config"]["model"] = base
    (model / "run.json").write_text(json.dumps(run))
    settings = (model / "train.toml").read_text()
    (model / "train.toml").write_text(settings.replace('"tiny"', json.dumps(base)))
    texts = contents(model).texts
    assert json.loads(texts["run.json"])["config"]["model"] == shown
    assert tomllib.loads(texts["train.toml"])["model"] == shown
    assert "secret" not in "".join(texts.values())


def test_sources_of_one_name_in_two_folders_stay_two(model: Path) -> None:
    run = json.loads((model / "run.json").read_text())
    run["counts"]["sources"] = {"/home/a/set.jsonl": 3, "/home/b/set.jsonl": 4}
    (model / "run.json").write_text(json.dumps(run))
    counts = json.loads(contents(model).texts["run.json"])["counts"]
    assert counts["sources"] == {"set.jsonl": 3, "set.jsonl (2)": 4}


def test_tokens_that_look_like_paths_stay(model: Path) -> None:
    for path, change in (("run.json", {"yes_token": "/yes"}), ("tokenizer_config.json", {"eos_token": "/s"})):
        found = json.loads((model / path).read_text())
        (found["config"] if path == "run.json" else found).update(change)
        (model / path).write_text(json.dumps(found))
    texts = contents(model).texts
    assert json.loads(texts["run.json"])["config"]["yes_token"] == "/yes"
    assert json.loads(texts["tokenizer_config.json"])["eos_token"] == "/s"


def test_a_configuration_that_names_a_file_names_its_last_part(model: Path) -> None:
    for path in ("config.json", "tokenizer_config.json"):
        found = json.loads((model / path).read_text())
        (model / path).write_text(json.dumps({**found, "_name_or_path": "/home/somebody/base"}))
    texts = contents(model).texts
    assert json.loads(texts["config.json"])["_name_or_path"] == "base"
    assert "somebody" not in "".join(texts.values())


def test_publishing_again_sends_nothing(model: Path, hub: LoopbackHub) -> None:
    first = push(model, hub, tag="v1")
    hub.requests.clear()
    second = push(model, hub, tag="v1")
    assert (second.changed, second.commit) == (False, first.commit)
    assert second.unchanged == len(first.uploaded)
    assert hub.written() == [("POST", "/api/repos/create")]


def test_changed_weights_are_sent_alone_in_one_commit(model: Path, hub: LoopbackHub) -> None:
    push(model, hub)
    change_weights(model)
    result = push(model, hub)
    assert (result.uploaded, result.deleted) == (("model.safetensors",), ("eval/results.json",))
    assert len(hub.models[NAME].commits) == 3


def test_weights_in_several_files_take_the_place_of_one_and_back(model: Path, hub: LoopbackHub) -> None:
    push(model, hub)
    whole = (model / "model.safetensors").read_bytes()
    halve(model)
    assert push(model, hub).deleted == ("model.safetensors",)
    for path in [*model.glob("model-*"), *model.glob("*.index.json")]:
        path.unlink()
    (model / "model.safetensors").write_bytes(whole)
    assert len(push(model, hub).deleted) == 3
    assert [path for path in hub.models[NAME].head.files if path.startswith("model")] == ["model.safetensors"]


def test_files_of_others_beside_a_published_model_stay(model: Path, hub: LoopbackHub) -> None:
    push(model, hub)
    repo = hub.models[NAME]
    theirs = {"LICENSE": File.of(b"MIT", False), "onnx/model.onnx": File.of(b"x", False)}
    repo.commit("theirs", {**repo.head.files, **theirs})
    assert not push(model, hub).changed
    change_weights(model)
    push(model, hub)
    assert theirs.items() <= repo.head.files.items()


def test_a_licence_in_the_folder_is_published(model: Path, hub: LoopbackHub) -> None:
    (model / "LICENSE").write_text("MIT")
    push(model, hub)
    assert hub.models[NAME].head.files["LICENSE"].data == b"MIT"


@pytest.mark.parametrize("theirs", ["model.safetensors", "config.json", "run.json", "pytorch_model.bin"])
def test_a_model_that_assay_did_not_push_is_refused_untouched(
    theirs: str, model: Path, hub: LoopbackHub
) -> None:
    repo = hub.models[NAME] = Repo()
    repo.commit("theirs", {theirs: File.of(b"{}", False), "README.md": File.of(b"# theirs", False)})
    assert f"did not push (1, first '{theirs}')" in refused(model, hub)
    assert len(repo.commits) == 1


def test_a_dataset_of_the_same_name_is_another_repository(model: Path, hub: LoopbackHub) -> None:
    hub.repos[NAME] = Repo()
    hub.repos[NAME].commit("theirs", {"data.csv": File.of(b"a", False)})
    assert push(model, hub).changed
    assert len(hub.repos[NAME].commits) == 1


def test_a_taken_tag_is_refused_before_anything_is_sent(model: Path, hub: LoopbackHub) -> None:
    first = push(model, hub, tag="v1")
    assert hub.models[NAME].tags == {"v1": first.commit}
    change_weights(model)
    assert "tag v1 stands at another commit already" in refused(model, hub, tag="v1")
    assert len(hub.models[NAME].commits) == 2


def test_private_models_do_not_go_to_a_public_repository(model: Path, hub: LoopbackHub) -> None:
    assert push(model, hub, private=True).private
    hub.models[NAME].private = False
    assert "public" in refused(model, hub, private=True)


def test_other_bytes_on_the_hub_are_an_error_and_get_no_tag(model: Path, hub: LoopbackHub) -> None:
    hub.corrupt = lambda data: data[:-1] + b"?"
    assert "the Hub holds other bytes than the folder" in refused(model, hub, tag="v1")
    assert hub.models[NAME].tags == {}


@pytest.mark.parametrize(
    ("method", "pattern", "status", "words"),
    [
        ("POST", "repos/create", 403, "may not write to me/judge"),
        ("GET", f"models/{NAME}$", 404, "no such model or owner"),
        ("POST", "repos/create", 401, "hides the model"),
        ("POST", "commit/main", 412, "somebody else committed"),
        ("PUT", "lfs", 403, "may not write"),
    ],
)
def test_refusals_are_one_line_and_the_next_push_completes(
    model: Path, hub: LoopbackHub, method: str, pattern: str, status: int, words: str
) -> None:
    hub.fail(method, pattern, status, f"no\nway for {TOKEN}")
    assert words in refused(model, hub)
    hub.failures.clear()
    assert push(model, hub).changed
    assert [path.name for path in model.parent.iterdir()] == ["rm"]


@pytest.mark.parametrize("token", ["hf_wrong", "hf wrong"])
def test_a_wrong_token_is_told_without_it(model: Path, hub: LoopbackHub, token: str) -> None:
    assert token not in refused(model, hub, token=token)


@pytest.mark.parametrize("path", ["README.md", "run.json", "train.toml", "config.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_refused(model: Path, hub: LoopbackHub, path: str) -> None:
    (model / path).unlink()
    assert path in refused(model, hub)
    assert hub.requests == []


@pytest.mark.parametrize(
    "path", ["run.json", "train.toml", "config.json", "train.jsonl", "eval/results.json"]
)
@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_named(model: Path, hub: LoopbackHub, path: str, data: bytes) -> None:
    (model / path).write_bytes(data)
    assert path in refused(model, hub)


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_weights_that_are_cut_short_are_refused(model: Path, hub: LoopbackHub, size: int) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert "model.safetensors: is damaged" in refused(model, hub)


def test_weights_that_the_index_does_not_find_are_refused(model: Path, hub: LoopbackHub) -> None:
    halve(model)
    (model / "model-00002-of-00002.safetensors").unlink()
    assert "weights are not where it says, such as" in refused(model, hub)
    (model / "model.safetensors.index.json").unlink()
    shutil.copy(model / "model-00001-of-00002.safetensors", model / "model-00002-of-00002.safetensors")
    assert "no model.safetensors.index.json" in refused(model, hub)


def test_an_evaluation_of_other_weights_is_refused(model: Path, hub: LoopbackHub) -> None:
    results = (model / "eval" / "results.json").read_text()
    change_weights(model)
    (model / "eval" / "results.json").write_text(results)
    assert "results.json: is of other weights; run `assay eval` again" in refused(model, hub)


def test_a_card_that_names_the_folder_is_refused(model: Path, hub: LoopbackHub) -> None:
    with (model / "README.md").open("a") as card:
        card.write(f"Load it from {model.resolve()}.\n")
    assert "README.md: names a path of this machine" in refused(model, hub)
    assert hub.requests == []


def test_a_folder_that_changes_while_it_is_read_is_refused(
    model: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def trained_meanwhile(source: Path, place: Path) -> None:
        change_weights(model)
        link(source, place)

    monkeypatch.setattr(os, "link", trained_meanwhile)
    assert "was written to while it was read" in refused(model, hub)
    assert hub.requests == []


def test_a_snapshot_made_of_links_goes_up_as_files(model: Path, hub: LoopbackHub) -> None:
    blobs = model.with_name("blobs")
    shutil.copytree(model, blobs)
    for path in [path for path in model.rglob("*") if path.is_file()]:
        path.unlink()
        path.symlink_to(os.path.relpath(blobs / path.relative_to(model), path.parent))
    push(model, hub)
    sent = hub.models[NAME].head.files["model.safetensors"].data
    assert sent == (blobs / "model.safetensors").read_bytes()


def test_a_killed_push_leaves_no_half_model_and_the_next_completes_it(
    model: Path, hub: LoopbackHub, tmp_path: Path
) -> None:
    first = push(model, hub)
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    change_weights(model)
    arrived, over = threading.Event(), threading.Event()

    def hold(method: str, path: str) -> None:
        if method == "PUT":
            arrived.set()
            over.wait(60)

    hub.seen = hold
    running = subprocess.Popen(
        command("push", NAME, "--model", model),
        env=surroundings(hub, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert arrived.wait(60)
        assert "another push of it is under way" in refused(model, hub)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
        over.set()
    assert hub.models[NAME].head.sha == first.commit
    hub.seen = lambda method, path: None
    assert push(model, hub).uploaded == ("model.safetensors",)
    assert [path.name for path in model.parent.iterdir()] == ["rm"]
    assert before.keys() > {path for path in model.rglob("*") if path.is_file()}


def test_the_hubs_model_gives_the_scores_of_the_folder(made: Path, hub: LoopbackHub, tmp_path: Path) -> None:
    done = cli(hub, tmp_path, NAME, "--run-dir", made, "--model", "rm", "--tag", "v1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["model"] == {
        "objective": "bt",
        "base": "tiny",
        "parameters": json.loads((made / "models/rm/run.json").read_text())["counts"]["parameters"],
    }
    assert told["commit"] == hub.models[NAME].tags["v1"]
    text = (
        "import json, sys; from transformers import AutoModelForSequenceClassification as M; "
        "from transformers import AutoTokenizer as T\n"
        "told = []\n"
        "for name, more in ((sys.argv[1], {}), (sys.argv[2], {'revision': 'v1'})):\n"
        "    model, tokenizer = M.from_pretrained(name, **more).eval(), T.from_pretrained(name, **more)\n"
        "    asked = [{'role': 'user', 'content': 'Add.'}, {'role': 'assistant', 'content': 'a + b'}]\n"
        "    inputs = tokenizer.apply_chat_template(asked, return_tensors='pt', return_dict=True)\n"
        "    told.append(model(**inputs).logits.item())\n"
        "from trainers.score import Scorer\n"
        "scores = [Scorer(name).score(['Add.'], ['a + b'])[0] for name in sys.argv[1:]]\n"
        "print(json.dumps([told, scores]))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", text, made / "models" / "rm", NAME],
        env=surroundings(hub, tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    (here, there), (scored, pulled) = json.loads(loaded.stdout.splitlines()[-1])
    assert here == there
    assert scored == pulled


def test_a_dry_run_talks_to_nobody_and_prints_the_card(made: Path, hub: LoopbackHub, tmp_path: Path) -> None:
    done = cli(hub, tmp_path, NAME, "--run-dir", made, "--model", "policy", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert hub.requests == []
    assert done.stdout == (made / "models" / "policy" / "README.md").read_text()
    assert "  model.safetensors\n" in done.stderr
    assert "stays here  drops.jsonl\n" in done.stderr
    assert "dpo model of " in done.stderr
    assert done.stderr.endswith("nothing was sent\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "verifier"), "no such model folder; run `assay train` first"),
        (("--model", "judge"), "judge: no such model folder; give a folder, or one of rm, policy, verifier"),
        (("--model", "."), "has no run.json of a training run"),
    ],
)
def test_what_is_no_model_is_told_in_one_line(
    words: tuple[str, ...], said: str, made: Path, hub: LoopbackHub, tmp_path: Path
) -> None:
    done = cli(hub, tmp_path, NAME, "--run-dir", made, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
    assert hub.requests == []
