"""A trained reward model becomes a folder that transformers loads as a sequence classifier.

Out: `model.safetensors`, `config.json` (one label, `problem_type` regression, the pad token) and the
tokenizer's files. `AutoModelForSequenceClassification.from_pretrained` reads it without code of ours,
and `check_parity` proves that it gives the scores that training gave. Errors are `AssayError`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

from schemas.errors import AssayError
from trainers.data import pad
from trainers.model import RewardModel
from trainers.packing import Ids
from trainers.tokenizer import check_tokenizer

TOLERANCE = 1e-5


def export(model: RewardModel, tokenizer: PreTrainedTokenizerFast, folder: Path, source: str) -> None:
    """Write the model and its tokenizer into `folder`, which exists. `source` names it in errors.

    Raises:
        AssayError: the tokenizer does not fit (see `check_tokenizer`), or transformers has no
            sequence classifier with a `score` head for this architecture.
    """
    check_tokenizer(tokenizer, source)
    classifier = _classifier(model, tokenizer, source)
    # The vocabulary head is left out: a sequence classifier has none.
    getattr(classifier, classifier.base_model_prefix).load_state_dict(model.trunk.state_dict())
    classifier.score.load_state_dict(model.score.state_dict())
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        # safetensors makes files that only their owner can read, unlike all the others.
        weights.chmod((folder / "config.json").stat().st_mode)


def _classifier(model: RewardModel, tokenizer: PreTrainedTokenizerFast, source: str) -> Any:
    config: Any = copy.deepcopy(model.trunk.config)
    config.num_labels = 1
    config.id2label, config.label2id = {0: "reward"}, {"reward": 0}
    config.problem_type = "regression"
    config.pad_token_id = tokenizer.pad_token_id
    config.use_cache = False
    # Where the weights were once read from is nobody's business.
    config._name_or_path = ""
    try:
        with torch.random.fork_rng(devices=[]):
            make: Any = AutoModelForSequenceClassification.from_config
            classifier = make(config, dtype=torch.float32)
    except ValueError:
        classifier = None
    if not isinstance(getattr(classifier, "score", None), torch.nn.Linear):
        raise AssayError(
            f"{source}: transformers has no sequence classifier with a score head for "
            f"{config.model_type}; use a decoder such as Qwen3 or Llama"
        )
    return classifier


def check_parity(model: RewardModel, folder: Path, sequences: Sequence[Ids]) -> float:
    """Load the folder as anyone would and compare its scores of some sequences with the model's.

    Returns:
        The largest difference.

    Raises:
        AssayError: it exceeds `TOLERANCE` (relative to the largest score, when that is above 1).
    """
    loaded: Any = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    ids, mask = pad(sequences, int(loaded.config.get_text_config().pad_token_id))
    model.eval()
    with torch.inference_mode():
        ours = model.rewards(ids, mask)
        theirs = loaded(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
    worst = float((ours - theirs).abs().max())
    if not worst <= TOLERANCE * max(1.0, float(ours.abs().max())):
        raise AssayError(
            f"the exported model gives other scores than the trained one (difference {worst:.3g}); "
            "its architecture is not supported"
        )
    return worst
