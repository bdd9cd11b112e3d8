"""The reward model: a causal language model's trunk, its vocabulary head and a scalar score head.

In: sequences, packed in a row (`trainers.packing`) or padded on the right with their mask. Out: one float32
reward a sequence, read from its last token, and for the language-model term a sum of token losses, the
same in either form. Rewards start at 0, since the score head does. Errors of loading raise `AssayError`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
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
from trainers import attention, losses
from trainers.config import TINY, TrainConfig
from trainers.data import Batch, PackedBatch
from trainers.packing import Layout
from trainers.tokenizer import first_line

# Logits of more positions than this are made, used and made again in the backward pass: 16 MiB.
LOGITS_AT_ONCE = 1 << 22


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """Rewards of both sides, shape (pairs,) each, and the summed loss of completion tokens."""

    chosen: Tensor
    rejected: Tensor
    lm: Tensor


class RewardModel(nn.Module):
    """`trunk` gives hidden states, `head` logits over the vocabulary, `score` a scalar a position.

    Attributes:
        layout: how batches should come: `prefix`, `packed` or, the only one before `fit_layout`, `padded`.
        why_padded: why it is `padded` where that was not asked for, else empty.
    """

    def __init__(self, trunk: PreTrainedModel, head: nn.Module | None, score: Tensor | None = None) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.layout, self.why_padded = "padded", ""
        config: Any = trunk.config
        self.score = nn.Linear(config.get_text_config().hidden_size, 1, bias=False, dtype=torch.float32)
        with torch.no_grad():
            if score is None:
                self.score.weight.zero_()
            else:
                self.score.weight.copy_(score)

    def fit_layout(self, wanted: str, longest: int) -> None:
        """Set `layout` to what is wanted; `auto` is `prefix` where the trunk can, else `padded`.

        Args:
            wanted: one of `trainers.config.LAYOUTS`.
            longest: tokens of the longest sequence to come.

        Raises:
            AssayError: the trunk cannot be packed, and that was asked for by name.
        """
        self.layout, self.why_padded = "padded", ""
        if wanted == "padded":
            return
        self.why_padded = attention.attach(self.trunk, longest)
        if not self.why_padded:
            self.layout = "prefix" if wanted == "auto" else wanted
        elif wanted != "auto":
            raise AssayError(
                f"train.layout: {wanted} does not fit this model ({self.why_padded}); use padded"
            )

    def hidden(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Hidden states after the trunk's last norm, shape (sequences, tokens, hidden)."""
        output: Any = self.trunk(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        states: Tensor = output.last_hidden_state
        return states

    def pool(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Float32 rewards of right-padded sequences, shape (sequences,)."""
        last = attention_mask.sum(dim=1) - 1
        rows = torch.arange(len(last), device=hidden.device)
        rewards: Tensor = self.score(hidden[rows, last].float()).squeeze(-1)
        return rewards

    def rewards(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Rewards of sequences, shape (sequences,)."""
        return self.pool(self.hidden(input_ids, attention_mask), attention_mask)

    def packed_rewards(self, row: Layout, hidden: Tensor | None = None) -> Tensor:
        """Rewards of a row's sequences, shape (sequences,), from its `hidden` states when they are there."""
        hidden = attention.hidden_states(self.trunk, row) if hidden is None else hidden
        last = torch.from_numpy(row.last).to(hidden.device)
        rewards: Tensor = self.score(hidden[last].float()).squeeze(-1)
        return rewards

    def forward(self, batch: Batch | PackedBatch, with_lm: bool) -> Output:
        """One pass over both sides of a micro-batch; `lm` is 0 unless `with_lm`."""
        if isinstance(batch, PackedBatch):
            hidden = attention.hidden_states(self.trunk, batch.row)
            rewards = self.packed_rewards(batch.row, hidden)
            chosen, rejected = rewards[0::2], rewards[1::2]
        else:
            hidden = self.hidden(batch.input_ids, batch.attention_mask)
            chosen, rejected = self.pool(hidden, batch.attention_mask).chunk(2)
            hidden = hidden.flatten(0, 1)
        lm = hidden.new_zeros((), dtype=torch.float32)
        if with_lm:
            lm = self.completion_nll(hidden[batch.lm_positions], batch.lm_targets)
        return Output(chosen, rejected, lm)

    def completion_nll(self, states: Tensor, targets: Tensor) -> Tensor:
        """Summed loss of predicting `targets` (tokens,) from `states` (tokens, hidden)."""
        head = self.head
        if head is None:
            raise AssayError("the model has no vocabulary head; set train.lm_weight to 0")

        def nll(part: Tensor, wanted: Tensor) -> Tensor:
            return losses.token_nll(head(part), wanted)

        text: Any = self.trunk.config
        size = max(1, LOGITS_AT_ONCE // int(text.get_text_config().vocab_size))
        if len(targets) <= size:
            return nll(states, targets)
        total = states.new_zeros((), dtype=torch.float32)
        for part, wanted in zip(torch.split(states, size), torch.split(targets, size), strict=True):
            total = total + checkpoint(nll, part, wanted, use_reentrant=False)
        return total


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


def build(config: TrainConfig, tokenizer: PreTrainedTokenizerFast) -> RewardModel:
    """The model that a (resolved) config names, in float32.

    A causal language model gives trunk and vocabulary head. A reward model that was exported before
    gives trunk and score head, so that training goes on from it; its vocabulary head is its
    embedding when the two are tied, else it has none.

    Raises:
        AssayError: it cannot be loaded, its vocabulary is smaller than the tokenizer's, or it lacks a
            vocabulary head that `lm_weight` needs, reads fewer tokens than `max_length`, or cannot have the
            layout that was asked for.
    """
    if config.model == TINY:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(rng(config.seed, "weights", TINY).getrandbits(63))
            made: Any = Qwen3ForCausalLM(tiny_config(len(tokenizer), config.max_length, tokenizer))
        model = RewardModel(made.base_model, made.get_output_embeddings())
        model.fit_layout(config.layout, config.max_length)
        return model
    try:
        model = _load(config.model)
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise AssayError(f"{config.model}: cannot be loaded as a model ({first_line(error)})") from None
    embedding: Any = model.trunk.get_input_embeddings()
    have, need = embedding.num_embeddings, len(tokenizer)
    if have < need:
        raise AssayError(f"{config.model}: its tokenizer has {need} tokens, but its embedding only {have}")
    if config.lm_weight and model.head is None:
        raise AssayError(f"{config.model}: has no vocabulary head; set train.lm_weight to 0")
    positions = getattr(model.trunk.config.get_text_config(), "max_position_embeddings", None)
    if isinstance(positions, int) and 0 < positions < config.max_length:
        raise AssayError(
            f"{config.model}: reads at most {positions} tokens, but train.max_length is {config.max_length}; "
            f"set it to {positions} or less"
        )
    model.trunk.config.pad_token_id = tokenizer.pad_token_id
    model.fit_layout(config.layout, config.max_length)
    return model


def _load(source: str) -> RewardModel:
    found: Any = AutoConfig.from_pretrained(source, trust_remote_code=False)
    how: dict[str, Any] = {"dtype": torch.float32, "trust_remote_code": False, "use_safetensors": True}
    if any(name.endswith("ForSequenceClassification") for name in found.architectures or ()):
        scored: Any = AutoModelForSequenceClassification.from_pretrained(source, **how)
        if found.num_labels != 1 or not isinstance(getattr(scored, "score", None), nn.Linear):
            raise ValueError(f"it classifies into {found.num_labels} labels, a reward model has one score")
        head: nn.Linear | None = None
        trunk = scored.base_model
        if found.tie_word_embeddings:
            weight = trunk.get_input_embeddings().weight
            head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
            head.weight = weight
        return RewardModel(trunk, head, scored.score.weight.detach().float())
    causal: Any = AutoModelForCausalLM.from_pretrained(source, **how)
    return RewardModel(causal.base_model, causal.get_output_embeddings())
