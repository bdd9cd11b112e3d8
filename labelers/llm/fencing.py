"""Code inside a prompt that cannot leave its place: neither close its fence nor open another turn.

In: untrusted text. Out: a fenced block. Wrong: nothing; every text can be fenced.
"""

from __future__ import annotations

import re

_RUN = re.compile("`{3,}|~{3,}")
# Marks by which chat templates tell turns apart; servers may read them in a message as if their own.
_TURN = re.compile(
    r"<(?=[|｜][^<>\n]{1,64}[|｜]>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\])"
    r"|<(?=/?(?:start_of_turn|end_of_turn)>)|<(?=</?SYS>>)"
)


def fence(code: str, language: str = "") -> str:
    """A fenced block that the text in it cannot close.

    The fence is longer than any run of its marks in the text. Marks of chat templates (`<|im_end|>`,
    `[INST]`, ...) get a blank inside, so that no server takes them for the end of the message.

    Args:
        language: name behind the opening fence.
    """
    longest = max((len(run) for run in _RUN.findall(code)), default=2)
    marks = "`" * (longest + 1)
    ending = "" if code.endswith("\n") or not code else "\n"
    return f"{marks}{language.lower()}\n{plain_turns(code)}{ending}{marks}"


def plain_turns(text: str) -> str:
    """The text with a blank inside every mark that a chat template would read as the bounds of a turn."""
    return _TURN.sub(lambda mark: mark[0] + " ", text)
