"""Commits that a later message says it takes back.

`claim_of` reads what one message claims; `Undone` settles all claims of a history. A claim names commits by
id, by their request, or by their subject (`miner.reverts`). A revert that was itself taken back counts for
nothing, and so does one older than a message that brings its target back.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from miner import provenance, reverts


class Claim(NamedTuple):
    """What a message takes back or brings back.

    Attributes:
        commits: ids, perhaps abbreviated, of what it takes back.
        names: requests and other names of what it takes back.
        again: ids of what it brings back.
        base, level: the subject that it is about at bottom, and how often that was taken back and brought
            back (`reverts.undo_level`); level 0 claims nothing.
    """

    commits: tuple[str, ...]
    names: tuple[str, ...]
    again: tuple[str, ...]
    base: str
    level: int


def claim_of(message: str, repo: str | None = None) -> Claim | None:
    """What a message claims, or None when it is nothing."""
    base, level = reverts.undo_level(provenance.first_line(message))
    claim = Claim(
        tuple(reverts.reverted_commits(message)),
        tuple(reverts.reverted_requests(message, repo)),
        tuple(reverts.reapplied_commits(message)),
        base if level else "",
        level,
    )
    return claim if claim.commits or claim.names or claim.again or claim.level else None


class Named(NamedTuple):
    """Commits by what claims call them.

    Attributes:
        names: request or other name -> commits, in any order.
        subjects: subject at bottom -> (commit, level) of those that are about it, in any order.
    """

    names: Mapping[str, list[str]]
    subjects: Mapping[str, list[tuple[str, int]]]


class Undone:
    """Settles the claims of a history.

    Args:
        order: its commits, each after its parents.
        owner: commit -> the merge that brought it.
        named: commits that claims may name.
    """

    def __init__(self, order: Sequence[str], owner: Mapping[str, str], named: Named) -> None:
        self.position = {commit: index for index, commit in enumerate(order)}
        self.ids = sorted(order)
        self.owner = owner
        self.names = {name: list(commits) for name, commits in named.names.items()}
        self.subjects = {
            base: sorted((self.position[commit], level) for commit, level in about if commit in self.position)
            for base, about in named.subjects.items()
        }
        self.order = order
        self._brought: dict[str, list[str]] | None = None

    def _expand(self, commit: str, known: Container[str]) -> Iterator[str]:
        """A commit, and when it is a merge, all that it brought; nothing below one that is known."""
        if self._brought is None:
            self._brought = defaultdict(list)
            for other, merge in self.owner.items():
                self._brought[merge].append(other)
        todo = [commit]
        while todo:
            one = todo.pop()
            if one not in known:
                yield one
                todo += self._brought.get(one, [])

    def _resolve(self, prefix: str) -> str | None:
        at = bisect.bisect_left(self.ids, prefix)
        found = self.ids[at : at + 2]
        if not found or not found[0].startswith(prefix):
            return None
        return None if len(found) > 1 and found[1].startswith(prefix) else found[0]

    def _earlier(self, named: Iterator[str | None], mine: int) -> list[str]:
        return [one for one in named if one is not None and self.position.get(one, mine) < mine]

    def _by_subject(self, claim: Claim, mine: int) -> list[str]:
        """The newest earlier commit about the same subject that stands the other way."""
        about = self.subjects.get(claim.base, [])
        at = bisect.bisect_left(about, (mine, -1)) - 1
        # Commits that follow one another stand the same way only where somebody repeats himself.
        for position, level in reversed(about[max(0, at - _LOOK_BACK) : at + 1]):
            if level % 2 != claim.level % 2:
                return [self.order[position]]
        return []

    def targets(self, reverter: str, claim: Claim, known: Container[str]) -> Iterator[str]:
        """Commits that a claim takes back, of those that come before it and are not known yet.

        Asked from the newest reverter to the oldest, with what was found as known, this takes time
        linear in the history, however many messages name the same merge or request.
        """
        mine = self.position[reverter]
        found = self._earlier(map(self._resolve, claim.commits), mine)
        for name in claim.names:
            # What comes after this reverter comes after all older ones too.
            wanted = self.names.get(name, [])
            found += self._earlier(iter(wanted), mine)
            wanted.clear()
        if not found and claim.level:
            found = self._by_subject(claim, mine)
        for one in found:
            yield from self._expand(one, known)

    def settle(self, claims: Mapping[str, Claim]) -> dict[str, str]:
        """Commit -> the commit that takes it back for good."""
        result: dict[str, str] = {}
        again: dict[str, int] = {}
        for commit in sorted(claims, key=lambda commit: -self.position[commit]):
            if commit in result:
                continue
            claim, mine = claims[commit], self.position[commit]
            for one in self._earlier(map(self._resolve, claim.again), mine):
                again.setdefault(one, mine)
            for target in self.targets(commit, claim, result):
                if target not in again:
                    result.setdefault(target, commit)
        return result


_LOOK_BACK = 20
"""Earlier commits of the same subject that are looked at: bounds the work on a subject used over and over."""
