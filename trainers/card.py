"""The model card of a trained reward model, made from its `run.json` and nothing else.

No path of the machine that trained it and no time of day gets in: the same run gives the same card.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trainers.config import TINY

_USE = """```python
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder = "."  # this folder, or its id on the Hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
messages = [
    {"role": "user", "content": "Write a function that adds two numbers."},
    {"role": "assistant", "content": "def add(a, b):\\n    return a + b\\n"},
]
inputs = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)
with torch.inference_mode():
    print(model(**inputs).logits.item())
```"""

# What is not shown says where and how fast the run was made, not what was made.
_HIDDEN = {"model", "pad_token", "dev_share", "eval_every", "eval_batch", "threads", "layout", "pass_tokens"}


def base_name(model: str) -> str:
    """A model's name for readers: a Hub id as it is, a local folder by its last part."""
    return Path(model).name if Path(model).is_absolute() or Path(model).exists() else model


def model_card(run: Mapping[str, Any]) -> str:
    """The text of README.md for the content of `run.json`."""
    config, counts = run["config"], run["counts"]
    model = str(config["model"])
    name = base_name(model)
    meta: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["reward-model", "code", "assay"],
    }
    if name == model != TINY:
        meta["base_model"] = model
    base = "a two-layer Qwen3 made from scratch" if model == TINY else f"`{name}`"
    dropped = sum(counts["train"]["dropped"].values())
    parts = [
        f"---\n{yaml.safe_dump(meta, sort_keys=False)}---",
        "# Code reward model",
        f"Trained from {base} ({counts['parameters']:,} parameters) on {counts['train']['kept']:,} pairs in "
        f"{counts['steps']:,} steps; {dropped:,} pairs were dropped, and of {counts['train']['windowed']:,} "
        f"only a part was read. It gives one score a conversation; a higher "
        "score is better, and only differences between answers to the same prompt mean something.",
        "## Use",
        _USE,
        "## Held-out pairs",
        _dev(run["metrics"]["dev"]),
        "## Training pairs",
        *(
            _table((column, "pairs"), counts[key].items())
            for column, key in (("criterion", "aspects"), ("language", "languages"), ("licence", "licenses"))
        ),
        "## Settings",
        _table(("setting", "value"), ((key, value) for key, value in config.items() if key not in _HIDDEN)),
    ]
    return "\n\n".join(parts) + "\n"


def _dev(dev: Mapping[str, Any] | None) -> str:
    if dev is None or not dev["pairs"]:
        return "None were held out."
    low, high = dev["ci95"]
    return (
        f"Pairwise accuracy {dev['accuracy']:.3f} (95% interval {low:.3f} to {high:.3f}) on {dev['pairs']:,} "
        f"pairs, ties counted half; AUC {dev['auc']:.3f}, Brier score {dev['brier']:.3f}, "
        f"expected calibration error {dev['ece']:.3f}."
    )


def _table(head: tuple[str, str], rows: Any) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [f"| {_cell(key)} | {_cell(value)} |" for key, value in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
