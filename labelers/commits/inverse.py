"""Instructions of pairs by a model: a request, or a problem, that both versions may have been written for.

In: proposals with their decisions, a client, the criteria. Out: an `Instruction` each, in order, or None
where no text passed the checks of `leaks`. A text that gives the pair away is asked for again, with what is
wrong with it. The model sees the versions in an order that a hash decides, not their age, and never the
commit's message: with the versions exchanged it is asked the very same.
Wrong: nothing raises but what ends every call (`ModelFault`, `BudgetSpent`). Long versions are shown up to a
bound; what a text must not tell is looked for in all of them.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labelers import prompts
from labelers.commits.config import InstructConfig
from labelers.commits.criteria import Criterion
from labelers.commits.decide import Decision
from labelers.commits.instructions import instruction
from labelers.commits.leaks import Leak, Sides
from labelers.commits.pieces import gap_mark
from labelers.commits.proposals import Proposal
from labelers.commits.spoken import spoken
from labelers.llm.calls import Message, Reply, Request
from labelers.llm.config import RULES
from labelers.llm.fencing import fence
from schemas.ids import content_id, rng
from schemas.records import Instruction

if TYPE_CHECKING:
    from labelers.llm.client import Client

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "instruction": {"type": "string"}},
    "required": ["explanation", "instruction"],
    "additionalProperties": False,
}
PROMPTS = {"inverse": "inverse", "recovered": "recover"}
"""Template of each kind of instruction."""
MOST_SHOWN = 24_000
"""Characters of a version that a model is shown."""
_SEEDS = 1 << 31
_MOST_ANSWER = 4000
_MOST_TOLD = 600
_EXPLANATION_TOKENS = 70
_LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "pt": "Portuguese",
    "it": "Italian",
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "ru": "Russian",
}


def _language(code: str) -> str:
    """A natural language as a model is told it."""
    if not code:
        return "any natural language"
    return _LANGUAGES.get(code, f"the language with the ISO 639-1 code {code}")


@dataclasses.dataclass(frozen=True)
class Style:
    """A style that a text is asked for in.

    Attributes:
        asked: how the model is told.
        least, most: words of the text.
        template: style of the template that comes nearest.
        tokens: tokens of a usual text.
    """

    asked: str
    least: int
    most: int
    template: str
    tokens: int


STYLES = {
    "assignment": Style("an assignment of a graduate course", 20, 250, "assignment", 110),
    "question": Style("a question on Quora", 8, 150, "question", 60),
    "stackoverflow": Style("a question on Stack Overflow", 15, 220, "question", 90),
    "search": Style("a query for Google's search", 3, 25, "search", 15),
    "contest": Style("a problem of a programming contest", 25, 350, "assignment", 150),
}
"""The styles of the Themis paper, by our names."""


@dataclasses.dataclass
class _Wanted:
    """One text that is asked for until it passes.

    `refused` are the reasons of texts so far, one entry a text; `last` is the newest of these with its leaks.
    """

    proposal: Proposal
    kind: str
    style: str
    config: InstructConfig
    seed: int
    refused: list[str] = dataclasses.field(default_factory=list)
    last: tuple[str, list[Leak]] | None = None
    made: Instruction | None = None

    @classmethod
    def of(cls, proposal: Proposal, config: InstructConfig, seed: int) -> _Wanted:
        kind = config.kind
        if kind == "mixed":
            kind = "inverse" if rng(seed, "instruction kind", proposal.id).random() < 0.5 else "recovered"
        return cls(proposal, kind, style_of(proposal.id, seed), config, seed)

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and most words that are let pass: models count badly, so a little more than is asked for."""
        style = STYLES[self.style]
        return style.least // 2, style.most + style.most // 4

    def sides(self, criteria: Sequence[Criterion]) -> Sides:
        """What the text must not tell."""
        edit = self.proposal.view.edit
        return Sides(
            edit["old_contents"],
            edit["new_contents"],
            message=edit["message"],
            subject=edit["subject"],
            places=(edit["path"], edit["repo"], edit["language"]),
            criteria=criteria,
        )

    def request(self) -> Request:
        """What the model is asked now."""
        view, style = self.proposal.view, STYLES[self.style]
        language = view.edit["language"]
        versions = [view.edit["old_contents"], view.edit["new_contents"]]
        # By their hashes: what decides the order must not know which one is the newer.
        versions.sort(key=lambda one: content_id(str(self.seed), "instruction order", self.proposal.id, one))
        first, second = (fence(_cut(one), language) for one in versions)
        name = PROMPTS[self.kind]
        asked = prompts.render(
            name,
            language=language,
            path=prompts.one_line(view.edit["path"]),
            project=prompts.one_line(view.edit["repo"].rpartition("/")[2]),
            first=first,
            second=second,
            style=style.asked,
            least=style.least,
            most=style.most,
            spoken=_language(self.config.spoken),
        )
        attempt = len(self.refused)
        messages = [Message("user", asked)]
        if self.last is not None:
            text, leaks = self.last
            answer = json.dumps({"explanation": "", "instruction": text[:_MOST_ANSWER]}, ensure_ascii=False)
            messages += [Message("assistant", answer), Message("user", _again(leaks))]
        gap = "" if view.level == "file" else gap_mark(language)
        template = instruction(view.edit, self.seed, gap, style=style.template, docs=False)
        return Request(
            tuple(messages),
            temperature=self.config.temperature,
            seed=rng(self.seed, "instruction", self.proposal.id).randrange(_SEEDS),
            sample=attempt,
            schema=SCHEMA,
            rule=json.dumps({"explanation": "", "instruction": template}, ensure_ascii=False),
            kind=prompts.version(name) + ("/again" if self.last else ""),
            expected_tokens=style.tokens + _EXPLANATION_TOKENS,
        )

    def take(self, reply: Reply, sides: Sides, counts: Counter[str]) -> None:
        """Look at an answer: keep its text, or note why not."""
        if reply.error is not None:
            self._refuse("refusal" if reply.finish == "refusal" else "no_answer", None, counts)
            return
        text = reply.parsed["instruction"].strip()
        leaks = sides.leaks(text, self.bounds, self.config.spoken)
        if leaks:
            self._refuse(leaks[0].code, (text, leaks), counts)
            return
        view = self.proposal.view
        self.made = Instruction(
            id=self.proposal.id,
            edit_id=view.edit["id"],
            piece=view.piece,
            text=text,
            # Rules have no text of their own: what they answer with is the template's.
            kind="template" if reply.model == RULES else self.kind,
            style=self.style,
            by=reply.model,
            prompt_version=prompts.version(PROMPTS[self.kind]),
            spoken=self.config.spoken or spoken(text) or "und",
            attempts=len(self.refused) + 1,
            refused=list(self.refused),
        )
        pull = sides.pull(text)
        counts["instructions_written"] += 1
        # Of these three the mean pull of all texts is made.
        counts.update(distinct_words=pull.words, old_only_words=pull.old, new_only_words=pull.new)

    def _refuse(self, code: str, last: tuple[str, list[Leak]] | None, counts: Counter[str]) -> None:
        self.refused.append(code)
        # Without a text there is nothing to speak of, and the model is asked as at first.
        self.last = last
        counts["texts_refused"] += 1
        counts.update({f"refused_{one}" for one in ([leak.code for leak in last[1]] if last else [code])})


def style_of(view_id: str, seed: int) -> str:
    """The style that a model is asked for."""
    return rng(seed, "model instruction style", view_id).choice(tuple(STYLES))


def requests(proposals: Iterable[Proposal], config: InstructConfig, seed: int) -> Iterator[Request]:
    """The requests that are asked at first, one a proposal in order; no model is asked."""
    for proposal in proposals:
        yield _Wanted.of(proposal, config, seed).request()


def write(
    client: Client,
    wanted: Sequence[tuple[Proposal, Decision]],
    criteria: Sequence[Criterion],
    config: InstructConfig,
    seed: int,
    counts: Counter[str],
) -> Iterator[Instruction | None]:
    """The instructions that a model writes, one a proposal in order; None where no text passed.

    Args:
        counts: added are `instructions_written`, `instructions_missing`, `texts_refused`, `refused_<reason>`
            for each reason of a text, and `distinct_words`, `old_only_words`, `new_only_words`: how many
            distinctive words the written texts have, and how many of these stand in one version alone.

    Raises:
        ModelFault, BudgetSpent: as for `Client.ask`.
    """
    all_ = [_Wanted.of(proposal, config, seed) for proposal, _ in wanted]
    for _ in range(config.attempts):
        open_ = [one for one in all_ if one.made is None]
        if not open_:
            break
        replies = client.ask(one.request() for one in open_)
        for one in open_:
            one.take(next(replies), one.sides(criteria), counts)
        # The client tells at its end what got no answer.
        next(replies, None)
    counts["instructions_missing"] += sum(one.made is None for one in all_)
    for one in all_:
        yield one.made


def _cut(code: str) -> str:
    """A version as far as it is shown, up to the end of a line."""
    if len(code) <= MOST_SHOWN:
        return code
    shown = code[:MOST_SHOWN]
    return (shown[: shown.rfind("\n") + 1] or shown) + "(cut here; the rest is not shown)\n"


def _again(leaks: Sequence[Leak]) -> str:
    """What a model is told about a text that was refused."""
    told = "; ".join(_COMPLAINTS[leak.code] + (f" ({leak.told})" if leak.told else "") for leak in leaks)
    return (
        f"That text cannot be used: {prompts.one_line(told, _MOST_TOLD)}. Write another one by the same "
        "rules, and answer with the same JSON."
    )


_COMPLAINTS = {
    "empty": "it is empty",
    "too_short": "it is too short",
    "too_long": "it is too long",
    "placeholder": "it leaves something to be filled in",
    "refusal": "it is no request",
    "preamble": "it has a preamble",
    "answer": "it holds a solution",
    "foreign": "it is in the wrong natural language",
    "names_criterion": "it hints at a quality",
    "words_of_change": "it speaks of a change or compares",
    "one_sided_name": "it has names that only one piece has",
    "one_sided_literal": "it has numbers or quoted text that only one piece has",
    "one_sided_code": "it has code or comments that only one piece has",
    "copied": "it copies a long run of words",
    "quotes_message": "it has a run of words that must not be used",
    "tells_message": "it has words that must not be used",
    "pulls": "it leans towards one piece by its words",
}
