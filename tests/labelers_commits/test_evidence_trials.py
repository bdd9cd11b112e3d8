"""Functions that are run alone, in real sandboxes."""

from __future__ import annotations

import pytest
from evidence_views import CRITERIA, evidence, proposal, row, values, verdicts

from decompose.grammars import SourceError
from labelers.commits.config import EvidenceConfig
from labelers.commits.evidence import Measurer
from labelers.commits.evidence.alone import alone

RUN = EvidenceConfig(lint=False)

SQUARES = "def pairs(values: list[int]) -> int:\n    return sum(a == b for a in values for b in values)\n"
COUNTED = (
    "from collections import Counter\n\n\ndef pairs(values: list[int]) -> int:\n"
    "    return sum(count * count for count in Counter(values).values())\n"
)


@pytest.mark.parametrize(
    ("needs", "is_alone"),
    [
        ("return sorted(value)", True),
        ("return math.floor(len(value))", True),
        ("return helper(value)", True),
        ("return LIMIT + len(value)", True),
        ("return Thing(value).size()", True),
        ("return project.size(value)", False),
        ("return requests.get(value)", False),
        ("return subprocess.run(value)", False),
        ("return unknown(value)", False),
        ("return chained(value)", False),
        ("global LIMIT\n    LIMIT = 3\n    return LIMIT", True),
    ],
)
def test_a_function_is_alone_when_what_it_needs_is(needs: str, is_alone: bool) -> None:
    head = (
        "import math\nimport subprocess\nimport requests\nfrom . import project\n\nLIMIT = 3\n\n\n"
        "def helper(value):\n    return len(value)\n\n\n"
        "def chained(value):\n    return project.size(value)\n\n\n"
        "class Thing:\n    def __init__(self, value):\n        self.value = value\n\n"
        "    def size(self):\n        return LIMIT + len(self.value)\n\n\n"
    )
    old = head + f"def f(value):\n    {needs}\n"
    new = head + f"def f(value):\n    print(value)\n    {needs}\n"
    found = alone(old, new)
    assert [one.name for one in found] == (["f"] if is_alone else [])
    if is_alone:
        compile(found[0].old, "old", "exec")
        assert "project" not in found[0].old


@pytest.mark.parametrize(
    "change",
    [
        ("def f(a):\n    return a\n", "def f(a):\n    # what\n    return (a)\n"),
        ("def f(a):\n    'One.'\n    return a\n", "def f(a):\n    'Two.'\n    return a\n"),
        ("def f(a):\n    return a\n", "def g(a):\n    return a + 1\n"),
        ("def f():\n    return 1\n", "def f():\n    return 2\n"),
        (
            "class A:\n    def f(self, a):\n        return a\n",
            "class A:\n    def f(self, a):\n        return 2\n",
        ),
        ("async def f(a):\n    return a\n", "async def f(a):\n    return 2\n"),
        ("@cache\ndef f(a):\n    return a\n", "@cache\ndef f(a):\n    return 2\n"),
        ("def f(a):\n    return a\n", "def f(b, a):\n    return a\n"),
        ("if x:\n    def f(a):\n        return a\n", "if x:\n    def f(a):\n        return 2\n"),
    ],
)
def test_what_did_not_change_or_cannot_be_called_is_left_out(change: tuple[str, str]) -> None:
    assert alone(*change) == []


def test_a_version_that_python_refuses_is_told() -> None:
    with pytest.raises(SourceError):
        alone("def f(a):\n    return a\n", "def f(a:\n")


def test_the_same_behaviour_in_less_time_speaks_for_efficiency() -> None:
    found = evidence(SQUARES, COUNTED, config=RUN)
    assert {"behaviour:equal", "run_time:faster"} <= set(found.notes)
    assert values(found)["run_calls_that_differ"] == (0, 0)
    assert verdicts(found)["RE"] == "agrees"


def test_more_time_speaks_against_efficiency() -> None:
    found = evidence(COUNTED, SQUARES, config=RUN)
    assert "run_time:slower" in found.notes
    assert verdicts(found)["RE"] == "disagrees"


def test_memory_that_is_no_longer_taken_speaks_for_memory() -> None:
    old = "def total(values: list[int]) -> int:\n    return sum([one for one in values * 20])\n"
    new = "def total(values: list[int]) -> int:\n    return 20 * sum(one for one in values)\n"
    found = evidence(old, new, config=RUN)
    assert "memory:less" in found.notes
    assert verdicts(found)["ME"] == "agrees"
    before, after = values(found)["run_peak_kib"]
    assert (before or 0) > (after or 0) > 0


def test_an_error_that_nobody_meant_and_is_gone_speaks_for_correctness() -> None:
    old = "def first(values: list[int]) -> int:\n    return values[0]\n"
    new = "def first(values: list[int]) -> int:\n    return values[0] if values else 0\n"
    found = evidence(old, new, config=RUN)
    assert {"behaviour:differs", "behaviour:mended"} <= set(found.notes)
    assert verdicts(found)["FC"] == "agrees"


def test_another_result_is_told_and_says_nothing_of_who_is_right() -> None:
    old = "def grow(count: int) -> int:\n    return count + 1\n"
    found = evidence(old, old.replace("+ 1", "+ 2"), config=RUN)
    assert "behaviour:differs" in found.notes
    assert "behaviour:mended" not in found.notes
    assert set(verdicts(found).values()) == {"silent"}


def test_arguments_that_are_changed_in_place_are_behaviour() -> None:
    old = "def order(values: list[int]) -> int:\n    values.sort()\n    return len(values)\n"
    new = "def order(values: list[int]) -> int:\n    sorted(values)\n    return len(values)\n"
    assert "behaviour:differs" in evidence(old, new, config=RUN).notes


def test_parameters_without_types_are_tried_with_what_their_names_suggest() -> None:
    old = "def short(text):\n    return text.strip()[:3]\n"
    new = "def short(text):\n    return text.strip()[0:3]\n"
    assert "behaviour:equal" in evidence(old, new, config=RUN).notes


@pytest.mark.parametrize(
    "body",
    [
        "import random\n    return random.random()",
        "return id(value)",
        "return hash(str(value))",
        "return object()",
        "return open('/nowhere').read()",
        "raise TypeError(value)",
        "raise SystemExit",
        "while True: pass",
        "import os; os._exit(3)",
        "import os; os.kill(os.getppid(), 9)",
        "return f(value)",
        "return [0] * (1 << 40)",
        "import sys; sys.settrace(None); return [[], 1]",
        "global f; f = None; return 1",
        "global measured_whole; measured_whole = lambda value: object(); return 1",
        "global measured_lines; measured_lines = lambda *args: ['error', 1, [], []]; return 1",
        "global measured_time_of; measured_time_of = lambda *args: ['a', float('nan')]; return 1",
        "global measured_peak; measured_peak = lambda *args: 'many'; return 1",
        "import tracemalloc; tracemalloc.stop(); return 1",
    ],
)
def test_functions_that_say_nothing_or_mean_harm_cost_no_more_than_their_answer(body: str) -> None:
    old = f"def f(value: int):\n    {body}\n"
    new = f"def f(value: int):\n    value += 1\n    {body}\n"
    quick = EvidenceConfig(lint=False, time_limit_s=3)
    with Measurer(quick, CRITERIA, 0) as measurer:
        found = measurer.measure(proposal(old, new))
        assert not {"run_time:faster", "run_time:slower", "behaviour:mended"} & set(found.notes)
        assert values(measurer.measure(proposal(SQUARES, SQUARES + "x = 1\n")))["complexity"] == (3, 3)


def test_a_rerun_gives_the_same_rows() -> None:
    pairs = [
        (SQUARES, COUNTED),
        ("def f(a: str) -> str:\n    return a\n", "def f(a: str) -> str:\n    return a[:3]\n"),
    ]
    with Measurer(RUN, CRITERIA, 7) as measurer:
        one = [row(measurer.measure(proposal(*pair))) for pair in pairs]
    with Measurer(RUN, CRITERIA, 7) as measurer:
        other = [row(measurer.measure(proposal(*pair))) for pair in reversed(pairs)]
    assert one == other[::-1]


def test_nothing_is_run_when_it_is_not_wanted() -> None:
    found = evidence(SQUARES, COUNTED, config=EvidenceConfig(lint=False, run=False))
    assert not any(note.startswith(("run", "behaviour", "memory")) for note in found.notes)


def test_a_machine_without_a_sandbox_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox import SandboxUnavailable

    def refused(*_: object) -> None:
        raise SandboxUnavailable("no namespaces here")

    monkeypatch.setattr("labelers.programs.runs._sandbox", refused)
    with Measurer(RUN, CRITERIA, 0) as measurer:
        for _ in range(2):
            assert measurer.measure(proposal(SQUARES, COUNTED)).notes[-1] == "run:no_sandbox"
