"""The model: a causal language model's trunk, its vocabulary head and a scalar score head.

In: a batch of sequences (`trainers.items`), packed in a row or padded on the right. Out: one float32 score a
sequence, read from its last token, and the log-probability of every target, the same in either form.
Scores start at 0, since the score head does. Errors of loading raise `AssayError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from schemas.errors import AssayError
from schemas.ids import rng
from trainers import attention
from trainers.config import TINY, TrainConfig
from trainers.items import Batch, Output
from trainers.loading import load
from trainers.tokenizer import first_line

# Logits of more positions than this are made, used and made again in the backward pass: 16 MiB on a CPU,
# whose caches are small, and 1 GiB on a GPU, where few positions would leave most of it idle.
LOGITS_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 28}

_HEAD = "vocabulary_head"


class RewardModel(nn.Module):
    """`trunk` gives hidden states, `head` logits over the vocabulary, `score` a scalar a position.

    Attributes:
        layout: how batches should come: `prefix`, `packed` or, the only one before `fit_layout`, `padded`.
        why_padded: why it is `padded` where that was not asked for, else empty.
        kernel: what computes the attention of packed rows; empty for `padded`.
    """

    def __init__(
        self,
        trunk: PreTrainedModel,
        head: nn.Module | None,
        score: Tensor | None = None,
        *,
        scored: bool = True,
    ) -> None:
        """
        Args:
            trunk: gives hidden states.
            head: gives logits.
            score: weights of the score head, shape (1, hidden); None starts at 0.
            scored: whether there is a score head.
        """
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.layout, self.why_padded, self.kernel = "padded", "", ""
        config: Any = trunk.config
        self.score: nn.Linear | None = None
        if scored:
            self.score = nn.Linear(config.get_text_config().hidden_size, 1, bias=False, dtype=torch.float32)
            with torch.no_grad():
                if score is None:
                    self.score.weight.zero_()
                else:
                    self.score.weight.copy_(score)

    def fit_layout(self, wanted: str, longest: int, kernel: str = "auto") -> None:
        """Set `layout` to what is wanted; `auto` is `prefix` where the trunk can, else `padded`.

        Args:
            wanted: one of `trainers.config.LAYOUTS`.
            longest: tokens of the longest sequence to come.
            kernel: one of `trainers.config.KERNELS`.

        Raises:
            AssayError: the trunk cannot be packed, or the kernel not be used, and that was asked for by name.
        """
        self.layout, self.why_padded, self.kernel = "padded", "", ""
        if wanted == "padded":
            return
        self.why_padded = attention.attach(self.trunk, longest, kernel)
        if not self.why_padded:
            self.kernel = attention.kernel_of(self.trunk)
            self.layout = "prefix" if wanted == "auto" else wanted
        elif wanted != "auto":
            raise AssayError(
                f"train.layout: {wanted} does not fit this model ({self.why_padded}); use padded"
            )

    def forward(self, batch: Batch, scores: bool = True, logprobs: bool = True) -> Output:
        """One pass.

        Args:
            batch: the sequences.
            scores: whether to read the score of each sequence.
            logprobs: whether to read the log-probability of each target.

        Raises:
            AssayError: something is to be read that the model has no head for.
        """
        hidden, last = self._hidden(batch)
        found = None
        if scores:
            if self.score is None:
                raise AssayError("the model has no score head")
            found = self.score(hidden[last].float()).squeeze(-1)
        said = hidden.new_zeros(0, dtype=torch.float32)
        if logprobs and len(batch.targets):
            places = batch.positions.to(hidden.device)
            said = self._logprobs(hidden[places], batch.targets.to(hidden.device))
        return Output(found, said)

    def _hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hidden states after the trunk's last norm, shape (positions, hidden), and the place of each
        sequence's last token among them."""
        if batch.row is not None:
            states = attention.hidden_states(self.trunk, batch.row)
            return states, torch.from_numpy(batch.row.last).to(states.device)
        ids, mask = batch.input_ids, batch.attention_mask
        if ids is None or mask is None:
            raise AssayError("a batch has neither a row nor padded sequences")
        device = next(self.trunk.parameters()).device
        output: Any = self.trunk(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
        states = output.last_hidden_state
        rows = torch.arange(len(ids), device=device) * ids.shape[1]
        return states.flatten(0, 1), rows + mask.to(device).sum(dim=1) - 1

    def _logprobs(self, states: Tensor, targets: Tensor) -> Tensor:
        """Float32 log-probabilities of `targets` (tokens,) after `states` (tokens, hidden)."""
        head = self.head
        if head is None:
            raise AssayError("the model has no vocabulary head; set train.lm_weight to 0")

        def of(part: Tensor, wanted: Tensor) -> Tensor:
            return -functional.cross_entropy(head(part).float(), wanted, reduction="none")

        text: Any = self.trunk.config
        most = LOGITS_AT_ONCE.get(states.device.type, LOGITS_AT_ONCE["cpu"])
        size = max(1, most // int(text.get_text_config().vocab_size))
        if len(targets) <= size:
            return of(states, targets)
        return torch.cat(
            [
                checkpoint(of, part, wanted, use_reentrant=False)
                for part, wanted in zip(torch.split(states, size), torch.split(targets, size), strict=True)
            ]
        )


def tiny_config(vocab_size: int, max_length: int, tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    """A two-layer Qwen3 of about 100,000 parameters beside its embeddings."""
    return Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=max(2048, max_length),
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        dtype="float32",
    )


def build(
    config: TrainConfig, tokenizer: PreTrainedTokenizerFast, *, scored: bool = True, vocabulary: bool = True
) -> RewardModel:
    """The model that a (resolved) config names, in float32, with the heads that are needed.

    A causal language model gives trunk and vocabulary head. A reward model that was exported before
    gives trunk and score head, so that training goes on from it; its vocabulary head is its
    embedding when the two are tied, else what its export kept beside it.

    Args:
        config: settings.
        tokenizer: the tokenizer that goes with it.
        scored: whether a score head is needed.
        vocabulary: whether a vocabulary head is needed.

    Raises:
        AssayError: it cannot be loaded, its vocabulary is smaller than the tokenizer's, or it lacks a
            vocabulary head that is needed, reads fewer tokens than `max_length`, or cannot have the layout
            that was asked for.
    """
    if config.model == TINY:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(rng(config.seed, "weights", TINY).getrandbits(63))
            made: Any = Qwen3ForCausalLM(tiny_config(len(tokenizer), config.max_length, tokenizer))
        head = made.get_output_embeddings() if vocabulary else None
        model = RewardModel(made.base_model, head, scored=scored)
        model.fit_layout(config.layout, config.max_length, config.attention)
        return model
    try:
        model = _load(config.model, scored, vocabulary)
    except AssayError:
        raise
    except Exception as error:  # whatever a damaged folder makes transformers raise
        raise AssayError(f"{config.model}: cannot be loaded as a model ({first_line(error)})") from None
    embedding: Any = model.trunk.get_input_embeddings()
    have, need = embedding.num_embeddings, len(tokenizer)
    if have < need:
        raise AssayError(f"{config.model}: its tokenizer has {need} tokens, but its embedding only {have}")
    if vocabulary and model.head is None:
        raise AssayError(
            f"{config.model}: has no vocabulary head; "
            + ("set train.lm_weight to 0" if config.objective == "bt" else "give a causal language model")
        )
    positions = getattr(model.trunk.config.get_text_config(), "max_position_embeddings", None)
    if isinstance(positions, int) and 0 < positions < config.max_length:
        raise AssayError(
            f"{config.model}: reads at most {positions} tokens, but train.max_length is {config.max_length}; "
            f"set it to {positions} or less"
        )
    model.trunk.config.pad_token_id = tokenizer.pad_token_id
    model.fit_layout(config.layout, config.max_length, config.attention)
    return model


def _load(source: str, scored: bool, vocabulary: bool) -> RewardModel:
    found: Any = AutoConfig.from_pretrained(source, trust_remote_code=False)
    if any(name.endswith("ForSequenceClassification") for name in found.architectures or ()):
        classifier: Any = load(
            AutoModelForSequenceClassification, source, "reward model", dtype=torch.float32
        )
        if found.num_labels != 1 or not isinstance(getattr(classifier, "score", None), nn.Linear):
            raise ValueError(f"it classifies into {found.num_labels} labels, a reward model has one score")
        head: nn.Linear | None = None
        trunk = classifier.base_model
        if vocabulary:
            tied = found.get_text_config().tie_word_embeddings
            weight = trunk.get_input_embeddings().weight if tied else _load_head(source)
            if weight is not None:
                head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
                head.weight = weight
        score = classifier.score.weight.detach().float() if scored else None
        return RewardModel(trunk, head, score, scored=scored)
    # A trunk alone will do where nothing is read from the vocabulary head.
    optional = () if vocabulary else ("lm_head.weight",)
    causal: Any = load(AutoModelForCausalLM, source, "model", optional=optional, dtype=torch.float32)
    return RewardModel(
        causal.base_model, causal.get_output_embeddings() if vocabulary else None, scored=scored
    )


def save_head(folder: Path, weight: Tensor) -> None:
    """Keep a vocabulary head, shape (vocabulary, hidden), beside a classifier, which has none."""
    place = folder / _HEAD
    place.mkdir()
    save_file({"weight": weight.contiguous()}, place / "model.safetensors")


def _load_head(source: str) -> nn.Parameter | None:
    file = Path(source) / _HEAD / "model.safetensors"
    if not file.is_file():
        return None
    return nn.Parameter(load_file(file)["weight"].float())


def use_liger(model: RewardModel) -> None:
    """Let Liger's kernels compute norms, rotations and MLPs; weights stay as they are.

    Raises:
        AssayError: there is no GPU, the package is missing, or it does not know the architecture.
    """
    if not torch.cuda.is_available():
        raise AssayError("train.liger: Liger's kernels need a GPU, and there is none; set it to false")
    try:
        from liger_kernel.transformers import _apply_liger_kernel_to_instance
    except ImportError:
        raise AssayError("train.liger: liger-kernel is not installed; pip install liger-kernel") from None
    kind = model.trunk.config.get_text_config().model_type
    before = [module.forward for module in model.trunk.modules()]
    # Losses are our own, of the tokens that count only.
    _apply_liger_kernel_to_instance(model=model.trunk, cross_entropy=False, fused_linear_cross_entropy=False)
    if before == [module.forward for module in model.trunk.modules()]:
        raise AssayError(f"train.liger: Liger has no kernels for {kind}; set it to false")
