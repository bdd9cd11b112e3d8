"""Read from an exported verifier how probable it is that an agent's attempt resolves its task.

In: a folder (or Hub id) of a causal language model with `verifier.json` (see `trainers.export`), and
trajectories. Out: a probability each, sigma((l_yes - l_no) / T), and the log-odds that it is made of. T is
the temperature of `verifier.json` times that of `calibration.json`, where an evaluation has fitted one
(`write_calibration`). A probability does not depend on what else is computed beside it beyond float
rounding. What cannot be loaded, and log-odds that are not finite, raise `AssayError`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils.hub import cached_file

from schemas.errors import AssayError
from schemas.records import Message, ToolCall
from schemas.shards import write_text
from schemas.stage import Drop
from trainers.config import TrainConfig
from trainers.engine import Engine
from trainers.environment import quiet, reproducible
from trainers.export import VERIFIER_FILE
from trainers.items import Found
from trainers.model import build
from trainers.objectives.verifier import Verifier, item_of
from trainers.rowfiles import BadRow, checked_text, name_text, text_of
from trainers.tokenizer import first_line, load_tokenizer
from trainers.trajectories import Attempt, Encoded, Renderer
from trainers.world import Alone

CALIBRATION_FILE = "calibration.json"
ROLES = ("system", "user", "assistant", "tool")
COLUMNS = ("id", "instance_id", "instance", "messages", "patch", "resolved", "policy", "source")
"""Columns of a row of any file that `attempt_from` reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier says of an attempt.

    Attributes:
        probability: that the task is resolved.
        log_odds: its logit.
        windowed: whether a part of the conversation was left out, since it was too long.
    """

    probability: float
    log_odds: float
    windowed: bool


class TrajectoryVerifier:
    """A loaded verifier.

    Attributes:
        name: the model's folder name, or its Hub id.
        temperature: what log-odds were divided by.
        renderer: makes token sequences of attempts.
        why_padded: why sequences are padded, empty where they are packed.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        max_length: int = 0,
        pass_tokens: int = 0,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Load a verifier.

        Args:
            model: folder or Hub id.
            max_length: most tokens of a trajectory; 0 takes what it was trained with.
            pass_tokens: most tokens of a forward pass, unless one trajectory has more; 0 is 8 * `max_length`.
            device: where to compute; None is the accelerator, if there is one.
            dtype: type to compute in; None is float32 on a CPU, and elsewhere that of the model's files.

        Raises:
            AssayError: it is not there or no verifier, its files contradict each other, or it reads fewer
                tokens than `max_length`.
        """
        folder = Path(model)
        if isinstance(model, Path) and not folder.is_dir():
            raise AssayError(f"{model}: no such model folder; train one first")
        self.name = folder.resolve().name if folder.is_dir() else str(model)
        told = _file(model, VERIFIER_FILE)
        if told is None:
            raise AssayError(
                f"{model}: is no verifier, since it has no {VERIFIER_FILE}; "
                "train one with the objective yesno or joint"
            )
        config = _settings(str(model), told, max_length, pass_tokens)
        question = told.get("question")
        tokenizer = load_tokenizer(str(model))
        self.renderer = Renderer(
            tokenizer,
            config.max_length,
            config.yes_token,
            config.no_token,
            question if isinstance(question, str) else "",
        )
        if [told.get("yes_id"), told.get("no_id")] != [self.renderer.yes, self.renderer.no]:
            raise AssayError(
                f"{model}: {VERIFIER_FILE} names other tokens than its tokenizer; export it again"
            )
        self.temperature = config.temperature
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        with quiet():
            loaded = build(config, tokenizer, scored=False)
        self.why_padded = loaded.why_padded
        self._engine = Engine(
            loaded.to(self.device, dtype or self._dtype(model)),
            Alone(self.device),
            Verifier(config),
            layout=loaded.layout,
            pass_tokens=config.pass_tokens,
            pad_id=int(tokenizer.pad_token_id or 0),
        )

    def _dtype(self, model: str | Path) -> torch.dtype:
        named = (_file(model, "config.json") or {}).get("dtype")
        half = self.device.type != "cpu" and named == "bfloat16"
        return torch.bfloat16 if half else torch.float32

    def verify(
        self, attempts: Sequence[Attempt], progress: Callable[[int, int], None] | None = None
    ) -> list[Verdict | Drop]:
        """A verdict on each attempt, or why there is none.

        Args:
            attempts: in any order; those at one task share the computation of what they begin with.
            progress: called with the passes done, and all passes.

        Raises:
            AssayError: log-odds are not finite.
        """
        encoded = self.renderer.encode(attempts)
        items = [
            item_of(attempt.idx, [attempt], [one.ids], self.renderer.yes, self.renderer.no)
            for attempt, one in zip(attempts, encoded, strict=True)
            if isinstance(one, Encoded)
        ]
        with reproducible(0, seed=0, strict=self.device.type == "cpu"):
            found = self._engine.infer(items, progress)
        answers = iter(found)
        return [one if isinstance(one, Drop) else self._verdict(one, next(answers)) for one in encoded]

    def _verdict(self, encoded: Encoded, found: Found) -> Verdict:
        yes, no = map(float, found.logprobs[0])
        odds = (yes - no) / self.temperature
        if not math.isfinite(odds):
            raise AssayError(f"{self.name}: gives log-odds that are not finite; its weights are damaged")
        return Verdict(_sigmoid(odds), odds, encoded.windowed)

    def probabilities(self, attempts: Sequence[Attempt]) -> list[float]:
        """The probability of each attempt that its task is resolved.

        Raises:
            AssayError: of an attempt there is none, or as `verify`.
        """
        found = []
        for attempt, verdict in zip(attempts, self.verify(attempts), strict=True):
            if isinstance(verdict, Drop):
                raise AssayError(f"trajectory {attempt.idx}: {verdict.reason} ({verdict.detail})")
            found.append(verdict.probability)
        return found


def is_verifier(model: str | Path) -> bool:
    """Whether a model is a verifier.

    Raises:
        AssayError: its files are damaged, or it cannot be reached.
    """
    return _file(model, VERIFIER_FILE) is not None


def write_calibration(folder: Path, temperature: float, facts: Mapping[str, Any]) -> None:
    """Put a temperature beside a verifier, by which its log-odds are divided from now on.

    It replaces one that is there: fit it on what the verifier says without that.

    Args:
        folder: the verifier's.
        temperature: above 0.
        facts: what it was fitted on, JSON-like.
    """
    if not 0 < temperature < math.inf:
        raise AssayError(f"{folder}: a temperature of {temperature} is not above 0")
    told = {"temperature": temperature, **facts}
    write_text(folder / CALIBRATION_FILE, json.dumps(told, indent=1) + "\n")


def temperature_of(folder: Path) -> float | None:
    """The temperature that was fitted after training, None where none was."""
    told = _file(folder, CALIBRATION_FILE)
    return None if told is None else float(told["temperature"])


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def _settings(model: str, told: Mapping[str, Any], max_length: int, pass_tokens: int) -> TrainConfig:
    calibration = _file(model, CALIBRATION_FILE) or {"temperature": 1.0}
    try:
        length = max_length or int(told["max_length"])
        return TrainConfig.from_mapping(
            {
                "objective": "yesno",
                "model": model,
                "yes_token": told["yes_token"],
                "no_token": told["no_token"],
                "temperature": float(told["temperature"]) * float(calibration["temperature"]),
                "max_length": length,
                "pass_tokens": pass_tokens,
            }
        ).resolved()
    except KeyError as error:
        raise AssayError(
            f"{model}: {VERIFIER_FILE} or {CALIBRATION_FILE} has no {error}; export it again"
        ) from None
    except (TypeError, ValueError):
        raise AssayError(
            f"{model}: {VERIFIER_FILE} or {CALIBRATION_FILE} is damaged; export it again"
        ) from None


def _file(model: str | Path, name: str) -> dict[str, Any] | None:
    """The JSON object in a file of a model; None when it has none.

    Raises:
        AssayError: it is damaged, or the model cannot be reached.
    """
    try:
        path = cached_file(str(model), name, _raise_exceptions_for_missing_entries=False)
        found = None if path is None else json.loads(Path(path).read_text())
    except (OSError, RecursionError, ValueError) as error:
        raise AssayError(f"{model}: {name} cannot be read ({first_line(error)})") from None
    if found is not None and not isinstance(found, dict):
        raise AssayError(f"{model}: {name} holds no JSON object; export it again")
    return found


def attempt_from(values: dict[str, Any], number: int) -> Attempt:
    """An attempt from a row of a file that anyone may have written: `messages` as in OpenAI's chat format or
    as in the table, and `patch`, `resolved`, `policy`, `id` and `instance_id` where it has them.

    Raises:
        BadRow: it cannot be used.
    """
    messages = values.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRow("bad_messages", "messages is no list of messages")
    idx = name_text(values, ("id",)) or str(number)
    resolved = values.get("resolved")
    if resolved is not None and resolved not in (0, 1):
        raise BadRow("bad_outcome", f"resolved is {str(resolved)[:40]!r}")
    return Attempt(
        idx=idx,
        instance=name_text(values, ("instance_id", "instance")) or idx,
        messages=tuple(_message(value) for value in messages),
        patch=text_of(values, ("patch",), empty=True),
        resolved=None if resolved is None else bool(resolved),
        policy=name_text(values, ("policy",)),
        source=name_text(values, ("source",)) or "",
    )


def _message(value: Any) -> Message:
    if not isinstance(value, dict) or value.get("role") not in ROLES:
        raise BadRow("bad_messages", f"a message has none of the roles {', '.join(ROLES)}")
    calls = value.get("tool_calls") or []
    if not isinstance(calls, list):
        raise BadRow("bad_messages", "tool_calls is no list")
    return Message(
        role=value["role"],
        content=text_of(value, ("content",), empty=True) or "",
        name=name_text(value, ("name",)),
        tool_call_id=name_text(value, ("tool_call_id",)),
        tool_calls=[_call(call) for call in calls],
    )


def _call(value: Any) -> ToolCall:
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise BadRow("bad_messages", "a tool call is no object")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        except RecursionError:
            raise BadRow("bad_messages", "arguments are nested too deep") from None
    return ToolCall(
        id=name_text(value, ("id",)),
        name=checked_text(function.get("name"), "a tool call's name"),
        arguments=checked_text(arguments, "arguments", empty=True),
    )
