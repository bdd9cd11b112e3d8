"""Commits whose file a later commit puts back as it was: reverts that no message tells of.

A file's versions are followed from change to change by their object ids, so that a change made beside
them, on another branch, is not taken for one that came after.
"""

from __future__ import annotations

import dataclasses
from collections.abc import KeysView
from typing import NamedTuple


class _Edit(NamedTuple):
    """An edit that is followed: its commit, where that stands, and the file before and after it."""

    commit: str
    position: int
    old_id: str
    new_id: str


@dataclasses.dataclass
class PutBack:
    """Finds them among commits that are seen in order.

    Call `see` with every file of a commit that is `watched`, then `end` once for the commit. When a file
    that was put back gets the edit's version again, the edit is not reverted.

    Attributes:
        window: commits after an edit in which its file may be put back; more than that is no revert.
        found: edit's commit -> the commit that put the old file back.
    """

    window: int
    found: dict[str, str] = dataclasses.field(default_factory=dict)
    _position: int = 0
    # Path -> version that the file has now -> version that would undo or redo -> the edits in question.
    _open: dict[bytes, dict[str, dict[str, list[_Edit]]]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the one view of the paths of the files that an edit changed; it follows the changes."""
        self.watched: KeysView[bytes] = self._open.keys()

    def _watch(self, path: bytes, now: str, awaited: str, edit: _Edit) -> None:
        self._open.setdefault(path, {}).setdefault(now, {}).setdefault(awaited, []).append(edit)

    def see(self, commit: str, path: bytes, old_id: str, new_id: str) -> None:
        """A commit turned a file's version `old_id` into `new_id`."""
        versions = self._open[path]
        followed = versions.pop(old_id, None)
        if not followed:
            return
        turned = followed.pop(new_id, [])
        if followed and (there := versions.setdefault(new_id, followed)) is not followed:
            for awaited, edits in followed.items():
                there.setdefault(awaited, []).extend(edits)
        for edit in turned:
            if self._position - edit.position > self.window:
                continue
            if self.found.pop(edit.commit, None) is None:
                self.found[edit.commit] = commit
                self._watch(path, new_id, edit.new_id, edit)
            else:
                self._watch(path, new_id, edit.old_id, edit)

    def end(self, edit: tuple[str, bytes, str, str] | None = None) -> None:
        """A commit is over; `edit` is its (commit, path, old id, new id) when it is one to watch."""
        if edit is not None:
            commit, path, old_id, new_id = edit
            self._watch(path, new_id, old_id, _Edit(commit, self._position, old_id, new_id))
        self._position += 1
