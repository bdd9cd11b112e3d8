"""Small run directories for the report's tests, written through `schemas` as the stages write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from schemas import shards
from schemas.records import (
    TABLES,
    Candidate,
    Count,
    Edit,
    FunctionSpan,
    FunctionSuite,
    FunctionTest,
    Generator,
    Label,
    Message,
    MutantFate,
    PairEvidence,
    PreferencePair,
    Program,
    Step,
    StepLabeledCandidate,
    Trajectory,
)
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, Output

EDITS = Output("edits")
LABELS = Output("labels")
TRAIN, TEST = Output("pairs", "train"), Output("pairs", "test")
STEPS = Output("steps", "train")

VOID = {"meta", "br", "hr", "img", "input", "link", "base", "col", "area", "wbr", "source"}


def finish(
    run: RunDir,
    stage: str,
    outputs: Mapping[Output, Sequence[Any]],
    drops: Mapping[str, int] | None = None,
    unit: str = "u",
    kept: int | None = None,
    seconds: float = 1.5,
) -> None:
    """Write what a finished unit of a stage leaves: its shards, and the accounting in the first sidecar."""
    drops = dict(drops or {})
    kept = sum(map(len, outputs.values())) if kept is None else kept
    accounting = shards.Accounting(kept + sum(drops.values()), kept, drops)
    whole = {**outputs, **({} if VERDICTS in outputs else {VERDICTS: []})}
    for number, (output, rows) in enumerate(whole.items()):
        path = run.part_path(stage, output, unit)
        record = TABLES[output.table]
        many, size, digest = shards.write_shard(path, record, rows)
        first = number == 0
        sidecar = shards.Sidecar(
            output.table,
            output.split,
            stage,
            unit,
            "key",
            many,
            size,
            digest,
            shards.schema_digest(record),
            accounting if first else None,
            seconds if first else None,
        )
        shards.write_sidecar(path, sidecar)


def new_run(root: Path) -> RunDir:
    """An empty run directory."""
    return RunDir.open(root, create=True)


def edit(number: int = 0, **changed: Any) -> Edit:
    values: dict[str, Any] = {
        "id": f"e{number}",
        "repo": "o/r",
        "commit": "c" * 40,
        "parent": "p" * 40,
        "path": "a.py",
        "language": "Python",
        "old_contents": "x = 1\n",
        "new_contents": "x = 2\n",
        "old_id": "1" * 40,
        "new_id": "2" * 40,
        "patch_id": "3" * 40,
        "subject": "Fix x",
        "message": "Fix x\n",
        "author_time": 1_600_000_000,
        "commit_time": 1_600_000_000,
        "license": "MIT",
        "file_license": None,
        "merged_by": None,
        "reverted_by": None,
        "reverted_how": None,
        "cherry_picked_from": None,
        "bot": False,
        "ai_assisted": None,
        "companions": [],
        "hunks": [],
        "lines_added": 1,
        "lines_removed": 1,
    }
    return Edit(**{**values, **changed})


def label(number: int = 0, criterion: str | None = "FC", confidence: float = 0.75) -> Label:
    return Label(
        id=f"e{number}",
        labeler="lexicon 1",
        method="classifier",
        criterion=criterion,
        confidence=confidence,
        single_intent=0.5,
        scores=[],
        terms=[],
    )


def pair(number: int = 0, **changed: Any) -> PreferencePair:
    """A pair, of the table of `record` where that is given."""
    record: type[PreferencePair] = changed.pop("record", PreferencePair)
    evidence: dict[str, Any] = {
        "edit_id": f"e{number}",
        "labeler": "lexicon 1",
        "method": "classifier",
        "confidence": 0.75,
        "single_intent": 0.5,
        "scores": [],
        "terms": ["fix"],
        "subject": "Fix x",
        "instruction_by": "template 1",
        "system_kind": "none",
        "level": "file",
        "names": [],
        "merged_by": None,
        "instruction_kind": "template",
        "instruction_style": None,
        "measures": [],
        "bearings": [],
        "share": None,
        "strength": None,
        "specificity": None,
        "votes": [],
        "trade_offs": [],
        "made_by": None,
        "detail": None,
    }
    evidence.update(changed.pop("evidence", {}))
    values: dict[str, Any] = {
        "system": "",
        "input": "Make x two.",
        "chosen": "x = 2\n",
        "rejected": "x = 1\n",
        "language": "Python",
        "aspect": "Functional Correctness",
        "source": "assay",
        "idx": f"i{number}",
        "repo": "o/r",
        "commit": "c" * 40,
        "path": "a.py",
        "license": "MIT",
        "evidence": PairEvidence(**evidence),
        "split": "train",
    }
    return record(**{**values, **changed})


CODE = "def one():\n    return 1\n\n\ndef two():\n    return one() + 1\n"


def spans() -> list[tuple[str, int, int]]:
    middle = CODE.index("def two")
    return [("one", 0, CODE.index("\n\n")), ("two", middle, len(CODE) - 1)]


def program(number: int = 0) -> Program:
    functions = [
        FunctionSpan(
            name=name,
            kind="function",
            start_byte=a,
            end_byte=b,
            signature="",
            docstring=None,
            calls=[],
            depth=5,
        )
        for name, a, b in spans()
    ]
    return Program(
        id=f"g{number}",
        problem_id="p",
        problem="P/0",
        language="Python",
        entry_point="two",
        code=CODE,
        functions=functions,
        skeleton="",
        decomposed_by="as-written",
        prompt_version=None,
        suite_kind="split",
    )


def unit_test(number: int, function: str, kills: list[int], selected: bool = True) -> FunctionTest:
    return FunctionTest(
        id=f"t{number}",
        program_id="g0",
        function=function,
        call="[]",
        expected="1",
        shown="f() -> 1",
        source="harvested",
        kills=kills,
        timeouts=[],
        mutants=4,
        selected=selected,
    )


def suite(number: int = 0, **changed: Any) -> FunctionSuite:
    """What is known of a function's tests: four mutants, three killed, one of them by time."""
    fates = [("negate", True, False), ("negate", True, True), ("negate", False, False), ("swap", True, False)]
    values: dict[str, Any] = {
        "id": f"s{number}",
        "program_id": "g0",
        "function": f"f{number}",
        "tests": 6,
        "selected": 2,
        "mutants": [
            MutantFate(operator=operator, detail="1: x", killed=killed, timeout=timeout)
            for operator, killed, timeout in fates
        ],
        "mutation_score": 0.75,
        "coverage": 1.0,
        "dropped": [Count(reason="flaky", count=3), Count(reason="unencodable", count=1)],
        "reason": None,
    }
    return FunctionSuite(**{**values, **changed})


def unjudged(number: int = 0, fault: str | None = None, model: str = "m") -> Candidate:
    """A candidate that no stage has run yet."""
    return Candidate(
        id=f"c{number}",
        problem_id="p",
        program_id="g0",
        completion=CODE,
        program=None,
        pieces=[],
        fault=fault,
        generator=Generator(model=model, temperature=None, seed=0, detail=None, prompt_version=None),
    )


def candidate(
    number: int = 0,
    outcome: int | None = 1,
    labels: Sequence[int | None] = (1, 0),
    own: Sequence[int | None] | None = None,
    judge: Sequence[int | None] = (None, None),
    failure: str | None = None,
    **changed: Any,
) -> StepLabeledCandidate:
    reasons = {1: "passed", 0: "failed", None: "no_tests"}
    steps = [
        Step(
            name=name,
            start_byte=a,
            end_byte=b,
            label=z,
            reference_label=z,
            suite_label=None,
            own_label=o,
            judge_label=j,
            tests_run=0 if z is None else 5,
            tests_passed=(5 if z else 3) if z is not None else 0,
            reason=reasons[z],
            own_reason=reasons[o],
            first_failure=failure if z == 0 else None,
            mutation_score=None,
            trust="external",
        )
        for (name, a, b), z, o, j in zip(spans(), labels, labels if own is None else own, judge, strict=True)
    ]
    values: dict[str, Any] = {
        "id": f"c{number}",
        "problem_id": f"p{number}",
        "program_id": "g0",
        "prompt": "Write two.",
        "completion": CODE,
        "program": None,
        "outcome": outcome,
        "outcome_reason": reasons[outcome],
        "outcome_detail": None,
        "trust": "split",
        "steps": steps,
        "conflict": "none",
        "language": "Python",
        "source": "s",
        "license": None,
        "generator": Generator(
            model="mutation 1", temperature=None, seed=0, detail=None, prompt_version=None
        ),
        "isolation": "none",
        "limits": "cpu 2 s",
        "split": "train",
    }
    return StepLabeledCandidate(**{**values, **changed})


def trajectory(number: int, messages: int, resolved: bool | None) -> Trajectory:
    message = Message(role="user", content="hi", name=None, tool_call_id=None, tool_calls=[])
    return Trajectory(
        id=f"j{number}",
        instance_id="task",
        messages=[message] * messages,
        patch=None,
        resolved=resolved,
        policy=None,
        source="s",
        split="train",
    )


class Page(HTMLParser):
    """A page as parsed: whether its tags balance, its attributes, and the text a person reads."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        if self.open:
            self.faults.append(f"never closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        if len({key for key, _ in attrs}) != len(attrs):
            self.faults.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def check(html: str) -> Page:
    """The parsed page, after every property that any page must have."""
    page = Page(html)
    assert page.faults == []
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert not [key for _, key, _ in page.attributes if key.startswith("on")]
    for tag, key, value in page.attributes:
        if key in ("href", "src", "srcset", "action", "data", "poster", "xlink:href"):
            assert (tag, key) == ("a", "href")
            assert value is not None
            assert value.startswith("#") or value == "report.json"
    assert set(re.findall(r"url\(([^)]*)\)", html)) <= {"#hatch"}
    assert "@import" not in html
    ids = [value for _, key, value in page.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    targets = {value for _, key, value in page.attributes if key == "href" and value != "report.json"}
    assert {target[1:] for target in targets if target} <= set(ids)
    html.encode()
    return page
