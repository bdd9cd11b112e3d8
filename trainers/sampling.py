"""Let a causal language model answer prompts.

In: a folder or Hub id, and prompts. Out: the text of each answer and how it ended. A prompt is one user
message in the tokenizer's chat template, or where there is none the text that the model goes on from. Every
answer has random numbers of its own, so that it depends on its seed and prompt alone: not on the batch, but
for float rounding, nor on which others are asked for. A model that cannot be loaded or cannot write raises
`AssayError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from schemas.errors import AssayError
from trainers.environment import quiet, reproducible
from trainers.loading import load
from trainers.packing import Ids
from trainers.tokenizer import first_line


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How answers are drawn.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token.
        top_p: the likeliest tokens that have this probability together are drawn from (Holtzman et al. 2019).
        max_new_tokens: most tokens of an answer.
        batch_size: answers that are written at once.
    """

    temperature: float = 0.8
    top_p: float = 0.95
    max_new_tokens: int = 1024
    batch_size: int = 16

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            AssayError: names the value and what is allowed.
        """
        if not 0 <= self.temperature < 1e3:
            raise AssayError(f"temperature: {self.temperature} must be from 0 to below 1000")
        if not 0 < self.top_p <= 1:
            raise AssayError(f"top-p: {self.top_p} must be above 0 and at most 1")
        for name in ("max_new_tokens", "batch_size"):
            if getattr(self, name) < 1:
                raise AssayError(f"{name}: {getattr(self, name)} must be at least 1")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote: text, how it ended (`stop` or `length`), and its tokens with the end token."""

    text: str
    finish: str
    tokens: int


class _Draws(LogitsProcessor):
    """Leaves one token a row: the one at which the row's random number falls into the distribution."""

    def __init__(self, uniforms: NDArray[np.float64], start: int) -> None:
        self._uniforms, self._start = torch.from_numpy(uniforms), start

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        draw = self._uniforms[:, input_ids.shape[1] - self._start].to(scores.device)[:, None]
        # In doubles, so that what many small probabilities sum to is not lost.
        below = torch.softmax(scores.double(), dim=-1).cumsum(dim=-1)
        chosen = torch.searchsorted(below, draw * below[:, -1:], right=True).clamp(max=scores.shape[1] - 1)
        return torch.full_like(scores, float("-inf")).scatter(1, chosen, 0.0)


class Policy:
    """A loaded causal language model.

    Attributes:
        name: the model's folder name, or its Hub id.
        chat: whether prompts are messages; else the model goes on from the text.
        positions: tokens that it can read and write together; None where it does not say.
    """

    def __init__(self, model: str | Path) -> None:
        """Load a model: in float32 on the CPU, on a GPU in the type of its weights.

        Raises:
            AssayError: it is not there, or writes no text.
        """
        folder = Path(model)
        if isinstance(model, Path) and not folder.is_dir():
            raise AssayError(f"{model}: no such model folder")
        self.name = folder.resolve().name if folder.is_dir() else str(model)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        how: dict[str, Any] = {"trust_remote_code": False}
        try:
            with quiet():
                config: Any = AutoConfig.from_pretrained(str(model), **how)
                if any("ForSequenceClassification" in name for name in config.architectures or ()):
                    raise AssayError(
                        f"{model}: is a reward model, which writes nothing; give a language model"
                    )
                self._tokenizer: Any = AutoTokenizer.from_pretrained(str(model), **how)
                loaded: Any = load(
                    AutoModelForCausalLM,
                    str(model),
                    "language model",
                    dtype=torch.float32 if self._device.type == "cpu" else "auto",
                )
        except AssayError:
            raise
        except Exception as error:  # whatever a damaged folder makes transformers raise
            raise AssayError(f"{model}: cannot be loaded as a language model ({first_line(error)})") from None
        self._model = loaded.eval().to(self._device)
        self.chat = bool(self._tokenizer.chat_template)
        text: Any = config.get_text_config()
        positions = getattr(text, "max_position_embeddings", None)
        self.positions = positions if isinstance(positions, int) and positions > 0 else None
        self._ends = _ends(loaded, self._tokenizer)
        spare = self._tokenizer.pad_token_id
        self._pad = int(spare if spare is not None else min(self._ends, default=0))
        # What a model's maker thought good for chats (top_k, a penalty of repetition) is no part of what is
        # asked for here.
        settings: Any = GenerationConfig
        loaded.generation_config = settings(
            eos_token_id=sorted(self._ends) or None, pad_token_id=self._pad, use_cache=True
        )
        self._settings = settings

    def prompt_ids(self, text: str) -> Ids:
        """A prompt as token ids.

        Raises:
            AssayError: the chat template refuses it, or it has no tokens.
        """
        if self.chat:
            try:
                text = self._tokenizer.apply_chat_template(
                    [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
                )
            except Exception as error:  # a template may raise whatever its author chose
                raise AssayError(
                    f"{self.name}: its chat template refuses a user message ({first_line(error)})"
                ) from None
        ids = self._tokenizer(text, add_special_tokens=not self.chat, verbose=False)["input_ids"]
        if not ids:
            raise AssayError(f"{self.name}: a prompt has no tokens")
        return np.array(ids, dtype=np.int64)

    def answer(
        self,
        prompts: Sequence[Ids],
        seeds: Sequence[int],
        how: Sampling,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[Answer]:
        """One answer a prompt.

        Args:
            prompts: token ids; `max_new_tokens` more must fit behind each.
            seeds: root of the draws of each answer.
            how: see `Sampling`.
            progress: called with the number of answers so far.
        """
        found: dict[int, Answer] = {}
        # Prompts of like length share a batch, which saves padding.
        order = sorted(range(len(prompts)), key=lambda at: (len(prompts[at]), at))
        for begin in range(0, len(order), how.batch_size):
            part = order[begin : begin + how.batch_size]
            written = self._batch([prompts[at] for at in part], [seeds[at] for at in part], how)
            found.update(zip(part, written, strict=True))
            progress(len(found))
        return [found[at] for at in range(len(prompts))]

    def _batch(self, prompts: Sequence[Ids], seeds: Sequence[int], how: Sampling) -> list[Answer]:
        width = max(map(len, prompts))
        ids = np.full((len(prompts), width), self._pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            # On the left, so that all answers begin in the same column.
            ids[row, width - len(prompt) :], mask[row, width - len(prompt) :] = prompt, 1
        drawn = LogitsProcessorList()
        if how.temperature:
            uniforms = [np.random.default_rng(seed).random(how.max_new_tokens) for seed in seeds]
            drawn.append(TemperatureLogitsWarper(how.temperature))
            if how.top_p < 1:
                drawn.append(TopPLogitsWarper(how.top_p))
            drawn.append(_Draws(np.array(uniforms), width))
        with torch.inference_mode(), reproducible(0, seed=0, strict=self._device.type == "cpu"):
            written = self._model.generate(
                input_ids=torch.from_numpy(ids).to(self._device),
                attention_mask=torch.from_numpy(mask).to(self._device),
                generation_config=self._settings(do_sample=False, max_new_tokens=how.max_new_tokens),
                logits_processor=drawn,
            )
        return [self._read(row) for row in written[:, width:].tolist()]

    def _read(self, row: list[int]) -> Answer:
        end = next((at for at, token in enumerate(row) if token in self._ends), None)
        text = self._tokenizer.decode(row[:end], skip_special_tokens=True)
        return Answer(text, "length" if end is None else "stop", len(row) if end is None else end + 1)


def _ends(model: Any, tokenizer: Any) -> set[int]:
    """Tokens that end an answer: what the model's own settings and its tokenizer say."""
    found: set[int] = set()
    for told in (
        getattr(model.generation_config, "eos_token_id", None),
        model.config.get_text_config().eos_token_id,
        tokenizer.eos_token_id,
    ):
        found.update(told if isinstance(told, list | tuple) else [] if told is None else [told])
    return found
