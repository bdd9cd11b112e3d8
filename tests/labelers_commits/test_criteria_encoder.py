"""The encoder classifier: tiny random encoders are fine-tuned, saved, read again and asked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_criteria_features import edit
from test_criteria_training import KINDS, annotations, history, quiet
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

from labelers.commits import classifier, criteria, labelling
from labelers.commits.config import LabelConfig
from labelers.commits.training import encoder
from labelers.commits.training.config import CriteriaConfig
from labelers.commits.training.train import train_criteria
from schemas.errors import AssayError

BUILT_IN = criteria.load()
SMALL = CriteriaConfig(
    backend="encoder",
    per_repository=20,
    folds=2,
    precision=0.6,
    epochs=6,
    batch=16,
    rate=3e-3,
    max_tokens=64,
)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def save_tiny(folder: Path, kind: str = "modernbert", safe: bool = True) -> Path:
    words = {word for one in KINDS.values() for part in one for word in part.replace("(", " ").split()}
    alphabet = ["[PAD]", "[UNK]", *sorted(words), *"+-#=:"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(alphabet)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder
    )
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": len(alphabet),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    model: Any
    if kind == "modernbert":
        given = {**sizes, "bos_token_id": 1, "eos_token_id": 1, "cls_token_id": 1, "sep_token_id": 1}
        model = ModernBertModel(ModernBertConfig(**given))
    else:
        model = BertModel(BertConfig(**sizes))
    if safe:
        model.save_pretrained(folder)
    else:
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


@pytest.fixture(scope="module", params=["modernbert", "bert"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    torch.set_num_threads(1)
    source = save_tiny(tmp_path_factory.mktemp("source"), request.param)
    out = tmp_path_factory.mktemp("trained")
    edits = history(4, 30)
    config = dataclasses.replace(SMALL, model=str(source))
    return out, train_criteria(edits, annotations(edits), config, out, quiet)


def row(code: str) -> dict[str, Any]:
    message, old, new = (part.replace("{}", "q") for part in KINDS[code])
    return edit(old, new, message, id="i")


def test_encoder_learns_and_labels(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, about = trained
    assert about["figures"]["best"]["f1"] > 0.7
    label = labelling.label(row("RM"), BUILT_IN, LabelConfig(classifier=str(folder)))
    assert (label.criterion, label.method) == ("RM", "classifier")
    assert label.labeler == about["classifier"] == classifier.version(str(folder))
    assert label.labeler.startswith("encoder-")


def test_scores_of_an_encoder_do_not_depend_on_the_batch(trained: tuple[Path, dict[str, Any]]) -> None:
    found = encoder.load(trained[0])
    found.score(row("FC"), ["FC"])
    model = found.encoder
    assert model is not None
    texts = [encoder.rendered(row(code)) for code in KINDS]
    with torch.inference_mode():
        together = model.logits(texts).double().numpy()
    assert abs(model.scores(texts) - together).max() < 1e-4


def test_saved_encoder_is_read_by_another_scorer_alike(trained: tuple[Path, dict[str, Any]]) -> None:
    first, second = encoder.load(trained[0]), encoder.load(trained[0])
    assert first.score(row("SH"), ["SH"]) == second.score(row("SH"), ["SH"])
    assert first.version == second.version


def test_training_an_encoder_again_gives_the_same_weights(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "source")
    edits = history(4, 30)
    config = dataclasses.replace(SMALL, model=str(source), epochs=1)
    for name in "ab":
        train_criteria(edits, annotations(edits), config, tmp_path / name, quiet)
    for path in ("heads.safetensors", "encoder/model.safetensors", "report.json"):
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


def test_weights_that_are_pickled_are_refused(tmp_path: Path) -> None:
    save_tiny(tmp_path, safe=False)
    edits = history(4, 30)
    with pytest.raises(AssayError, match="safetensors"):
        train_criteria(
            edits, annotations(edits), dataclasses.replace(SMALL, model=str(tmp_path)), tmp_path, quiet
        )


def test_encoder_that_brings_code_is_refused(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    told = {"auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}, "model_type": "own"}
    (tmp_path / "config.json").write_text(json.dumps({**settings, **told}))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    edits = history(4, 30)
    with pytest.raises(AssayError, match="cannot load"):
        train_criteria(
            edits, annotations(edits), dataclasses.replace(SMALL, model=str(tmp_path)), tmp_path, quiet
        )
    assert not (tmp_path / "ran").exists()


def test_too_few_annotations_cannot_calibrate_an_encoder(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "source")
    config = dataclasses.replace(SMALL, model=str(source))
    with pytest.raises(AssayError, match="too few"):
        train_criteria(history(4, 30), {}, config, tmp_path, quiet)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1, "kind": "encoder", "heads": ["FC"]}', "[" * 90_000]
)
def test_damaged_settings_of_an_encoder_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / encoder.FILE).write_text(text)
    with pytest.raises(AssayError, match="cannot be used"):
        classifier.version(str(tmp_path))


def test_text_of_an_edit_is_bounded_and_has_message_and_both_sides() -> None:
    text = encoder.rendered(edit("a\n" * 5_000, "b\n" * 5_000, "Swap them\n\n" + "why " * 5_000))
    assert len(text) < 8_000
    assert "Swap them" in text
    small = encoder.rendered(edit("a = 1\n", "a = 2\n", "Swap them\n\nReviewed-by: Somebody <x@y>"))
    assert small == "src/module.py\nSwap them\n\n-a = 1\n+a = 2\n"
