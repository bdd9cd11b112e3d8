"""The stages from `label` to `build` as datatrove steps, and how they are cut into units."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from labelers.commits import classifier, criteria, pairs
from labelers.commits.config import BuildConfig, EvidenceConfig, InstructConfig, LabelConfig, VoteConfig
from labelers.commits.decide import Decision
from labelers.commits.labelling import label
from labelers.commits.pairs import Findings, decided
from labelers.commits.proposals import Proposal, proposals
from labelers.llm import Client, ModelConfig, Request
from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.ids import digest_json
from schemas.records import TABLES, Edit, Excerpt, Label, SplitAssignment
from schemas.rundir import RunDir
from schemas.stage import WHOLE, Drop, Keep, Outcome, Output, Unit
from schemas.steps import UnitStep
from schemas.verdicts import kept_of

_DECIDED = "verdicts/decontaminate"


def _labelled_by(config: LabelConfig) -> dict[str, str]:
    """Digests of what gives labels: a changed file gives other keys."""
    found = criteria.load(config.criteria_file)
    return {
        "criteria": digest_json([dataclasses.asdict(one) for one in found]),
        "classifier": classifier.version(config.classifier),
        "min_score": digest_json(config.min_score),
    }


def _labels(
    run: RunDir, beside: Sequence[str], config: LabelConfig, limit: int | None, **more: str
) -> list[Unit]:
    """One unit a part of `labels`, with what stands beside it and further inputs.

    Raises:
        RunDirError: a stage before has not finished, or the labels are those of other settings: pieces would
            be labelled otherwise than their edits, and by criteria that these know nothing of.
    """
    by = _labelled_by(config)
    units = run.units_per_part("labels", tuple(beside), limit)
    for part in run.parts("labels"):
        if other := [name for name, digest in by.items() if part.sidecar.inputs.get(name) != digest]:
            raise RunDirError(
                f"{run.root}: its labels were given under other settings ({', '.join(other)}); "
                "run `assay label` first"
            )
    return [dataclasses.replace(unit, inputs={**unit.inputs, **by, **more}) for unit in units]


def plan_label(run: RunDir, config: LabelConfig, limit: int | None) -> list[Unit]:
    """One unit a part of `edits`; it considers the edits that `decontaminate` kept.

    Raises:
        RunDirError: `mine` or `decontaminate` has not finished.
    """
    units, left = [], limit
    for part in run.units_per_part("edits", (_DECIDED,)):
        counted = shards.read_sidecar(run.root / part.payload[_DECIDED]).accounting
        if counted is None:
            raise ShardError(f"{run.root}: {_DECIDED} lacks its accounting; run decontaminate --clean")
        rows = counted.kept if left is None else min(left, counted.kept)
        left = None if left is None else left - rows
        units.append(dataclasses.replace(part, rows=rows, payload={**part.payload, "limit": rows}))
    by = _labelled_by(config)
    return [dataclasses.replace(unit, inputs={**unit.inputs, **by}) for unit in units]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the stages after `cut` have in common: the settings by which all of them find the same views.

    Attributes:
        judges: models that vote; without any nobody judges, and what the classifier is sure of counts.
        writer: the model that writes instructions; None for templates.
    """

    label: LabelConfig
    evidence: EvidenceConfig
    vote: VoteConfig
    instruct: InstructConfig
    build: BuildConfig
    judges: tuple[ModelConfig, ...] = ()
    writer: ModelConfig | None = None
    seed: int = 0

    @property
    def min_score(self) -> float | None:
        """Least score that is put before judges; None where nobody judges."""
        return self.vote.min_score if self.judges else None


def plan_evidence(run: RunDir, settings: Settings, limit: int | None) -> list[Unit]:
    """One unit a part of `labels`, with the edits that it labels and their excerpts.

    Raises:
        RunDirError: `label` or `cut` has not finished, or the settings of labels have changed since.
    """
    return _labels(run, ("edits", "excerpts"), settings.label, limit)


def plan_vote(run: RunDir, settings: Settings, limit: int | None) -> list[Unit]:
    """As `plan_evidence`."""
    return plan_evidence(run, settings, limit)


def plan_instruct(run: RunDir, settings: Settings, limit: int | None) -> list[Unit]:
    """As `plan_evidence`, with what was measured and voted.

    Raises:
        RunDirError: a stage before it has not finished, or the settings of labels have changed since.
    """
    before = ("edits", "excerpts", "evidence", *(("votes",) if settings.judges else ()))
    return _labels(run, before, settings.label, limit)


def plan_build(run: RunDir, settings: Settings, limit: int | None) -> list[Unit]:
    """As `plan_instruct`, with the instructions and the run's splits.

    Raises:
        RunDirError: a stage before it has not finished, or the settings of labels have changed since.
    """
    before = ["edits", "excerpts", "evidence"]
    before += ["votes"] if settings.judges else []
    before += ["instructions"] if settings.writer is not None else []
    splits = run.part_path("split", Output("splits"), WHOLE)
    try:
        digest = shards.read_sidecar(splits).sha256
    except ShardError:
        raise RunDirError(f"{run.root}: no splits yet; run `assay split` first") from None
    told = {"splits": str(splits.relative_to(run.root))}
    units = _labels(run, before, settings.label, limit, splits=digest)
    return [dataclasses.replace(unit, payload={**unit.payload, **told}) for unit in units]


@contextlib.contextmanager
def clients_of(models: Sequence[ModelConfig], run_dir: Path) -> Iterator[list[Client]]:
    """Clients of models, with the run's cache of calls."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Client(model, run_dir / "calls.sqlite")) for model in models]


def _splits_of(splits: Path, labels: Path) -> dict[str, str]:
    """The splits of the edits that a shard of labels is about."""
    table = shards.read_shard(splits, SplitAssignment, ["id", "split"])
    wanted = shards.read_shard(labels, Label, ["id"])["id"]
    own = table.filter(pc.is_in(table["id"], value_set=wanted.combine_chunks()))
    return dict(zip(own["id"].to_pylist(), own["split"].to_pylist(), strict=True))


class LabelEdits(UnitStep):
    """Give every selected edit a label."""

    name = "label"

    def __init__(self, config: LabelConfig, run_dir: Path) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `Label` for each edit that `decontaminate` kept."""
        shard = self.run_dir / unit.payload["edits"]
        kept = kept_of(self.run_dir / unit.payload[_DECIDED], "edits", shard)
        found = criteria.load(self.config.criteria_file)
        edits = shards.iter_rows(shard, Edit)
        selected = (edit for edit in edits if edit["id"] in kept)
        for edit in itertools.islice(selected, unit.payload["limit"]):
            yield Keep((label(edit, found, self.config),))


# Labels whose models are asked together.
_LABELS_AT_ONCE = 64


class _ViewStep(UnitStep):
    """What the stages after `cut` share: labels of a unit with what belongs to them."""

    def __init__(self, settings: Settings, run_dir: Path) -> None:
        super().__init__()
        self.settings, self.run_dir = settings, run_dir
        self.criteria = criteria.load(settings.label.criteria_file)

    def considered(self, unit: Unit) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
        """Each label with its edit and excerpts, in the order of the edits.

        A limit counts in this order, as it does for `split` and `cut`: all are to look at the same edits.
        """
        labels = shards.iter_rows(self.run_dir / unit.payload["labels"], Label)
        given = {row["id"]: row for row in labels}
        # Sorted by edit and piece, as shards of excerpts are.
        cut: dict[str, list[dict[str, Any]]] = {}
        for excerpt in shards.iter_rows(self.run_dir / unit.payload["excerpts"], Excerpt):
            cut.setdefault(excerpt["edit_id"], []).append(excerpt)
        edits = shards.iter_rows(self.run_dir / unit.payload["edits"], Edit)
        labelled = (edit for edit in edits if edit["id"] in given)
        for edit in itertools.islice(labelled, unit.payload["limit"]):
            yield edit, given[edit["id"]], cut.get(edit["id"], [])

    def proposed(self, unit: Unit) -> Iterator[tuple[str, list[Proposal] | Drop]]:
        """Each label's edit with its proposals, or why it has none."""
        settings = self.settings
        for edit, given, excerpts in self.considered(unit):
            found = proposals(
                edit, given, excerpts, self.criteria, settings.label, settings.build, settings.min_score
            )
            yield edit["id"], Drop(edit["id"], *found) if isinstance(found, tuple) else found

    def by_view(self, unit: Unit, table: str) -> Mapping[str, Any] | None:
        """Rows of a shard of the unit by the view's id; None where the unit has none."""
        if table not in unit.payload:
            return None
        return {row["id"]: row for row in shards.iter_rows(self.run_dir / unit.payload[table], TABLES[table])}

    def findings(self, unit: Unit) -> Findings:
        """What earlier stages found."""
        return Findings(
            self.by_view(unit, "evidence"),
            self.by_view(unit, "votes"),
            self.by_view(unit, "instructions"),
            self.settings.instruct.otherwise == "template",
        )


class MeasureEvidence(_ViewStep):
    """Measure both versions of every view, without a model."""

    name = "evidence"

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `Evidence` of each label's views, or why there are none."""
        from labelers.commits.evidence import Measurer

        with Measurer(self.settings.evidence, self.criteria, self.settings.seed) as measurer:
            for _, found in self.proposed(unit):
                if isinstance(found, Drop):
                    yield found
                else:
                    yield Keep(tuple(measurer.measure(one) for one in found))
            self.count(measurer.counts)


class VoteOnViews(_ViewStep):
    """Let models judge every view."""

    name = "vote"

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `Votes` on each label's views, or why there are none."""
        from labelers.commits.votes import vote

        counts: Counter[str] = Counter()
        with clients_of(self.settings.judges, self.run_dir) as clients:
            labels = self.proposed(unit)
            while batch := list(itertools.islice(labels, _LABELS_AT_ONCE)):
                asked = [one for _, found in batch if not isinstance(found, Drop) for one in found]
                settings = self.settings
                votes = vote(clients, asked, self.criteria, settings.vote, settings.seed, counts)
                for _, found in batch:
                    if isinstance(found, Drop):
                        yield found
                    else:
                        yield Keep(tuple(next(votes) for _ in found))
        self.count(counts)

    def requests(self, units: Sequence[Unit]) -> list[tuple[ModelConfig, Iterator[Request]]]:
        """What each judge would be asked for units."""
        return [(judge, self._asked(units)) for judge in self.settings.judges]

    def _asked(self, units: Sequence[Unit]) -> Iterator[Request]:
        from labelers.commits.votes import requests

        settings = self.settings
        for unit in units:
            for _, found in self.proposed(unit):
                if not isinstance(found, Drop):
                    yield from requests(found, self.criteria, settings.vote, settings.seed)


class WriteInstructions(_ViewStep):
    """Let a model write the instructions of the views that become pairs."""

    name = "instruct"

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `Instruction`s of each label's views, or why there are none."""
        from labelers.commits.inverse import write

        settings, counts = self.settings, Counter[str]()
        with clients_of([settings.writer] if settings.writer else [], self.run_dir) as clients:
            labels = self.decided(unit, counts)
            while batch := list(itertools.islice(labels, _LABELS_AT_ONCE)):
                wanted = [one for _, found in batch if not isinstance(found, Drop) for one in found]
                texts = write(clients[0], wanted, self.criteria, settings.instruct, settings.seed, counts)
                for edit_id, found in batch:
                    if isinstance(found, Drop):
                        yield found
                        continue
                    made = [text for text in (next(texts) for _ in found) if text is not None]
                    yield Keep(tuple(made)) if made else Drop(edit_id, "no_instruction")
        self.count(counts)

    def decided(
        self, unit: Unit, counts: Counter[str] | None = None
    ) -> Iterator[tuple[str, list[tuple[Proposal, Decision]] | Drop]]:
        """Each label's edit with those proposals that become pairs, or why none does."""
        findings = self.findings(unit)
        for edit_id, found in self.proposed(unit):
            if isinstance(found, Drop):
                yield edit_id, found
                continue
            decisions = [(one, decided(one, findings, self.settings.build)) for one in found]
            good = [(one, made) for one, made in decisions if isinstance(made, Decision)]
            refused = [made for _, made in decisions if isinstance(made, tuple)]
            if good:
                pairs.count_pieces(refused, counts)
            yield edit_id, good or Drop(edit_id, *refused[0])

    def requests(self, units: Sequence[Unit]) -> list[tuple[ModelConfig, Iterator[Request]]]:
        """What the writer would be asked for units, without second attempts."""
        writer = self.settings.writer
        return [] if writer is None else [(writer, self._asked(units))]

    def _asked(self, units: Sequence[Unit]) -> Iterator[Request]:
        from labelers.commits.inverse import requests

        settings = self.settings
        for unit in units:
            for _, found in self.decided(unit):
                if not isinstance(found, Drop):
                    yield from requests((one for one, _ in found), settings.instruct, settings.seed)


class BuildPairs(_ViewStep):
    """Turn decided views into preference pairs."""

    name = "build"

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a pair, or why there is none, for each label."""
        settings, findings, counts = self.settings, self.findings(unit), Counter[str]()
        splits = _splits_of(self.run_dir / unit.payload["splits"], self.run_dir / unit.payload["labels"])
        for edit, given, excerpts in self.considered(unit):
            yield pairs.pair(
                edit,
                given,
                self.criteria,
                settings.build,
                settings.seed,
                excerpts,
                split=splits.get(edit["id"]),
                labels=settings.label,
                min_score=settings.min_score,
                findings=findings,
                counts=counts,
            )
        self.count(counts)
