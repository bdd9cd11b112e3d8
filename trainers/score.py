"""Score conversations with a reward model, as transformers itself would.

In: a folder (or Hub id) of a sequence classifier with one label, and prompts with responses. Out: one
float a response; only differences between responses to the same prompt mean something. Responses to
one prompt share its computation where the model can be packed (`trainers.packing`), else they are padded.
A score does not depend on what else is in the batch beyond float rounding. Weights and sums are float32, on a
GPU where there is one. A model that cannot be loaded, a prompt that leaves no room and a score that is not
finite raise `AssayError`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModelForSequenceClassification

from schemas.errors import AssayError
from trainers import attention
from trainers.config import TrainConfig
from trainers.data import Cutting, batches, cut_side, encode_sides
from trainers.environment import quiet, reproducible
from trainers.items import pad
from trainers.loading import load
from trainers.packing import Ids, layout
from trainers.tokenizer import load_tokenizer


class Scorer:
    """A loaded reward model.

    Attributes:
        name: the model's folder name, or its Hub id.
        tokenizer: its tokenizer.
        cutting: how conversations are made to fit: as in its training, else as by default, and never longer
            than it has positions.
        why_padded: why sequences are padded, empty where they are packed.
    """

    def __init__(self, model: str | Path) -> None:
        """Load a model.

        Raises:
            AssayError: it is not there, has not exactly one label, or its tokenizer does not fit.
        """
        folder = Path(model)
        if isinstance(model, Path) and not folder.is_dir():
            raise AssayError(f"{model}: no such model folder; train one first")
        self.name = folder.resolve().name if folder.is_dir() else str(model)
        self.tokenizer = load_tokenizer(str(model))
        with quiet():
            loaded: Any = load(
                AutoModelForSequenceClassification,
                str(model),
                "reward model",
                dtype=torch.float32,
            )
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = loaded.eval().to(self._device)
        config: Any = loaded.config
        if config.num_labels != 1:
            raise AssayError(f"{model}: has {config.num_labels} labels; a reward model has one")
        self._pad_id = int(self.tokenizer.pad_token_id or 0)
        # transformers pools at the last token that is not this one.
        config.get_text_config().pad_token_id = self._pad_id
        settings = _settings(folder)
        self._threads = settings.threads
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        self._positions = positions if isinstance(positions, int) and positions > 0 else None
        self.cutting = Cutting.of(settings)
        if self._positions is not None and self._positions < self.cutting.max_length:
            self.cutting = self._cut_at(self._positions)
        longest = self._positions or self.cutting.max_length
        self.why_padded = (
            attention.attach(loaded.base_model, longest)
            if isinstance(getattr(loaded, "score", None), nn.Linear)
            else "its score head is not one linear layer named score"
        )

    def score_ids(
        self,
        sequences: Sequence[Ids],
        batch_size: int,
        progress: Callable[[int], None] | None = None,
        groups: Sequence[object] | None = None,
    ) -> NDArray[np.float64]:
        """Scores of token sequences, in their order.

        Args:
            sequences: token ids.
            batch_size: sequences in one forward pass.
            progress: called with the number of sequences done so far.
            groups: of each sequence, what those that begin alike have in common, such as their prompt; those
                of one group go into the same pass where they can, and share what they can. None: no
                two share.

        Raises:
            AssayError: a score is not finite.
        """
        scores = np.zeros(len(sequences))
        together: dict[object, list[int]] = {}
        for index in range(len(sequences)):
            together.setdefault(index if groups is None else groups[index], []).append(index)
        # Sequences of like length share a pass: that saves padding, and evens out passes without it.
        order = sorted(together.values(), key=lambda group: max(len(sequences[index]) for index in group))
        done = 0
        for part in batches([index for group in order for index in group], batch_size):
            with (
                torch.inference_mode(),
                reproducible(self._threads, seed=0, strict=self._device.type == "cpu"),
            ):
                scores[list(part)] = self._forward([sequences[index] for index in part], groups, part)
            done += len(part)
            if progress is not None:
                progress(done)
        if not np.isfinite(scores).all():
            raise AssayError(f"{self.name}: gives scores that are not finite; its weights are damaged")
        return scores

    def _forward(
        self, sequences: Sequence[Ids], groups: Sequence[object] | None, indices: Sequence[int]
    ) -> NDArray[np.float64]:
        if self.why_padded:
            ids, mask = pad(sequences, self._pad_id)
            logits = self._model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).logits
        else:
            # Neighbours of one group stand next to each other, so their order is that of the row.
            parts = itertools.groupby(
                zip(indices, sequences, strict=True),
                key=lambda item: item[0] if groups is None else groups[item[0]],
            )
            row = layout([[sequence for _, sequence in part] for _, part in parts])
            hidden = attention.hidden_states(self._model.base_model, row)
            logits = self._model.score(hidden[torch.from_numpy(row.last).to(self._device)])
        found: NDArray[np.float64] = logits[:, 0].double().cpu().numpy()
        return found

    def cut_to(self, max_length: int) -> Cutting:
        """The model's rule for another length; 0 keeps its own.

        Raises:
            AssayError: the model has fewer positions.
        """
        if max_length in (0, self.cutting.max_length):
            return self.cutting
        if self._positions is not None and max_length > self._positions:
            raise AssayError(
                f"{self.name}: reads at most {self._positions} tokens, but max_length is {max_length}"
            )
        return self._cut_at(max_length)

    def _cut_at(self, max_length: int) -> Cutting:
        return dataclasses.replace(self.cutting, max_length=max_length, min_completion=max_length // 2)

    def score(
        self,
        prompts: Sequence[str],
        responses: Sequence[str],
        *,
        systems: Sequence[str] | None = None,
        batch_size: int = 16,
        max_length: int = 0,
    ) -> list[float]:
        """See `score`."""
        if len(prompts) != len(responses) or (systems is not None and len(systems) != len(prompts)):
            raise AssayError(f"{len(prompts)} prompts, but {len(responses)} responses or system prompts")
        cutting = self.cut_to(max_length)
        triples = list(zip(systems or [""] * len(prompts), prompts, responses, strict=True))
        sequences = []
        for number, side in enumerate(encode_sides(self.tokenizer, triples)):
            ids = cut_side(side, cutting)
            if ids is None:
                raise AssayError(
                    f"response {number}: its prompt of {side.start} tokens is too long for "
                    f"{cutting.max_length} in all; raise max_length or shorten the prompt"
                )
            sequences.append(ids)
        prompted = [triple[:2] for triple in triples]
        return [float(value) for value in self.score_ids(sequences, batch_size, groups=prompted)]


def score(
    model: str | Path,
    prompts: Sequence[str],
    responses: Sequence[str],
    *,
    systems: Sequence[str] | None = None,
    batch_size: int = 16,
    max_length: int = 0,
) -> list[float]:
    """Scores of responses to prompts, in their order.

    Args:
        model: folder or Hub id of a reward model.
        prompts: one a response.
        responses: a response that does not fit is cut at its end, the end of turn stays.
        systems: system prompts, one a response; empty ones make no message.
        batch_size: conversations in one forward pass.
        max_length: tokens of a conversation; 0 takes what the model was trained with, else 4096.

    Raises:
        AssayError: see the module, or the lists are of different lengths.
    """
    return Scorer(model).score(
        prompts, responses, systems=systems, batch_size=batch_size, max_length=max_length
    )


def _settings(folder: Path) -> TrainConfig:
    try:
        found = json.loads((folder / "run.json").read_text())["config"]
        return TrainConfig.from_mapping(found).resolved()
    except (OSError, ValueError, KeyError, TypeError, AssayError):
        # Not one of ours, or of another version: the defaults do.
        return TrainConfig(model="pretrained").resolved()
