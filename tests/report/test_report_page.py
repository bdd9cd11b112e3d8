"""The page: well-formed, closed to the outside, safe from what it shows, and the same for the same run."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_runs import (
    EVIDENCE,
    INSTRUCTIONS,
    PREFERENCES,
    SYNTHETIC,
    VOTES,
    ballots,
    bearing,
    evidence,
    imported,
    instruction,
    measure,
    review,
    synthetic,
    votes,
)
from report_runs import (
    EDITS,
    LABELS,
    STEPS,
    TEST,
    TRAIN,
    candidate,
    check,
    edit,
    finish,
    label,
    new_run,
    pair,
    program,
    suite,
    trajectory,
    unit_test,
    unjudged,
)

from assay.report import collect, render, write_report
from assay.report.page import duration, matrix
from assay.report.svg import Charts, compact, figure
from schemas.records import SPLIT_TABLES, Count
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, Output

HOSTILE = [
    "<script>alert(1)</script>",
    '"\' onmouseover=alert(1) x="',
    "</pre></code></style></title><img src=x onerror=alert(1)>",
    "]]><!-- --> &lt;b&gt; &#60;",
    "{{ 7 * 7 }}{% raw %}",
    "\u202eevil\u2066",
    "\\",
    "C:\\new\\",
    "\x00\x1b[31m\x7f",
    "שלום עולם",
    "Z" * 20_000,
    "a\r\nb\tc",
    "",
]


TABLES = (
    *("edits", "labels", "evidence", "votes", "instructions", "pairs", "synthetic", "preferences"),
    *("programs", "tests", "suites", "candidates", "steps", "trajectories"),
)


def _resting_on(text: str) -> dict[str, Any]:
    """Evidence of a pair with `text` wherever a stranger may write."""
    texts = ("subject", "method", "labeler", "merged_by", "made_by", "detail", "level", "system_kind")
    asked = ("instruction_by", "instruction_kind", "instruction_style")
    return {
        **dict.fromkeys((*texts, *asked), text),
        **{key: [text] for key in ("terms", "names", "trade_offs")},
        "measures": [measure(text), measure("lint", None, 2.0)],
        "bearings": [bearing(text, text, [text]), bearing("RE", "silent", ())],
        "votes": ballots(text, text),
        "share": 0.75,
        "strength": 4.5,
    }


def _judge(run: RunDir, text: str | None) -> None:
    """Fill the tables of what was measured, voted and written."""
    one = "FC" if text is None else text
    measured: dict[str, Any] = {"measures": [measure(one)], "veto": text, "notes": [one]}
    measured["bearings"] = [bearing(one, one, [one]), bearing("FC", "disagrees", ["lint"])]
    finish(run, "evidence", {EVIDENCE: [evidence(n, **measured) for n in range(3)]})
    asked = [*ballots(one, one), *ballots("k", one, (0, 1, 1, 0)), *ballots("k", "RE")]
    judged: dict[str, Any] = {"criterion": one, "decision": one, "counts": asked, "prompts": [one]}
    judged |= {"worse": [one], "better": [one], "reviews": [review(one), review("k", None, None, None)]}
    finish(run, "vote", {VOTES: [votes(n, **judged) for n in range(3)]})
    written = ("text", "kind", "style", "by", "prompt_version", "spoken")
    rows = [instruction(0, refused=[one], **(dict.fromkeys(written, text) if text is not None else {}))]
    finish(run, "instruct", {INSTRUCTIONS: rows})


def full_run(root: Path, text: str | None = None) -> RunDir:
    """A run with every table and a model; `text` stands wherever a stranger may write."""
    run = new_run(root)
    names = {"repo": text, "path": text, "language": text, "license": text} if text is not None else {}
    finish(run, "mine", {EDITS: [edit(n, **names) for n in range(4)]}, {"binary": 3, text or "merge": 2})
    finish(run, "select", {VERDICTS: []}, {"bot": 1}, kept=3)
    finish(run, "label", {LABELS: [label(n) for n in range(3)]})
    more = (
        {
            "input": text,
            "chosen": text,
            "rejected": text + "\n" + text,
            "aspect": text,
            "source": text,
            "evidence": _resting_on(text),
        }
        if text is not None
        else {"evidence": _resting_on("m")}
    )
    finish(run, "build", {TRAIN: [pair(n, **names, **more) for n in range(3)], TEST: []})
    _judge(run, text)
    finish(run, "synthesize", {SYNTHETIC: [synthetic(0, **({} if text is None else more))]})
    finish(run, "preferences", {PREFERENCES: [imported(0, **({} if text is None else more))]})
    finish(run, "decompose", {Output("programs"): [program()]})
    finish(run, "tests", {Output("tests"): [unit_test(0, "one", [1]), unit_test(1, "two", [])]})
    counts = {"dropped": [Count(reason=text, count=2)], "reason": text} if text is not None else {}
    finish(run, "tests", {Output("suites"): [suite(0, **counts), suite(1, tests=0, selected=0)]}, unit="s")
    finish(run, "sample", {Output("candidates"): [unjudged(0), unjudged(1, text or "prose", text or "m")]})
    written = ("completion", "isolation", "outcome_reason", "outcome_detail", "failure", "trust")
    steps: dict[str, Any] = dict.fromkeys(written, text) if text is not None else {"failure": "one() -> 2"}
    rows = [
        candidate(0, judge=(1, 1), conflict="o1_z0", **steps),
        candidate(1, 0, (None, 0), **steps),
        candidate(2, 0, (1, 1), (0, None), conflict="o0_allz1", **steps),
    ]
    finish(run, "verify", {STEPS: rows})
    finish(run, "trajectories", {Output("trajectories", "train"): [trajectory(0, 3, True)]})
    group = {"accuracy": 0.75, "ci95": [0.6, 0.9], "pairs": 40, "ties": 0, "accuracy_strict": 0.7}
    folder = run.root / "models" / "m"
    (folder / "eval").mkdir(parents=True)
    named = {text or "Functional Correctness": group}
    results = {"pairs": 40, "overall": group, "by_aspect": named, "by_language": named, "baselines": named}
    (folder / "eval" / "results.json").write_text(json.dumps(results))
    log = [{"step": n, "loss": 1 / n, text or "lr": n} for n in (1, 2, 3)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    (run.root / "recipe.toml").write_text("seed = 1\n# " + (text or ""))
    return run


def test_full_page_is_well_formed_and_has_every_section(tmp_path: Path) -> None:
    page = check(render(collect(full_run(tmp_path / "run"))))
    ids = {value for tag, key, value in page.attributes if (tag, key) == ("section", "id")}
    assert ids == {
        "funnel",
        "edits",
        "labels",
        "evidence",
        "votes",
        "instructions",
        "pairs",
        "synthetic",
        "preferences",
        "programs",
        "steps",
        "trajectories",
        "models",
        "samples",
        "recipe",
    }


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_everywhere_stays_text(tmp_path: Path, text: str) -> None:
    html = render(collect(full_run(tmp_path / "run", text)))
    check(html)
    assert not set(html) & set("\u202e\u2066\x00\x1b\x7f")
    assert len(html) < 400_000


def test_escaped_text_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = "<b>&amp;\"'\\ {{ 7 * 7 }}"
    assert text in check(render(collect(full_run(tmp_path / "run", text)))).text


def test_run_named_in_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    run = new_run(tmp_path / "<i>\udcff")
    check(render(collect(run)))
    assert write_report(run).exists()


def test_content_security_policy_forbids_loading(tmp_path: Path) -> None:
    html = render(collect(new_run(tmp_path / "run")))
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in html


def test_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = full_run(tmp_path / "run")
    first = write_report(run).read_bytes()
    facts = (run.root / "report" / "report.json").read_bytes()
    assert write_report(run).read_bytes() == first
    assert (run.root / "report" / "report.json").read_bytes() == facts


def test_page_needs_nothing_but_the_facts(tmp_path: Path) -> None:
    facts = collect(full_run(tmp_path / "run"))
    assert render(json.loads(json.dumps(facts))) == render(facts)


@pytest.mark.parametrize("table", TABLES)
def test_any_single_table_makes_a_page(tmp_path: Path, table: str) -> None:
    run = new_run(tmp_path / "run")
    rows: dict[str, tuple[Output, Any]] = {
        "edits": (EDITS, edit()),
        "labels": (LABELS, label()),
        "evidence": (EVIDENCE, evidence()),
        "votes": (VOTES, votes()),
        "instructions": (INSTRUCTIONS, instruction()),
        "pairs": (TRAIN, pair()),
        "synthetic": (SYNTHETIC, synthetic()),
        "preferences": (PREFERENCES, imported()),
        "programs": (Output("programs"), program()),
        "tests": (Output("tests"), unit_test(0, "one", [])),
        "suites": (Output("suites"), suite()),
        "candidates": (Output("candidates"), unjudged()),
        "steps": (STEPS, candidate()),
        "trajectories": (Output("trajectories", "train"), trajectory(0, 1, None)),
    }
    output, row = rows[table]
    finish(run, "mine", {output: [row]})
    facts = collect(run)
    assert facts[table]["rows"] == 1
    check(render(facts))


@pytest.mark.parametrize("table", TABLES)
def test_empty_shard_is_a_table_without_a_row(tmp_path: Path, table: str) -> None:
    run = new_run(tmp_path / "run")
    split = "train" if table in SPLIT_TABLES else None
    finish(run, "mine", {Output(table, split): []})
    page = check(render(collect(run)))
    assert f"Tables without a row: {table}." in page.text


def test_empty_run_says_which_drops_took_the_rows(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: []}, {"binary": 7, "not_source": 1200})
    facts = collect(run, {"mine": {"not_source": "The file is not source code."}})
    text = check(render(facts)).text
    assert "Nothing was found" in text
    assert "Every row was dropped in mine." in text
    assert "not_source , 1,200 rows – The file is not source code." in text.replace(
        "not_source,", "not_source ,"
    )
    assert text.index("1,200 rows") < text.index("7 rows")


def test_run_without_stages_says_so(tmp_path: Path) -> None:
    assert "No stage has finished" in check(render(collect(new_run(tmp_path / "run")))).text


def test_histogram_of_two_series_keeps_the_empty_bins_between(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(0, chosen="x" * 40, rejected="x")], TEST: []})
    html = render(collect(run))
    chart = next(part for part in html.split("<svg") if "Pairs by length" in part)
    labels = re.findall(r'y="164" text-anchor="middle">([^<]*)<', chart)
    assert labels == ["1", "2–3", "4–7", "8–15", "16–31", "32–63"]


def test_run_with_pairs_does_not_say_that_nothing_was_found(tmp_path: Path) -> None:
    assert "Nothing was found" not in render(collect(full_run(tmp_path / "run")))


def test_steps_show_where_outcome_and_labels_disagree(tmp_path: Path) -> None:
    text = check(render(collect(full_run(tmp_path / "run")))).text
    assert "Passes, though a step fails" in text
    assert "two: z = 0, fails, 3 of 5 tests passed; a model says 1First failing call: one() -> 2" in text
    assert "Fails, though every labelled step passes" in text
    assert "one: z = 1, passes, 5 of 5 tests passed; beside the candidate's own functions 0" in text


def test_a_judge_is_shown_when_one_was_asked(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "verify", {STEPS: [candidate(0, judge=(1, 1)), candidate(1, judge=(0, None))]}, unit="a")
    text = check(render(collect(run))).text
    assert "A model's word against execution 3 functions were judged" in text
    assert re.search(r"Functions with both33 ?Agreement33\.3%6\.1% – 79\.2%", text)
    asked_nobody = new_run(tmp_path / "other")
    finish(asked_nobody, "verify", {STEPS: [candidate(0)]})
    assert "A model's word" not in check(render(collect(asked_nobody))).text


def test_program_shows_its_first_failing_call(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [candidate(n) for n in range(9)] + [candidate(10, failure="two(<b>) -> 3, expected 4")]
    finish(run, "verify", {STEPS: rows})
    sample = check(render(collect(run))).text.partition("A candidate with its labelled functions")[2]
    assert "First failing call: two(<b>) -> 3, expected 4" in sample


def test_damaged_evaluation_is_said_on_the_page(tmp_path: Path) -> None:
    run = full_run(tmp_path / "run")
    (run.root / "models" / "m" / "eval" / "results.json").write_text("{")
    text = check(render(collect(run))).text
    assert "eval/results.json is not JSON" in text
    assert "loss over training steps" in text


@pytest.mark.parametrize(
    "values",
    [[1.0], [5, 5, 5], [1e308, -1e308], [0.0, 1e-300], [1, None, 2]],
    ids=["one", "flat", "beyond", "tiny", "gap"],
)
def test_odd_curves_are_drawn(tmp_path: Path, values: list[float | None]) -> None:
    run = new_run(tmp_path / "run")
    folder = run.root / "models" / "m"
    folder.mkdir(parents=True)
    rows = [{"step": n, "loss": value} for n, value in enumerate(values)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    html = render(collect(run))
    check(html)
    assert not re.search(r'(?:points|[xy]\d?|width|height)="[^"]*(?:nan|inf)', html)


def test_a_metric_measured_once_is_said_in_words(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    folder = run.root / "models" / "m"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text(
        '{"step": 1, "lm": 3}\n{"step": 2, "lm": 2}\n{"event": "dev", "step": 2, "auc": 0.625}\n'
    )
    html = render(collect(run))
    assert "lm over training steps" in html
    assert "auc over training steps" not in html
    assert "Measured once: dev auc 0.625." in check(html).text
    assert "language-model loss" in check(html).text


def test_a_repository_in_both_splits_is_said_without_contradiction(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(0, license=None)], TEST: [pair(1, split="test", license=None)]})
    text = check(render(collect(run))).text
    assert "1 repository is in both splits" in text
    assert "is in one split only" not in text
    assert "None" not in text


def test_every_chart_has_a_title_and_a_description(tmp_path: Path) -> None:
    html = render(collect(full_run(tmp_path / "run")))
    charts = re.findall(r'<svg class="chart".*?</svg>', html, re.DOTALL)
    assert len(charts) >= 10
    for chart in charts:
        found = re.search(r'role="img".*?aria-labelledby="(\w+) (\w+)"', chart)
        assert found is not None
        assert f'<title id="{found[1]}">' in chart
        assert f'<desc id="{found[2]}">' in chart


def test_every_table_has_a_caption_and_scoped_headings(tmp_path: Path) -> None:
    html = render(collect(full_run(tmp_path / "run")))
    tables = re.findall(r"<table.*?</table>", html, re.DOTALL)
    assert tables
    for table in tables:
        assert "<caption>" in table
        assert re.findall(r"<th\b(?![^>]*scope=)", table) == []


def test_headings_never_skip_a_level(tmp_path: Path) -> None:
    levels = [
        int(tag[1])
        for tag in check(render(collect(full_run(tmp_path / "run")))).tags
        if re.match(r"h\d$", tag)
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def _luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance, WCAG 2.2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _themes() -> list[dict[str, tuple[float, ...]]]:
    css = (Path(sys.modules["assay.report.page"].__file__ or "").parent / "page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    return [
        {
            key: tuple(int(value[at : at + 2], 16) / 255 for at in (0, 2, 4))
            for key, value in re.findall(r"--([a-z-]+): #([0-9a-f]{6})", block)
        }
        for block in blocks
    ]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "panel", "warn-ground"])
@pytest.mark.parametrize("ink", ["ink", "soft", "accent"])
def test_text_contrast_is_aa(theme: int, ground: str, ink: str) -> None:
    colours = _themes()[theme]
    assert _contrast(colours[ink], colours[ground]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("tint", "share"), [("accent", 0.11), ("neutral", 0.26)], ids=["passes", "fails"])
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_a_labelled_function_stays_readable(theme: int, tint: str, share: float, ground: str) -> None:
    colours = _themes()[theme]
    mixed = tuple(share * a + (1 - share) * p for a, p in zip(colours[tint], colours[ground], strict=True))
    assert _contrast(colours["ink"], mixed) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_numbers_stay_readable_on_the_strongest_heat(theme: int) -> None:
    colours = _themes()[theme]
    mixed = tuple(0.4 * a + 0.6 * p for a, p in zip(colours["accent"], colours["paper"], strict=True))
    assert _contrast(colours["ink"], mixed) >= 4.5


@given(
    st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from("xyz"), st.integers(0, 10**6)), max_size=60)
)
def test_matrix_loses_no_row(cells: list[tuple[str, str, int]]) -> None:
    table = matrix([{"language": a, "aspect": b, "split": "train", "rows": n} for a, b, n in cells])
    assert table["total"] == sum(n for _, _, n in cells) == sum(row["total"] for row in table["rows"])
    assert sum(table["totals"]) == table["total"]


def test_many_languages_and_criteria_are_folded() -> None:
    cells = [{"language": f"L{n}", "aspect": f"A{n}", "split": "train", "rows": 1} for n in range(200)]
    table = matrix(cells)
    assert table["rows"][-1]["name"] == "176 others"
    assert table["columns"][-1] == "190 others"
    assert table["total"] == 200


def test_criteria_stand_in_their_usual_order() -> None:
    cells = [
        {"language": "Go", "aspect": aspect, "split": "train", "rows": rows}
        for rows, aspect in enumerate(["Security Hardness", "Functional Correctness", "Observability"], 1)
    ]
    assert matrix(cells)["columns"] == ["Functional Correctness", "Security Hardness", "Observability"]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=150))
def test_bars_stay_inside_the_chart(values: list[int]) -> None:
    chart = Charts().bars("t", "rows", [str(n) for n in range(len(values))], [("", values)])
    bars = re.findall(r'<rect class="s0" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', chart)
    assert len(bars) == sum(value > 0 for value in values)
    for bar in bars:
        x, y, width, height = map(float, bar)
        assert x >= 0
        assert x + width <= 360
        assert y >= 0
        assert y + height <= 180


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (1234567, "1,234,567"),
        (0.98765, "0.9877"),
        (12345.6, "12,346"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_for_people(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (1024, "1k"), (1500, "1.5k"), (34_000, "34k"), (2.5e-5, "2.5e-5")],
)
def test_numbers_for_an_axis(value: float, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.42, "0.4 s"), (59.6, "60 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, assay.report; "
        "print([name for name in ('pyarrow', 'jinja2', 'numpy', 'schemas.shards') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
