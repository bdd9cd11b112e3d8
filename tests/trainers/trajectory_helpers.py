"""Trajectories made from nothing: messages, rows, shards, and tokenizers with several templates."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from schemas.records import Message, ToolCall, Trajectory
from schemas.shards import write_shard
from trainers.tokenizer import train_tokenizer
from trainers.trajectories import Attempt

_END = (
    "{{ '<|im_end|>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"
)

CHATML_TOOLS = (
    "{%- for m in messages -%}"
    "{%- if m.role == 'tool' -%}"
    "{{ '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
    "{%- else -%}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{%- for c in m.tool_calls or [] -%}"
    '{{ \'\\n<tool_call>\\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{%- endfor -%}{%- endif -%}" + _END
)
"""A template that shows tools, in the manner of Qwen2.5."""

ALTERNATING = (
    "{%- for m in messages -%}"
    "{%- if m.role not in ('user', 'assistant') -%}{{ raise_exception('unknown ' + m.role) }}{%- endif -%}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('take turns') }}{%- endif -%}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content | trim }}" + _END
)
"""One that takes user and assistant in turns only, in the manner of Gemma."""

STRINGS = CHATML_TOOLS.replace("c.function.arguments | tojson", "'' + c.function.arguments")
"""One that takes arguments as text only, in the manner of DeepSeek."""

FORGETFUL = (
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.tool_calls -%}{{ m.tool_calls | tojson }}{%- else -%}{{ m.content }}{%- endif -%}" + _END
)
"""One that loses the words beside a call, in the manner of Hermes."""

TEMPLATES = {"tools": CHATML_TOOLS, "strings": STRINGS, "alternating": ALTERNATING, "forgetful": FORGETFUL}


def message(role: str, content: str, *calls: ToolCall, answers: str | None = None) -> Message:
    return Message(role=role, content=content, name=None, tool_call_id=answers, tool_calls=list(calls))


def call(name: str, arguments: Any, idx: str | None = None) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id=idx, name=name, arguments=text)


def attempt(
    messages: Sequence[Message], patch: str | None = "+fix\n", resolved: bool | None = True, **other: Any
) -> Attempt:
    facts = {"idx": "t0", "instance": "i0", "policy": "p", "source": "made", **other}
    return Attempt(messages=tuple(messages), patch=patch, resolved=resolved, **facts)


def tokenizer_of(template: str = "", words: str = "") -> PreTrainedTokenizerFast:
    """A small tokenizer that has YES and NO as one token each, with its own template or another."""
    made = train_tokenizer(["YES\nNO\n" * 400, words or "def add(a, b):\n    return a + b\n" * 20], 512)
    if template:
        made.chat_template = template
    return made


def planted(
    count: int, seed: int = 0, instances: int = 40, policies: Sequence[str] = ("small",), **other: Any
) -> list[dict[str, Any]]:
    """Rows of which the resolved ones end with a passing test, the others with a failing one."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        good = draw.random() < 0.5
        name = draw.choice(["load", "read", "parse", "merge"])
        steps = [
            row_message("system", "You fix bugs."),
            row_message("user", f"The function {name} fails."),
        ]
        for _ in range(draw.randrange(1, 4)):
            steps.append(row_message("assistant", f"I look at {name}."))
            steps.append(row_message("tool", f"def {name}(x):\n    return {draw.randrange(100)}\n"))
        steps.append(row_message("assistant", "I run the tests."))
        steps.append(row_message("tool", "ok passed" if good else "an error failed"))
        rows.append(
            {
                "id": f"{seed}-{number:04d}",
                "instance_id": f"task-{draw.randrange(instances):03d}",
                "messages": steps,
                "patch": f"--- a/{name}.py\n+    return {draw.randrange(100)}\n",
                "resolved": good,
                "policy": draw.choice(list(policies)),
                "source": "made",
                "split": "train",
                **other,
            }
        )
    return rows


def row_message(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content, "name": None, "tool_call_id": None, "tool_calls": []}


def trajectory_shard(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows as a shard of trajectories."""
    write_shard(path, Trajectory, rows)
    return path
