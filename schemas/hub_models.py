"""Publishing a trained model on the Hugging Face Hub.

In: the folder that a training run wrote, and `owner/name` of the model. Out: a commit there that holds the
weights, configuration, tokenizer and card byte for byte, with the run's settings, curve and evaluation, and
nothing of an earlier model; see `schemas.hub`. Anyone can then load `owner/name` as they load the folder.

What a reader of the model does not need stays at home: ids of dropped rows (`drops.jsonl`), scores of single
rows, checkpoints, and files of others. Paths of the machine are cut to their last part in `run.json`,
`train.toml`, `train.jsonl` and `eval/results.json`, also a base model's that was read from a folder, and
where a configuration names a file. Such a path in any other text is an error: nobody can cut a card safely.

The model goes up whole or an `AssayError` of one line tells why not: a file is missing or shorter than it
says, weights that the index names are not there, the evaluation is of other weights, the folder changed
meanwhile, another push of it is under way, or what `schemas.hub` cannot do.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas import shards
from schemas.card import without_paths
from schemas.config import toml_value
from schemas.errors import AssayError
from schemas.hub import (
    CARD,
    Contents,
    Kind,
    PublishedFile,
    PublishResult,
    check_names,
    fits,
    send,
    staged,
    token_of,
)

RUN, SETTINGS, RESULTS = "run.json", "train.toml", "eval/results.json"
_INDEX = "model.safetensors.index.json"
_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
_CONFIGS = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
_TEXTS = (
    CARD,
    "verifier.json",
    "calibration.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)
_CUT = (RUN, RESULTS, SETTINGS, "train.jsonl")
_TOKENIZER = ("tokenizer.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "*.model")
_CHARTS = ("training.png", "eval/*.png")
_OWNED = (*_WEIGHTS, _INDEX, *_CONFIGS, *_TEXTS, *_CUT, *_TOKENIZER, *_CHARTS)
# Theirs who publish: sent when there, left alone on the Hub when not.
_TERMS = ("LICENSE*", "NOTICE*")
_NEEDED = (CARD, RUN, SETTINGS, "config.json", "tokenizer_config.json")

MODEL = Kind("model", "folder", _OWNED, (RUN, SETTINGS), several=False)

# Tokens may look like paths.
_AS_IS = frozenset({"pad_token", "yes_token", "no_token"})
_NAMES_FILE = re.compile(r"(^|_)(path|file|dir|folder)$")
_HEADER_BYTES = 100_000_000


def _files(folder: Path) -> dict[str, os.stat_result]:
    """Every file of a folder and of those in it, by path; a hidden one is nobody's."""
    found = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                found[path.relative_to(folder).as_posix()] = path.stat()
    return dict(sorted(found.items()))


def _state(folder: Path) -> dict[str, tuple[int, int, int]]:
    return {path: (at.st_ino, at.st_size, at.st_mtime_ns) for path, at in _files(folder).items()}


def left_out(folder: Path) -> list[str]:
    """Files of a model's folder that are not published."""
    return [path for path in _files(folder) if not fits(path, (*_OWNED, *_TERMS))]


@contextlib.contextmanager
def _reading(what: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AssayError(f"{error.filename or what}: cannot be read ({error.strerror}); push again") from None
    except (ValueError, RecursionError) as error:
        told = " ".join(str(error).split())[:200]
        raise AssayError(f"{what}: is damaged ({told}); run `assay train` again") from None


def _cut(value: Any, everything: bool, key: str = "") -> Any:
    """JSON without paths: in all texts and names, or only where a key says that a text is one."""
    if isinstance(value, dict):
        cut: dict[str, Any] = {}
        for name, one in value.items():
            shown = wanted = str(without_paths(name)) if everything else name
            number = 1
            while shown in cut:
                # Files of one name in two folders are still two.
                number += 1
                shown = f"{wanted} ({number})"
            cut[shown] = _cut(one, everything, name)
        return cut
    if isinstance(value, list):
        return [_cut(one, everything, key) for one in value]
    if isinstance(value, str) and key not in _AS_IS and (everything or _NAMES_FILE.search(key)):
        return without_paths(value)
    return value


def _base(model: str) -> str:
    """The model that training began from: a Hub id as it is, a folder by its last part."""
    cut = str(without_paths(model))
    # No Hub id has two slashes.
    if cut.count("/") > 1 or (cut == model and Path(model).exists()):
        return Path(cut).name
    return cut


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A training run's settings without paths."""
    cut: dict[str, Any] = _cut(dict(config), everything=True)
    if isinstance(model := config.get("model"), str):
        cut["model"] = _base(model)
    return cut


def _published_text(path: str, text: str) -> str:
    """What is published of a file that may hold paths of the machine; the same text where it holds none."""
    if path == SETTINGS:
        settings = tomllib.loads(text)
        if odd := [key for key, value in settings.items() if not isinstance(value, str | int | float | list)]:
            raise ValueError(f"{odd[0]} is no setting")
        cut = _settings(settings)
        return text if cut == settings else "".join(f"{key} = {toml_value(cut[key])}\n" for key in cut)
    if path.endswith(".jsonl"):
        lines = [json.loads(line) for line in text.splitlines()]
        shown = [_cut(line, everything=True) for line in lines]
        return text if shown == lines else "".join(json.dumps(line) + "\n" for line in shown)
    found = json.loads(text)
    made = _cut(found, everything=path in _CUT)
    if path == RUN:
        made["config"] = _settings(found["config"])
    if made == found:
        return text
    return json.dumps(made, indent=1 if path in _CUT else 2, ensure_ascii=path in _CUT) + "\n"


def _run(folder: Path) -> dict[str, Any]:
    """The content of `run.json`, as far as it is needed here."""
    try:
        run = json.loads((folder / RUN).read_text("utf-8"))
        facts = {
            "objective": run["objective"],
            "base": run["config"]["model"],
            "parameters": run["counts"]["parameters"],
        }
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        facts = {}
    if list(map(type, facts.values())) != [str, str, int]:
        raise AssayError(
            f"{folder}: has no {RUN} of a training run, so it is no trained model; run `assay train` first"
        )
    return facts


def _weights_of(path: Path) -> set[str]:
    """Names of the weights in a safetensors file, which is as long as it says.

    Raises:
        ValueError: it is not.
    """
    with path.open("rb") as handle:
        size = int.from_bytes(handle.read(8), "little")
        if size > _HEADER_BYTES:
            raise ValueError("not a safetensors file")
        header = json.loads(handle.read(size))
    header.pop("__metadata__", None)
    try:
        end = max((one["data_offsets"][1] for one in header.values()), default=0)
    except (TypeError, KeyError, IndexError):
        raise ValueError("not a safetensors file") from None
    if (wanted := 8 + size + end) != (found := path.stat().st_size):
        raise ValueError(f"{found:,} bytes, not {wanted:,}")
    return set(header)


def _check_weights(folder: Path, files: list[str]) -> None:
    weights = [path for path in files if fits(path, _WEIGHTS)]
    if not weights:
        raise AssayError(f"{folder}: has no weights (model.safetensors); run `assay train` again")
    places: dict[str, str] = {}
    for path in weights:
        with _reading(folder / path):
            places.update(dict.fromkeys(_weights_of(folder / path), path))
    if _INDEX not in files:
        if len(weights) > 1:
            raise AssayError(f"{folder}: has {len(weights)} files of weights and no {_INDEX}; train again")
        return
    with _reading(folder / _INDEX):
        index = json.loads((folder / _INDEX).read_text("utf-8"))
        wanted = dict(index["weight_map"]) if isinstance(index, dict) and "weight_map" in index else {}
    if odd := sorted(name for name in {*wanted, *places} if wanted.get(name) != places.get(name)):
        raise AssayError(
            f"{folder / _INDEX}: {len(odd)} weights are not where it says, such as {odd[0]}; train again"
        )


def _check_measured(folder: Path, results: str | None, weights: str | None) -> None:
    """Refuse results that name the digest of other weights than the folder's one file."""
    told = json.loads(results) if results is not None and weights is not None else None
    if isinstance(told, dict) and told.get("model_sha256") not in (None, weights):
        raise AssayError(f"{folder / RESULTS}: is of other weights; run `assay eval` again, or remove it")


def _check_private(folder: Path, texts: Mapping[str, str], base: str) -> None:
    """Refuse texts that name the folder, or the one of the base model."""
    places = {str(folder), *([base] if Path(base).is_absolute() else [])}
    for path, text in texts.items():
        for place in places:
            if Path(place).parent != Path("/") and place in text:
                raise AssayError(
                    f"{folder / path}: names a path of this machine ({place}); take it out, then push again"
                )


def contents(folder: Path) -> Contents:
    """What a model's folder publishes. Reads every file once; changes nothing.

    Raises:
        AssayError: see the head of this module.
    """
    if not folder.is_dir():
        raise AssayError(f"{folder}: no such model folder; give one that `assay train` wrote")
    facts = _run(folder)
    base, facts["base"] = facts["base"], _base(facts["base"])
    with _reading(folder):
        paths = [path for path in _files(folder) if fits(path, (*_OWNED, *_TERMS))]
    for path in _NEEDED:
        if path not in paths:
            raise AssayError(f"{folder}: lacks {path}; run `assay train` again")
    _check_weights(folder, paths)
    files, texts, digests = [], dict[str, str](), dict[str, str]()
    for path in paths:
        local = folder / path
        with _reading(local):
            if fits(path, (*_CONFIGS, *_CUT, *_TEXTS, _INDEX)):
                # Read as bytes, so that line ends stay as they are.
                text = local.read_bytes().decode("utf-8")
                texts[path] = _published_text(path, text) if fits(path, (*_CONFIGS, *_CUT)) else text
            else:
                digests[path] = shards.file_sha256(local)
                files.append(PublishedFile(path, local, local.stat().st_size, digests[path]))
    _check_measured(folder, texts.get(RESULTS), digests.get("model.safetensors"))
    _check_private(folder, texts, base)
    title = f"Publish a model of {facts['parameters']:,} parameters, trained by {facts['objective']}"
    card = {CARD: texts.pop(CARD)}
    return Contents(MODEL, tuple(files), {**card, **texts}, title, model=facts)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """A place for the staged folder beside the model's, which no other push of the same model uses."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    scratch = None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssayError(f"{folder}: another push of it is under way; wait for it or stop it") from None
        except OSError:
            # A file system without locks; then a folder of this process.
            scratch = tempfile.mkdtemp(prefix="assay-push-")
        if scratch is None and not os.access(folder.parent, os.W_OK):
            scratch = tempfile.mkdtemp(prefix="assay-push-")
        yield Path(scratch, "files") if scratch else folder.with_name(f".{folder.name}.push")
    finally:
        os.close(handle)
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def publish(
    folder: Path,
    repo_id: str,
    *,
    private: bool,
    tag: str | None,
    token: str | None = None,
    endpoint: str | None = None,
) -> PublishResult:
    """Make a model on the Hub hold what a training run wrote, verify it, and tag it.

    Args:
        folder: the model's folder.
        repo_id: `owner/name`; the model is made when there is none.
        private: make it private. An existing public one is refused, an existing private one stays so.
        tag: name to give the commit; a tag of that name at another commit is an error.
        token: access token; the saved or HF_TOKEN's one when None.
        endpoint: address of the Hub; huggingface_hub's own (HF_ENDPOINT) when None.

    Raises:
        AssayError: see the head of this module, and of `schemas.hub`.
    """
    check_names(repo_id, MODEL, tag)
    secret = token_of(token)
    folder = folder.resolve()
    with _reading(folder):
        before = _state(folder)
    found = contents(folder)
    with _alone(folder) as place, staged(place, found) as files:
        if _state(folder) != before:
            raise AssayError(f"{folder}: was written to while it was read; push again when that is done")
        return send(found, place, files, repo_id, private=private, tag=tag, token=secret, endpoint=endpoint)
