"""Mutation operators for every language but Python, as edits of byte ranges proposed from the syntax tree.

In: one function of a `Source`. Out: edits, not all of which parse or change anything: `decompose.mutate`
keeps those that do. What is done where is data (`decompose.tree_operator_syntax`). Two faults that would
behave alike are proposed once: a condition that is a comparison has its sign turned round and is not negated
besides. In compiled languages a fault is left out where the text tells that no compiler would take it
(`decompose.tree_operator_types`). Time is linear in the program: a long function has fewer of its faults
proposed, spread evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tree_sitter import Node

from decompose.mutate import Edit
from decompose.source import Definition, Source
from decompose.tree_fingerprint import Tokens, digest_of, tokens_of
from decompose.tree_operator_flow import Flow
from decompose.tree_operator_statements import Statements
from decompose.tree_operator_syntax import OPERATIONS
from decompose.tree_operator_types import Types
from decompose.tree_operator_uses import Uses
from decompose.tree_operator_values import Values

_MOST = 20_000
"""Nodes of one function that faults are proposed for; of more, some are passed over, evenly."""


class Part(Values, Flow, Statements):
    """Every operator for one function."""


class Operators:
    """The operators of one language, for the functions of the program that they were last asked about."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.source: Source | None = None
        self.types: Types | None = None
        self.uses: Uses | None = None
        self.tokens: tuple[Definition, Tokens] | None = None

    def propose(self, source: Source, definition: Definition) -> Iterator[Edit]:
        """Every edit that the operators propose in a function's body, in order of position."""
        if self.source is not source or self.types is None:
            self.source, self.types = source, Types(source, self.language)
            self.uses = Uses(source) if self.language == "Go" else None
        body = definition.body
        # A body of Ruby without a statement is the word that ends it.
        if not body.is_named:
            return
        part = Part(source, definition, self.language, self.types)
        yield from (one for one in sorted(set(_walk(part, body))) if self._builds(one, definition))

    def _builds(self, edit: Edit, definition: Definition) -> bool:
        span = definition.span
        return self.uses is None or not self.uses.missing(
            edit.start_byte, edit.end_byte, edit.replacement, (span.start_byte, span.end_byte)
        )

    def fingerprint(self, source: Source, definition: Definition, edit: Edit | None) -> bytes:
        """A digest of the function's syntax tree after an edit, positions and comments left out.

        Raises:
            SourceError: the edited program does not parse.
        """
        if self.tokens is None or self.tokens[0] is not definition:
            self.tokens = definition, tokens_of(definition.node, source.data)
        return digest_of(source, definition, self.tokens[1], edit, self.language)


def tools(
    language: str,
) -> tuple[
    Callable[[Source, Definition], Iterator[Edit]], Callable[[Source, Definition, Edit | None], bytes]
]:
    """What proposes edits in programs of a language, and what tells them apart."""
    made = Operators(language)
    return made.propose, made.fingerprint


def _walk(part: Part, body: Node) -> Iterator[Edit]:
    skipped = OPERATIONS[part.language].skipped
    yield from part.whole_value()
    cursor = body.walk()
    step, seen = -(-body.descendant_count // _MOST), 0
    while True:
        here = cursor.node
        if here is None:
            return
        enter = True
        if here.is_named:
            enter = here.type not in skipped and "comment" not in here.type
            if enter and seen % step == 0:
                yield from part.of(here)
            seen += 1
        if enter and cursor.goto_first_child():
            part.above.append(here)
            continue
        while not cursor.goto_next_sibling():
            if not part.above or not cursor.goto_parent():
                return
            part.above.pop()
