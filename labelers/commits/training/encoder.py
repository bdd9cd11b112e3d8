"""The encoder criterion classifier: a fine-tuned encoder a sigmoid head a criterion and one for purposes.

In: edits as texts (message, then the diff), their weak labels, annotations; a folder of any encoder that
transformers' `AutoModel` knows. Out: a folder that `label.classifier` can name: `encoder/` (weights and
tokenizer), `heads.safetensors`, `criteria_encoder.json` (calibration and threshold) and the report. Weights
come from safetensors only and no code of a model is run. torch and transformers are imported when something
is loaded.

A text is scored alone, so its score does not depend on others; training is seeded, so the same machine makes
the same weights.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labelers.commits import criteria, terms
from labelers.commits.classifying.features import features_of
from labelers.commits.classifying.model import SINGLE
from labelers.commits.classifying.rules import CODES, votes
from labelers.commits.training import linear, metrics, report, weak
from labelers.commits.training.config import CriteriaConfig
from labelers.commits.training.metrics import Judged
from schemas import shards
from schemas.changes import lines_at
from schemas.errors import AssayError
from schemas.ids import rng

if TYPE_CHECKING:
    import torch

FILE = "criteria_encoder.json"
WEIGHTS = "heads.safetensors"
FORMAT = 1
HEADS = (*CODES, SINGLE)
WEAK_WEIGHT = 0.1
"""Weight of a weak label beside an annotation that is sure."""
MOST_MESSAGE, MOST_DIFF, MOST_LINE = 1200, 6000, 200

Text = tuple[str, list[int]]
"""An edit as text, and the votes of the weak rules about it."""


def rendered(edit: Mapping[str, Any]) -> str:
    """An edit as text: path, message, the changed lines of each hunk, `-` before old and `+` before new."""
    lines: list[str] = []
    # Half of the room a side, so that a long old version does not hide the new one.
    room = {"-": MOST_DIFF // 2, "+": MOST_DIFF // 2}
    for hunk in edit["hunks"]:
        for sign, side in (("-", "old"), ("+", "new")):
            span = (hunk[f"{side}_start"], min(hunk[f"{side}_lines"], room[sign]))
            for line in lines_at(edit[f"{side}_contents"], [span]):
                if room[sign] > 0:
                    lines.append(sign + line[:MOST_LINE])
                    room[sign] = max(0, room[sign] - len(lines[-1]) - 1)
        lines.append("")
        if not any(room.values()):
            break
    message = terms.TRAILER.sub("", edit["message"][: 4 * MOST_MESSAGE]).strip()[:MOST_MESSAGE]
    return f"{edit['path']}\n{message}\n\n" + "\n".join(lines)[:MOST_DIFF]


def prepared(edit: Mapping[str, Any]) -> Text:
    """What training needs of an edit."""
    return rendered(edit), votes(features_of(edit))


class Encoder:
    """An encoder with heads, in memory."""

    def __init__(self, model: Any, tokenizer: Any, heads: torch.nn.Linear, max_tokens: int) -> None:
        self.model, self.tokenizer, self.heads, self.max_tokens = model, tokenizer, heads, max_tokens

    def logits(self, texts: Sequence[str]) -> torch.Tensor:
        """Scores of texts, batch x heads: heads over the mean of the hidden states that are no padding."""
        given = self.tokenizer(
            list(texts), truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        device = self.heads.weight.device
        ids, mask = given["input_ids"].to(device), given["attention_mask"].to(device)
        # hidden: batch x tokens x width
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        weight = mask.unsqueeze(-1).float()
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
        made: torch.Tensor = self.heads(mean)
        return made

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Scores of texts, each read alone."""
        import torch

        self.model.eval()
        with torch.inference_mode():
            rows = [self.logits([text])[0].double().cpu().numpy() for text in texts]
        made: NDArray[np.float64] = np.array(rows).reshape(len(texts), len(HEADS))
        return made


def _folder(folder: Path) -> None:
    if not folder.is_dir() or not any(folder.glob("*.safetensors")):
        raise AssayError(
            f"{folder}: no folder of an encoder with weights in safetensors; give one with --encoder"
        )


def _open(folder: Path, max_tokens: int) -> tuple[Any, Any, int]:
    """(model, tokenizer, tokens of a text at most) of an encoder's folder."""
    _folder(folder)
    try:
        import torch
        import transformers
    except ImportError as error:
        raise AssayError(
            f"an encoder needs {error.name}: install assay with its extra, `pip install 'assay[train]'`"
        ) from None
    library: Any = transformers
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
        model = library.AutoModel.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    except Exception as error:  # whatever a damaged folder makes transformers raise
        told = str(error).split("\n", 1)[0][:200]
        raise AssayError(f"{folder}: transformers cannot load this encoder ({told})") from None
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise AssayError(f"{folder}: its tokenizer has no token to pad with")
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.truncation_side = tokenizer.padding_side = "right"
    most = getattr(model.config, "max_position_embeddings", None) or max_tokens
    return model, tokenizer, min(max_tokens, int(most))


def _fine_tuned(
    rows: Sequence[tuple[str, NDArray[np.float64], NDArray[np.float64]]], config: CriteriaConfig, purpose: str
) -> Encoder:
    """An encoder trained on (text, targets, weights) by weighted cross-entropy of each head."""
    import torch

    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices):
        torch.manual_seed(rng(config.seed, "criteria encoder", purpose).getrandbits(62))
        model, tokenizer, most = _open(Path(config.model), config.max_tokens)
        device = "cuda" if devices else "cpu"
        heads = torch.nn.Linear(model.config.hidden_size, len(HEADS))
        torch.nn.init.zeros_(heads.weight)
        # Begin at the shares of the criteria, so that the first steps need not learn them.
        weight = np.stack([row[2] for row in rows])
        share = (np.stack([row[1] for row in rows]) * weight).sum(0) / np.maximum(weight.sum(0), 1e-9)
        share = np.clip(share, 0.01, 0.99)
        with torch.no_grad():
            heads.bias.copy_(torch.tensor(np.log(share / (1 - share)), dtype=torch.float32))
        encoder = Encoder(model.to(device), tokenizer, heads.to(device), most)
        groups = [
            {"params": list(model.parameters()), "lr": config.rate},
            {"params": list(heads.parameters()), "lr": 10 * config.rate},
        ]
        optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
        steps = config.epochs * math.ceil(len(rows) / config.batch)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
        model.train()
        for epoch in range(config.epochs):
            for batch in _batches(rows, config, f"{purpose} {epoch}"):
                targets = torch.tensor(
                    np.stack([row[1] for row in batch]), dtype=torch.float32, device=device
                )
                weights = torch.tensor(
                    np.stack([row[2] for row in batch]), dtype=torch.float32, device=device
                )
                logits = encoder.logits([row[0] for row in batch])
                each = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
                loss = (each * weights).sum() / weights.sum().clamp(min=1e-6)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_([*model.parameters(), *heads.parameters()], 1.0)
                optimizer.step()
                schedule.step()
        return encoder


def _batches(rows: Sequence[Any], config: CriteriaConfig, purpose: str) -> Iterator[list[Any]]:
    order = list(range(len(rows)))
    rng(config.seed, "criteria batches", purpose).shuffle(order)
    for begin in range(0, len(order), config.batch):
        yield [rows[number] for number in order[begin : begin + config.batch]]


def _rows(
    found: Sequence[tuple[str, Text, Judged | None]], left_out: frozenset[int] = frozenset()
) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """(text, targets, weights) of each edit, a target and a weight a head.

    What annotators said of `left_out` rows weighs no rule.
    """
    judged = {number: one for number, (_, _, one) in enumerate(found) if one is not None}
    told = {
        number: {code: one.criterion != metrics.NONE and code in (one.criterion, *one.also) for code in CODES}
        for number, one in judged.items()
    }
    weighing = {number: one for number, one in told.items() if number not in left_out}
    chance, _ = weak.combine(np.array([text[1] for _, text, _ in found], dtype=np.int8), weighing)
    made = []
    for number, (_, text, one) in enumerate(found):
        if one is None:
            # Rules say nothing of purposes.
            targets, weight = np.append(chance[number], 0.0), np.append(np.full(len(CODES), WEAK_WEIGHT), 0.0)
        else:
            targets = np.array([*(float(told[number][code]) for code in CODES), float(one.single_intent)])
            weight = np.full(len(HEADS), linear.SURE[one.confidence])
        made.append((text[0], targets, weight))
    return made


def train(
    found: Sequence[tuple[str, Text, Judged | None]],
    config: CriteriaConfig,
    out: Path,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Fine-tune an encoder into the folder `out`; returns its report, whose figures are out of fold.

    Raises:
        AssayError: too few annotated edits to calibrate with, no usable encoder, or `out` cannot be written.
    """
    _folder(Path(config.model))
    known = [number for number, (_, _, one) in enumerate(found) if one is not None]
    if len(known) < linear.FEW:
        raise AssayError(
            f"{len(known)} annotated edits are too few to calibrate an encoder; {linear.FEW} at least"
        )
    progress(f"{len(found) - len(known):,} edits with weak labels, {len(known):,} annotated")
    rows = _rows(found)
    judged = [one for _, _, one in found if one is not None]
    fold = linear.folds_of([found[number][0] for number in known], config.folds)
    whole = len({found[number][0] for number in known}) > 1
    of_group = {found[number][0]: int(fold[place]) for place, number in enumerate(known) if whole}
    scores = np.zeros((len(known), len(HEADS)))
    for number in sorted(set(fold.tolist())):
        progress(f"fold {number + 1} of {config.folds}")
        left = np.flatnonzero(fold == number)
        aside = {known[place] for place in left.tolist()}
        kept = [
            row
            for at, (row, (group, _, _)) in enumerate(zip(rows, found, strict=True))
            if at not in aside and of_group.get(group, -1) != number
        ]
        scores[left] = _fine_tuned(kept, config, f"fold {number}").scores([rows[known[n]][0] for n in left])
    progress("all edits")
    encoder = _fine_tuned(rows, config, "all")
    slope, offset, chances = linear.calibrated(scores, judged)
    threshold = metrics.threshold_for(chances[:, :-1], CODES, judged, config.precision)
    spelled = {one.code: one.name for one in criteria.load() if one.code in CODES}
    head = {
        "format": FORMAT,
        "kind": "encoder",
        "heads": list(HEADS),
        "names": spelled,
        "slope": [round(float(value), 4) for value in slope],
        "offset": [round(float(value), 4) for value in offset],
        "threshold": threshold,
        "max_tokens": encoder.max_tokens,
        "about": {"edits with weak labels": len(found) - len(known), "annotated edits": len(known)},
    }
    try:
        _save(encoder, head, out)
        saved = load(out)
        about = {
            "classifier": saved.version,
            "trained": head["about"],
            "threshold": threshold,
            "scores": "out of fold",
            "figures": metrics.measure(chances[:, :-1], chances[:, -1], CODES, judged, threshold),
        }
        report.write(about, out)
    except OSError as error:
        raise AssayError(f"{out}: cannot be written ({error.strerror}); give another --out") from None
    return about


def _save(encoder: Encoder, head: Mapping[str, Any], out: Path) -> None:
    from safetensors.torch import save

    folder = out / "encoder"
    folder.mkdir(parents=True, exist_ok=True)
    encoder.model.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    state = {name: value.detach().cpu().contiguous() for name, value in encoder.heads.state_dict().items()}
    with shards.replacing(out / WEIGHTS) as handle:
        handle.write(save(state))
    shards.write_text(out / FILE, json.dumps(head, indent=1) + "\n")


@dataclasses.dataclass
class EncoderScorer:
    """A `Scorer` around a fine-tuned encoder; weights are read at the first score."""

    folder: Path
    version: str
    names: dict[str, str]
    threshold: float
    slope: NDArray[np.float64]
    offset: NDArray[np.float64]
    max_tokens: int
    encoder: Encoder | None = None

    def score(
        self, edit: Mapping[str, Any], codes: Sequence[str]
    ) -> tuple[dict[str, float], dict[str, list[str]]]:
        """Probabilities of every head, and the criteria's terms that the message has."""
        if self.encoder is None:
            self.encoder = self._loaded()
        total = self.encoder.scores([rendered(edit)])[0]
        found = 1 / (1 + np.exp(-np.clip(self.slope * total + self.offset, -30, 30)))
        chances = {head: round(float(value), 4) for head, value in zip(HEADS, found, strict=True)}
        known = {one.code: one for one in criteria.load()}
        reasons = {
            code: terms.hits((*known[code].strong, *known[code].weak), edit["message"][:MOST_MESSAGE])
            for code in codes
        }
        return chances, reasons

    def _loaded(self) -> Encoder:
        import torch
        from safetensors.torch import load_file

        model, tokenizer, most = _open(self.folder / "encoder", self.max_tokens)
        heads = torch.nn.Linear(model.config.hidden_size, len(HEADS))
        try:
            heads.load_state_dict(load_file(self.folder / WEIGHTS))
        except Exception as error:  # safetensors and torch each have errors of their own
            told = str(error).split("\n", 1)[0][:200]
            raise AssayError(f"{self.folder / WEIGHTS}: not the heads of this encoder ({told})") from None
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return Encoder(model.to(device), tokenizer, heads.to(device), most)


def load(folder: Path) -> EncoderScorer:
    """The classifier of a folder that `train criteria --backend encoder` made.

    Raises:
        AssayError: there is none, or it cannot be used.
    """
    path = folder / FILE
    try:
        if path.stat().st_size > 1 << 20:
            raise ValueError("larger than 1 MiB")
        data = json.loads(path.read_text("utf-8"))
        if data["format"] != FORMAT or data["kind"] != "encoder" or tuple(data["heads"]) != HEADS:
            raise ValueError(f"not an encoder of format {FORMAT} with heads {', '.join(HEADS)}")
        slope, offset = (np.array(data[key], dtype=np.float64) for key in ("slope", "offset"))
        if slope.shape != (len(HEADS),) or offset.shape != (len(HEADS),):
            raise ValueError("'slope' and 'offset' must be a number a head")
        if not (
            np.isfinite(slope).all() and np.isfinite(offset).all() and 0 <= float(data["threshold"]) <= 1
        ):
            raise ValueError("a number is none that it can be")
        names = {code: str(data["names"][code]) for code in CODES}
        state = hashlib.sha256(path.read_bytes())
        for weights in sorted([folder / WEIGHTS, *(folder / "encoder").glob("*.safetensors")]):
            with weights.open("rb") as handle:
                state.update(hashlib.file_digest(handle, "sha256").digest())
        return EncoderScorer(
            folder,
            f"encoder-{state.hexdigest()[:12]}",
            names,
            float(data["threshold"]),
            slope,
            offset,
            int(data["max_tokens"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise AssayError(f"{path}: cannot be used as a criterion classifier ({why})") from None
