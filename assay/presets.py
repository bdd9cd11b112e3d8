"""Training settings of published models by name, and what a training run will need.

In: a preset's name, or settings with a number of rows. Out: settings, a table of all presets, or a line on
memory and time. What is not known (the shape of a model that is not here) is said and not guessed. Errors are
`AssayError`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.config import parse_toml, read_toml
from schemas.errors import AssayError
from trainers import recipes
from trainers.config import TINY, TrainConfig
from trainers.hardware import DEVICES, SHAPES, Forecast, Shape, forecast, gib

BYTES_A_TOKEN = 3.0
"""Of code, and of prose about it. What sides share is not taken off, so that a forecast is rather high."""


def settings(name: str) -> dict[str, Any]:
    """The settings that a preset gives, and no others.

    Raises:
        AssayError: there is none of this name.
    """
    path = recipes.path(name)
    values: dict[str, Any] = parse_toml(read_toml(path, "preset"), str(path))["train"]
    return values


def shape_of(model: str) -> Shape | None:
    """The numbers of a model's architecture, from its folder or of a well-known Hub id; None if unknown."""
    known = {shape.model: shape for shape in SHAPES.values()}
    if model in known:
        return known[model]
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return _shape(model, json.loads((Path(model) / "config.json").read_text()))
    return None


def _shape(model: str, values: Mapping[str, Any]) -> Shape | None:
    kind = str(values["model_type"])
    if not kind.startswith(("qwen2", "qwen3", "llama", "mistral")):
        return None
    experts = int(values.get("num_experts") or 0)
    heads = int(values["num_attention_heads"])
    hidden = int(values["hidden_size"])
    return Shape(
        model=Path(model).name,
        hidden=hidden,
        layers=int(values["num_hidden_layers"]),
        heads=heads,
        key_heads=int(values.get("num_key_value_heads") or heads),
        head_size=int(values.get("head_dim") or hidden // heads),
        intermediate=int(values["moe_intermediate_size" if experts else "intermediate_size"]),
        vocabulary=int(values["vocab_size"]),
        tied=bool(values.get("tie_word_embeddings")),
        positions=int(values["max_position_embeddings"]),
        normed_heads=kind.startswith("qwen3"),
        biased=kind.startswith("qwen2"),
        experts=experts,
        active=int(values.get("num_experts_per_tok") or 0),
    )


def planned(config: TrainConfig, size: int) -> dict[str, Any]:
    """What training will need on the fewest GPUs that do, by kind of GPU.

    Args:
        config: settings.
        size: bytes of text that is trained on.

    Returns:
        `parameters`, and for each kind `devices`, `bytes_each` and `hours` at an assumed share `mfu` of the
        peak, or `does_not_fit`; or `unknown`, why nothing can be said.
    """
    if config.model == TINY:
        return {"unknown": "a tiny model needs no GPU"}
    shape = shape_of(config.model)
    if shape is None:
        return {"unknown": f"the shape of {config.model} is not known here"}
    found: dict[str, Any] = {}
    for kind, device in DEVICES.items():
        try:
            one = forecast(config, shape, size / BYTES_A_TOKEN, device=device)
        except AssayError as error:
            found[kind] = {"does_not_fit": str(error)}
            continue
        found["parameters"] = one.parameters
        found[kind] = {
            "devices": one.devices,
            "bytes_each": one.memory.total,
            "hours": one.hours,
            "mfu": one.mfu,
        }
    return found


def in_words(found: Mapping[str, Any]) -> str:
    """What is planned, for a person."""
    if "unknown" in found:
        return str(found["unknown"])
    parts = []
    for kind, device in DEVICES.items():
        one = found[kind]
        if "does_not_fit" in one:
            parts.append(one["does_not_fit"])
        else:
            parts.append(
                f"{one['devices']} x {device.name} with {gib(one['bytes_each'])} on each, about "
                f"{_time(one['hours'])} at an assumed {one['mfu']:.0%} of the peak"
            )
    return "; or ".join(parts)


def _time(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(hours * 60))} min"


def rows() -> list[dict[str, Any]]:
    """Every preset with what it needs where its hours are for."""
    found = []
    for name in recipes.recipes():
        config, plan = recipes.load(name), recipes.planned(name)
        found.append({"name": name, "objective": config.objective, "model": config.model, **_needs(plan)})
    return found


def _needs(plan: Forecast) -> dict[str, Any]:
    return {
        "parameters": plan.parameters,
        "devices": plan.devices,
        "device": plan.device.name,
        "bytes_each": plan.memory.total,
        "hours": plan.hours,
        "mfu": plan.mfu,
    }


def show(as_json: bool) -> None:
    """Print all presets."""
    found = rows()
    if as_json:
        print(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="presets of `assay train --preset NAME`", title_justify="left")
    for name, justify in (
        *(("preset", "left"), ("objective", "left"), ("GPUs", "right"), ("memory of each", "right")),
        ("time", "right"),
    ):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in found:
        table.add_row(
            row["name"],
            row["objective"],
            f"{row['devices']} x {row['device'].split()[0]}",
            gib(row["bytes_each"]),
            _time(row["hours"]),
        )
    console = Console()
    with console.capture() as page:
        console.print(table)
        console.print("Computed, not measured: at an assumed share of the peak; see docs/recipes.md.")
    print(page.get(), end="")
