"""Settings of published models as files, each with what it takes to run it.

In: a recipe's name. Out: its file (`path`), its settings (`load`), and what it needs, computed by
`trainers.hardware` (`planned`, `forecasts`). A file is a `[train]` table with a head of comments: what it
follows, what was chosen here, what it needs, how it is run. The lines on what it needs are those that `needs`
gives; to write them anew, and to print a table of all:

    python -m trainers.recipes --write

Raises `AssayError` for a name that is not there.
"""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path

from schemas.config import parse_toml, read_toml
from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.hardware import DEVICES, MFU, SHAPES, Forecast, forecast, gib, table

_FOLDER = Path(__file__).resolve().parent
_BEGINS = "# What it needs"
_ENDS = "#\n"


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a recipe's data, and the machines that its hours are for.

    Attributes:
        shape: key of `trainers.hardware.SHAPES`.
        tokens: unique tokens of an epoch.
        length: tokens of the sequence that the average token is in.
        predicted: share of the tokens whose probability is read.
        devices: how many devices the hours are for.
        device: which, a key of `trainers.hardware.DEVICES`.
        mfu: share of the peak that is assumed; experts, whose products are small, reach less.
    """

    shape: str
    tokens: float
    length: float
    predicted: float
    devices: int
    device: str = "H100"
    mfu: float = MFU


# Bytes of the published preference sets at 3 bytes a token, each text counted once: what sides share in code
# is not taken off, so that hours are rather too many. Lengths follow from bytes a pair.
_GENERAL = (581_086_365 / 3, 1500, 0.4)
_CODE = (3_018_930_512 / 3, 2000, 0.4)
# 11,400 labelled programs of about 700 tokens; half of them are the program's own.
_PROGRAMS = (11_400 * 700, 700, 0.5)
# 100,000 trajectories; the median of published ones is 38,000 tokens.
_TRAJECTORIES = (100_000 * 40_000, 50_000, 0.0)

# The number of GPUs of each size and stage in Themis (2605.00754, table 5).
_THEMIS = {"0.6b": (8, 8), "1.7b": (8, 8), "4b": (16, 16), "8b": (32, 32), "14b": (32, 64), "32b": (64, 128)}

FACTS: dict[str, Facts] = {
    **{f"themis-pt-{size}": Facts(size, *_GENERAL, gpus[0]) for size, gpus in _THEMIS.items()},
    **{f"themis-pm-{size}": Facts(size, *_CODE, gpus[1]) for size, gpus in _THEMIS.items()},
    "step-ktoder-1.5b": Facts("coder-1.5b", *_PROGRAMS, 1),
    "step-ktoder-3b": Facts("coder-3b", *_PROGRAMS, 1),
    "step-ktoder-6.7b": Facts("deepseek-coder-6.7b", *_PROGRAMS, 2),
    "swe-rm-30b-a3b": Facts("30b-a3b", *_TRAJECTORIES, 32, "H200", 0.15),
    "swe-rm-30b-a3b-lora": Facts("30b-a3b", *_TRAJECTORIES, 8, mfu=0.15),
    "swe-rm-small": Facts("1.7b", 10_000 * 25_000, 25_000, 0.0, 1),
}
"""By recipe; the recipes there are."""


def recipes() -> list[str]:
    """Names of all recipes."""
    return list(FACTS)


def path(name: str) -> Path:
    """The file of a recipe.

    Raises:
        AssayError: there is none of this name.
    """
    if name not in FACTS:
        near = difflib.get_close_matches(name, FACTS, 1)
        advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(FACTS)}"
        raise AssayError(f"{name}: no such training recipe; {advice}")
    return _FOLDER / f"{name}.toml"


def load(name: str) -> TrainConfig:
    """The settings of a recipe.

    Raises:
        AssayError: there is none of this name.
    """
    where = path(name)
    return TrainConfig.from_mapping(parse_toml(read_toml(where, "recipe"), str(where))["train"])


def forecasts(name: str) -> dict[str, Forecast | None]:
    """What a recipe needs on the fewest devices of each kind that do, by kind; None where none do."""
    found: dict[str, Forecast | None] = {}
    for kind in DEVICES:
        try:
            found[kind] = _forecast(name, kind, 0)
        except AssayError:
            found[kind] = None
    return found


def planned(name: str) -> Forecast:
    """What a recipe needs on the devices that its hours are for."""
    return _forecast(name, FACTS[name].device, FACTS[name].devices)


def _forecast(name: str, kind: str, devices: int) -> Forecast:
    facts = FACTS[name]
    return forecast(
        load(name),
        SHAPES[facts.shape],
        facts.tokens,
        device=DEVICES[kind],
        devices=devices,
        length=facts.length,
        predicted=facts.predicted,
        mfu=facts.mfu,
    )


def needs(name: str) -> str:
    """The comment lines of a recipe on what it needs."""
    plan = planned(name)
    trained = "" if plan.trained == plan.parameters else f", {plan.trained / 1e6:.1f} M of them trained"
    lines = [
        f"{_BEGINS}, computed by trainers.hardware ({plan.parameters / 1e9:.2f} B parameters{trained}):",
    ]
    for kind, few in forecasts(name).items():
        least = (
            f"{few.devices} at least, with {gib(few.memory.total)} on each"
            if few
            else "on no number of them: a pass alone is too much; lower pass_tokens and max_length"
        )
        lines.append(f"#   {DEVICES[kind].name}: {least}")
    lines += [
        f"#   {plan.devices} x {plan.device.name}: {gib(plan.memory.total)} on each, {plan.hours:.1f} hours "
        f"for {plan.tokens / 1e6:,.0f} M unique",
        f"#   tokens at {plan.mfu:.0%} of the peak, which is assumed; "
        f"{gib(plan.host)} of the first machine's own memory",
    ]
    return "\n".join(lines) + "\n"


def with_needs(text: str, name: str) -> str:
    """A recipe's text with the lines on what it needs as they are now.

    Raises:
        AssayError: it has no such lines.
    """
    start = text.find(_BEGINS)
    end = text.find(f"\n{_ENDS}", start)
    if start < 0 or end < 0:
        raise AssayError(f"{name}: has no lines that begin with {_BEGINS!r} and end with an empty comment")
    return text[:start] + needs(name) + text[end + 1 :]


def table_of_all() -> str:
    """All recipes on the devices that their hours are for, as a table in Markdown."""
    return table([(f"`{name}`", planned(name)) for name in recipes()])
