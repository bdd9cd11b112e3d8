"""Measures of both versions of a view, and what they say about criteria.

In: `Proposal`s. Out: one `Evidence` for each. What was read of a version is kept by its content, since the
new version of one edit is the old one of another. Wrong: a tool that fails, or takes too long, leaves a note
and costs nothing else; `AssayError` where a tool is not installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from decompose.grammars import MAX_SOURCE_BYTES
from labelers.commits.evidence.bearings import BROKEN, SAME_PROGRAM, bearings
from labelers.commits.evidence.measures import Told, changed_spans
from labelers.commits.evidence.tools import Answer, Linters, Reader
from labelers.commits.evidence.worker import NAMES
from sandbox import SandboxUnavailable
from schemas.records import Evidence

if TYPE_CHECKING:
    from labelers.commits.config import EvidenceConfig
    from labelers.commits.criteria import Criterion
    from labelers.commits.evidence.trial import Trial
    from labelers.commits.proposals import Proposal

BROKEN_OR_SAME = frozenset({BROKEN, SAME_PROGRAM})
_KEPT = 512
"""Versions whose readings are kept."""


class Measurer:
    """Measures views; a context manager that ends its processes."""

    def __init__(self, config: EvidenceConfig, criteria: Sequence[Criterion], seed: int) -> None:
        self.config, self.seed = config, seed
        self.codes = [one.code for one in criteria]
        self.counts: Counter[str] = Counter()
        self._known: OrderedDict[bytes, dict[str, Answer]] = OrderedDict()
        self._open = contextlib.ExitStack()
        self._sandboxed = True

    def __enter__(self) -> Measurer:
        folder = Path(tempfile.mkdtemp(prefix="assay-evidence-"))
        self._open.callback(shutil.rmtree, folder, ignore_errors=True)
        self._reader = Reader(folder, self.config.time_limit_s)
        self._open.callback(self._reader.close)
        self._linters = Linters(folder, self.config.time_limit_s)
        self._open.callback(self._linters.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def measure(self, proposal: Proposal) -> Evidence:
        """What can be said about a proposal's two versions.

        Raises:
            AssayError: a tool is not installed.
        """
        view = proposal.view
        edit: Mapping[str, Any] = view.edit
        language, path = edit["language"], edit["path"]
        old, new = self._read(view.whole, language, path)
        told = Told(language)
        told.syntax(old["syntax"], new["syntax"])
        told.complexity(old["complexity"], new["complexity"], changed_spans((view.own or edit)["hunks"]))
        if language == "Python":
            told.bandit(old["security"], new["security"])
            if self.config.lint:
                told.lint(old["lint"], new["lint"])
                told.types(old["types"], new["types"])
            if self.config.run and not BROKEN_OR_SAME & set(told.notes):
                self._run(told, view.whole)
        if view.own is None:
            told.companions(edit["companions"])
        found, veto = bearings(self.codes, told.measures, list(told.notes))
        for one in found:
            self.counts[f"{one.criterion}_{one.verdict}"] += one.verdict != "silent"
        return Evidence(
            id=view.id,
            edit_id=edit["id"],
            piece=view.piece,
            measures=told.measures,
            bearings=found,
            veto=veto,
            notes=list(told.notes),
        )

    def _run(self, told: Told, versions: tuple[str, str]) -> None:
        """Run the first changed function that can be run alone and says something."""
        old, new = versions
        if max(len(old), len(new)) > MAX_SOURCE_BYTES:
            return
        self._reader.ask(old, "Python", "", ["alone"], other=new)
        answer = self._reader.answers()["alone"]
        for one in () if isinstance(answer, str) else answer["functions"]:
            try:
                trial = self._trials(one)
            except SandboxUnavailable:
                # It is the same for every view from here on.
                self._sandboxed = False
                trial = "no_sandbox"
            self.counts["functions_run"] += 1
            if not isinstance(trial, str):
                told.trial(trial)
                return
            told.note(f"run:{trial}")

    def _trials(self, one: Mapping[str, Any]) -> Trial | str:
        from labelers.commits.evidence.trial import Trials
        from labelers.programs.inputs import Literals

        if not self._sandboxed:
            return "no_sandbox"
        literals = Literals(tuple(one["numbers"]), tuple(one["texts"]))
        trials = Trials(self.config.time_limit_s, self.seed)
        return trials.run(one["name"], one["old"], one["new"], one["signature"], literals)

    def _read(self, versions: tuple[str, str], language: str, path: str) -> list[dict[str, Answer]]:
        """What the tools say of two versions, by task."""
        keys = [_key(text, language, path) for text in versions]
        for key, text in zip(keys, versions, strict=True):
            if len(text) > MAX_SOURCE_BYTES:
                self._known[key] = dict.fromkeys(
                    ("syntax", "complexity", "security", "lint", "types"), "no_text"
                )
        missing = {key: text for key, text in zip(keys, versions, strict=True) if key not in self._known}
        lint = self.config.lint and language == "Python" and bool(missing)
        if lint:
            # These are at work while the reader is.
            self._linters.start(list(missing.values()))
        found = {key: self._tasks(text, language, path) for key, text in missing.items()}
        for key, more in zip(missing, self._linters.answers() if lint else (), strict=False):
            found[key] |= more
        self.counts["versions_read"] += len(missing)
        self.counts["versions_known"] += len(keys) - len(missing)
        for one in found.values():
            self.counts.update(f"tool_{told}" for told in one.values() if isinstance(told, str))
        self._known.update(found)
        for key in keys:
            self._known.move_to_end(key)
        answers = [self._known[key] for key in keys]
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return answers

    def _tasks(self, text: str, language: str, path: str) -> dict[str, Answer]:
        tasks = ["syntax", *(["complexity"] if language in NAMES else [])]
        tasks += ["security"] if language == "Python" else []
        self._reader.ask(text, language, path, tasks)
        return {"complexity": "no_reader", **self._reader.answers()}


def _key(text: str, language: str, path: str) -> bytes:
    kind = f"{language} {path.lower().endswith('.tsx')} "
    return hashlib.blake2b((kind + text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
