"""The model card of a trained model, made from its `run.json` and nothing else.

In: what `trainers.loop` writes into `run.json`, of any objective. Out: README.md's text: what the model is
for, the objective's formula, held-out measures, how to load it, training data with what was dropped and why,
and settings. No path of the machine that trained it and no time of day gets in: the same run gives the same
card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from trainers.card_text import COLUMNS, FORMULAS, HIDDEN, KINDS, MEASURES, SETTINGS
from trainers.config import TINY


def base_name(model: str) -> str:
    """A model's name for readers: a Hub id as it is, a local folder by its last part."""
    return Path(model).name if Path(model).is_absolute() or Path(model).exists() else model


def model_card(run: Mapping[str, Any]) -> str:
    """The text of README.md for the content of `run.json`."""
    config, counts = run["config"], run["counts"]
    objective = str(config["objective"])
    unit = str(run.get("unit", "pairs"))
    kind = KINDS[objective]
    model = str(config["model"])
    name = base_name(model)
    meta: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": kind.pipeline,
        "tags": [*kind.tags, objective, "code", "assay"],
    }
    if name == model != TINY:
        meta["base_model"] = model
    base = "a two-layer Qwen3 made from scratch" if model == TINY else f"`{name}`"
    train = counts["train"]
    parts = [
        f"---\n{yaml.safe_dump(meta, sort_keys=False)}---",
        f"# {kind.title}",
        f"Trained from {base} ({counts['parameters']:,} parameters) on {train['kept']:,} {unit} in "
        f"{counts['steps']:,} steps. {kind.gives}",
        "## Intended use",
        kind.intended,
        "## Use",
        _code(kind.use),
        kind.serving,
        f"## Held-out {unit}",
        _held_out(objective, run["metrics"]["dev"], counts, unit),
        "## Objective",
        f"`{objective}`: {FORMULAS[objective]}.",
        f"## Training {unit}",
        _training(train, unit),
        *(
            _table((head, unit), ((_plain_name(key), value) for key, value in counts[key_of].items()))
            for key_of, head in COLUMNS.items()
            if counts.get(key_of)
        ),
        "## Settings",
        _table(("setting", "value"), _settings(objective, config)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _held_out(objective: str, dev: Mapping[str, Any] | None, counts: Mapping[str, Any], unit: str) -> str:
    held = counts["dev"]["kept"]
    if dev is None or not held:
        return "None were held out."
    intervals = dev.get("ci95")
    # Of pairs, it is the accuracy's own.
    ranges = intervals if isinstance(intervals, Mapping) else {"accuracy": intervals}
    rows = [
        (f"`{name}`", _number(dev[name]), _range(ranges.get(name)), meaning)
        for name, meaning in MEASURES[objective].items()
        if dev.get(name) is not None
    ]
    return f"On {held:,} {unit}:\n\n" + _table(("measure", "value", "95% interval", "meaning"), rows)


def _training(train: Mapping[str, Any], unit: str) -> str:
    dropped = train["dropped"]
    told = f"Of {train['rows']:,} {unit}, {train['kept']:,} were used and {sum(dropped.values()):,} dropped"
    if dropped:
        told += ": " + ", ".join(f"{count:,} {_words(reason)}" for reason, count in dropped.items())
    told += "."
    noted = {
        name: count
        for name, count in train.items()
        if name not in ("rows", "kept", "dropped") and isinstance(count, int) and count
    }
    if windowed := noted.pop("windowed", 0):
        told += f" Of {windowed:,} only a part was read, since they are longer than `max_length`."
    if noted:
        told += " Noted: " + ", ".join(f"{count:,} {_words(name)}" for name, count in noted.items()) + "."
    return told


def _code(text: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}python\n{text}\n{fence}"


def _settings(objective: str, config: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    special = {name for names in SETTINGS.values() for name in names} - set(SETTINGS[objective])
    for name, value in config.items():
        if name not in HIDDEN and name not in special:
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else value


def _plain_name(value: object) -> str:
    # Where a source lay is nobody's business.
    return Path(str(value)).name if str(value).startswith("/") else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


def _range(value: Any) -> str:
    return "" if value is None else f"{value[0]:.4f} to {value[1]:.4f}"


def _table(head: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
