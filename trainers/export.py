"""A trained model becomes a folder that transformers loads, without code of ours.

In: a `RewardModel`, or its weights gathered from many processes. Out: `model.safetensors` (several files when
it is large), `config.json` and the tokenizer's files, of one of two kinds:

* with a score head, a sequence classifier of one label (`problem_type` regression, the pad token set). vLLM
  documents for such a folder that it pools the last token, reads the layer `score`, and gives its value as it
  is because of `problem_type`. A vocabulary head that is not its embedding goes into a folder of its own,
  `vocabulary_head`, that neither of them reads: training that goes on from the model (Themis's second stage)
  needs it for its language-model term.
* without one, a causal language model, its head tied to its embedding or not. That of a verifier has
  `verifier.json` too: the two answers, the question and the temperature that make its probability.

Weights are float32, or bfloat16 where training computed in that (`precision`), the score head always float32.
`check_parity` loads the folder as anyone would and compares what it gives with what training gave: up to a
difference of 1e-4, or 0.05 with bfloat16, whose passes round differently; both relative to the largest value
when that is above 1. Errors are `AssayError`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)

from schemas.errors import AssayError
from schemas.shards import write_text
from trainers.config import TrainConfig
from trainers.items import Found, Item, pad
from trainers.model import RewardModel, save_head
from trainers.tokenizer import check_tokenizer
from trainers.trajectories import TEMPLATE, Renderer

VERIFIER_FILE = "verifier.json"
VERIFIERS = ("yesno", "joint")
"""Objectives whose models answer a question about a trajectory."""

TOLERANCES = {"fp32": 1e-4, "bf16": 5e-2}
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# What is compared: items of so many tokens together, at least one, and so many targets of a sequence.
_PARITY_TOKENS = 8192
_PARITY_TARGETS = 256


def export(
    model: RewardModel,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    source: str,
    state: Mapping[str, Tensor] | None = None,
    config: TrainConfig | None = None,
) -> None:
    """Write a model and its tokenizer into `folder`, which exists.

    Args:
        model: says which architecture it is; its own weights may lack data when there is a `state`.
        tokenizer: goes with it.
        folder: where to.
        source: names the model in errors.
        state: all weights of the model, on the CPU, by the names of its `state_dict`; None takes its own.
        config: settings of the run; None writes float32 and no verifier.

    Raises:
        AssayError: the tokenizer does not fit (see `check_tokenizer`), transformers has no such model for the
            architecture, its weights are others, or an answer of a verifier is not one token.
    """
    check_tokenizer(tokenizer, source)
    dtype = _DTYPES[config.precision if config is not None else "fp32"]
    renderer = None
    if config is not None and config.objective in VERIFIERS:
        renderer = Renderer(tokenizer, config.max_length, config.yes_token, config.no_token)
    scored = model.score is not None
    made = (
        _classifier(model, tokenizer, source, dtype) if scored else _causal(model, tokenizer, source, dtype)
    )
    own = model.state_dict() if state is None else state
    weights = dict(_renamed(made, own, dtype))
    _check_names(made, weights, source)
    made.save_pretrained(folder, state_dict=weights)
    if scored and not made.config.get_text_config().tie_word_embeddings and "head.weight" in own:
        save_head(folder, own["head.weight"].to(dtype))
    tokenizer.save_pretrained(folder)
    if renderer is not None and config is not None:
        write_text(folder / VERIFIER_FILE, json.dumps(_verifier(renderer, config), indent=1) + "\n")
    for file in folder.glob("*.safetensors"):
        # safetensors makes files that only their owner can read, unlike all the others.
        file.chmod((folder / "config.json").stat().st_mode)


def _verifier(renderer: Renderer, config: TrainConfig) -> dict[str, Any]:
    """What makes a probability of a causal language model, see `trainers.verify`."""
    return {
        "format": 1,
        "yes_token": config.yes_token,
        "yes_id": renderer.yes,
        "no_token": config.no_token,
        "no_id": renderer.no,
        "temperature": config.temperature,
        "question": renderer.question,
        "max_length": config.max_length,
        "tools": renderer.form,
        "template": TEMPLATE,
    }


def _config_of(model: RewardModel, tokenizer: PreTrainedTokenizerFast) -> Any:
    config: Any = copy.deepcopy(model.trunk.config)
    config.pad_token_id = tokenizer.pad_token_id
    # Where the weights were once read from is nobody's business.
    config._name_or_path = ""
    return config


def _made(auto: Any, config: Any, dtype: torch.dtype) -> Any:
    """A model without data, None when transformers has none of the kind for this architecture."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return auto.from_config(config, dtype=dtype)
    except ValueError:
        return None


def _classifier(
    model: RewardModel, tokenizer: PreTrainedTokenizerFast, source: str, dtype: torch.dtype
) -> Any:
    config = _config_of(model, tokenizer)
    config.num_labels = 1
    config.id2label, config.label2id = {0: "reward"}, {"reward": 0}
    config.problem_type = "regression"
    config.use_cache = False
    made = _made(AutoModelForSequenceClassification, config, dtype)
    if not isinstance(getattr(made, "score", None), torch.nn.Linear):
        raise AssayError(
            f"{source}: transformers has no sequence classifier with a score head for "
            f"{config.model_type}; use a decoder such as Qwen3 or Llama"
        )
    return made


def _causal(model: RewardModel, tokenizer: PreTrainedTokenizerFast, source: str, dtype: torch.dtype) -> Any:
    config = _config_of(model, tokenizer)
    # A base that was a classifier says so, which a causal model is not.
    config.problem_type = None
    config.use_cache = True
    made = _made(AutoModelForCausalLM, config, dtype)
    if made is None or made.get_output_embeddings() is None:
        raise AssayError(f"{source}: transformers has no causal language model for {config.model_type}")
    if made.generation_config is not None:
        made.generation_config.pad_token_id = tokenizer.pad_token_id
        made.generation_config.eos_token_id = tokenizer.eos_token_id
    return made


def _head_name(made: Any) -> str:
    """The path of the vocabulary head, empty when the model has none or it is the embedding."""
    head = made.get_output_embeddings()
    if head is None or made.config.get_text_config().tie_word_embeddings:
        return ""
    return next(str(path) for path, module in made.named_modules() if module is head)


def _renamed(made: Any, state: Mapping[str, Tensor], dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Weights of a `RewardModel` by the names that they have in `made`, in its type."""
    head = _head_name(made)
    places = {
        "trunk": made.base_model_prefix,
        "head": head,
        "score": "score" if hasattr(made, "score") else "",
    }
    for name, value in state.items():
        part, _, rest = name.partition(".")
        if place := places.get(part, ""):
            kept = part == "score" or not value.is_floating_point()
            yield f"{place}.{rest}", value if kept else value.to(dtype)


def _check_names(made: Any, weights: Mapping[str, Tensor], source: str) -> None:
    wanted = {name: tensor.shape for name, tensor in made.state_dict().items()}
    if (head := made.get_output_embeddings()) is not None and not _head_name(made):
        # It is the embedding, under a second name.
        for path, module in made.named_modules():
            if module is head:
                wanted.pop(f"{path}.weight", None)
    found = {name: tensor.shape for name, tensor in weights.items()}
    odd = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if odd:
        raise AssayError(
            f"{source}: {len(odd)} weights are not those of {type(made).__name__}, such as {odd[0]}; "
            "its architecture is not supported"
        )


def check_parity(
    folder: Path, items: Sequence[Item], found: Sequence[Found], precision: str = "fp32"
) -> float:
    """Load the folder as anyone would and compare its scores, or log-probabilities of targets, with what was
    found of some items in training; of the first ones, so that it takes no time that counts.

    Returns:
        The largest difference.

    Raises:
        AssayError: it exceeds the tolerance (see the module), or a weight is missing in the folder.
    """
    config: Any = AutoConfig.from_pretrained(folder)
    scored = config.architectures[0].endswith("ForSequenceClassification")
    auto: Any = AutoModelForSequenceClassification if scored else AutoModelForCausalLM
    loaded, told = auto.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    if odd := sorted(
        {str(name) for kind in ("missing", "unexpected", "mismatched") for name in told[f"{kind}_keys"]}
    ):
        raise AssayError(f"the exported model lacks weights or has others, such as {odd[0]}")
    loaded = loaded.to(_device(folder)).eval()
    ours: list[np.ndarray[Any, Any]] = []
    theirs: list[np.ndarray[Any, Any]] = []
    tokens = 0
    for item, one in zip(items, found, strict=True):
        tokens += item.tokens
        if theirs and tokens > _PARITY_TOKENS:
            break
        with torch.inference_mode():
            if scored:
                ours.append(one.scores)
                theirs.append(_scores(loaded, item))
            else:
                ours += [said[:_PARITY_TARGETS] for said in one.logprobs]
                theirs += _logprobs(loaded, item)
    left, right = np.concatenate(ours).astype(np.float64), np.concatenate(theirs).astype(np.float64)
    worst = float(np.abs(left - right).max(initial=0.0))
    if not worst <= TOLERANCES[precision] * max(1.0, float(np.abs(left).max(initial=0.0))):
        raise AssayError(
            f"the exported model gives other {'scores' if scored else 'probabilities'} than the trained one "
            f"(difference {worst:.3g}); its architecture is not supported"
        )
    return worst


def _device(folder: Path) -> torch.device:
    """An accelerator, when the model finds room there beside the trained one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    free, _ = torch.cuda.mem_get_info()
    # In float32 it may take twice its files, and its passes some more.
    return torch.device("cuda", torch.cuda.current_device()) if 3 * size < free else torch.device("cpu")


def _scores(loaded: Any, item: Item) -> np.ndarray[Any, Any]:
    ids, mask = pad(item.sequences, int(loaded.config.get_text_config().pad_token_id))
    logits = loaded(input_ids=ids.to(loaded.device), attention_mask=mask.to(loaded.device)).logits
    scores: np.ndarray[Any, Any] = logits[:, 0].float().cpu().numpy()
    return scores


def _logprobs(loaded: Any, item: Item) -> list[np.ndarray[Any, Any]]:
    made = []
    for sequence, at, targets in zip(item.sequences, item.at, item.targets, strict=True):
        if not len(at):
            continue
        ids = torch.from_numpy(sequence.astype(np.int64))[None].to(loaded.device)
        # Logits of all tokens would take more memory than the model.
        places = torch.from_numpy(at[:_PARITY_TARGETS]).to(loaded.device)
        logits = loaded(input_ids=ids, attention_mask=torch.ones_like(ids), logits_to_keep=places).logits[0]
        wanted = torch.from_numpy(targets[:_PARITY_TARGETS]).to(loaded.device)
        said = torch.log_softmax(logits.float(), dim=-1).gather(1, wanted[:, None])[:, 0]
        made.append(said.cpu().numpy())
    return made
