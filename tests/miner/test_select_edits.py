"""Which edits go on to be labelled."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.config import SelectConfig
from miner.credentials import find_credential
from miner.filters import is_whitespace_only, judge, plan_select, select_edits, select_unit
from miner.reasons import SELECT
from schemas import shards
from schemas.errors import AssayError
from schemas.ids import content_id
from schemas.records import Edit, Hunk, Verdict
from schemas.rundir import RunDir
from schemas.stage import Keep, Output

OLD = "def total(values):\n    return sum(values) + 1\n"
NEW = "def total(values):\n    return sum(values)\n"


def edit(old: str = OLD, new: str = NEW, **change: Any) -> dict[str, Any]:
    row = Edit(
        id=content_id(old, new, repr(change)),
        repo="ada/engine",
        commit="c" * 40,
        parent="d" * 40,
        path="a.py",
        language="Python",
        old_contents=old,
        new_contents=new,
        old_id="1" * 40,
        new_id="2" * 40,
        patch_id="3" * 40,
        subject="Sum what was given",
        message="Sum what was given",
        author_time=1,
        commit_time=1,
        license="MIT",
        file_license=None,
        merged_by=None,
        reverted_by=None,
        reverted_how=None,
        cherry_picked_from=None,
        bot=False,
        ai_assisted=None,
        hunks=[Hunk(old_start=1, old_lines=1, new_start=1, new_lines=1)],
        lines_added=1,
        lines_removed=1,
    )
    return {**dataclasses.asdict(row), **change}


def why(row: dict[str, Any], **settings: Any) -> str | None:
    verdict = judge(SelectConfig(**settings), row)
    assert verdict is None or verdict[0] in SELECT
    return None if verdict is None else verdict[0]


def test_plain_edit_is_kept_with_a_verdict() -> None:
    row = edit()
    (outcome,) = select_edits(SelectConfig(), iter([row]))
    assert outcome == Keep(
        (Verdict(id=row["id"], stage="select", keep=True, reason=None, detail=None, marks=[]),)
    )


@pytest.mark.parametrize(
    ("change", "settings", "reason"),
    [
        ({"bot": True}, {}, "bot"),
        ({"bot": True}, {"drop_bots": False}, None),
        ({"reverted_by": "f" * 40}, {}, "reverted"),
        ({"reverted_by": "f" * 40}, {"drop_reverted": False}, None),
        ({"ai_assisted": "claude"}, {}, None),
        ({"ai_assisted": "claude"}, {"drop_ai_assisted": True}, "ai_assisted"),
        ({}, {"require_merged": True}, "not_merged"),
        ({"merged_by": "pr:1"}, {"require_merged": True}, None),
        ({}, {"licenses": ("MIT", "ISC")}, None),
        ({}, {"licenses": ("ISC",)}, "license_not_allowed"),
        ({"license": None}, {"licenses": ("ISC",)}, "license_not_allowed"),
        ({"license": None}, {}, None),
        ({"lines_added": 200, "lines_removed": 201}, {}, "too_many_changed_lines"),
        ({"lines_added": 200, "lines_removed": 200}, {}, None),
        ({"hunks": [{}] * 41}, {}, "too_many_hunks"),
        ({}, {"min_file_chars": len(OLD) + 1}, "too_small"),
        ({}, {"min_file_chars": len(OLD)}, None),
        ({}, {"max_file_chars": len(OLD) - 1}, "too_large"),
        ({}, {"max_file_chars": len(OLD)}, None),
    ],
)
def test_limits_and_provenance(change: dict[str, Any], settings: dict[str, Any], reason: str | None) -> None:
    assert why(edit(**change), **settings) == reason


@pytest.mark.parametrize(
    ("old", "new"),
    [(OLD, OLD.replace("\n", "\r\n")), (OLD.replace("\n", "\r"), OLD), (OLD.replace("\n", "\r\n"), OLD)],
)
def test_line_ends_alone_are_no_change(old: str, new: str) -> None:
    assert why(edit(old, new)) == "line_ends_only"


@pytest.mark.parametrize(
    ("old", "new", "language", "only"),
    [
        ("if (a) {\nb();\n}\n", "if (a) {\n    b();\n}\n", "Java", True),
        ("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n", "Python", False),
        ("if a:\n    b()\n", "if a:\n    b()\n\n\n", "Python", True),
        ("x = f(a,b)\n", "x = f(a, b)   \n", "Python", True),
        ("if a:\n\tb()\n", "if a:\n        b()\n", "Python", True),
        ("x = 1\n", "x = 2\n", "Java", False),
        ("x=1;y=2;", "x=1;\ny=2;", "C", True),
        ("a b", "ab", "Go", True),
    ],
)
def test_whitespace_that_means_nothing(old: str, new: str, language: str, only: bool) -> None:
    assert is_whitespace_only(old, new, language) is only


@given(st.text("ab \t\n", max_size=40), st.text("ab \t\n", max_size=40), st.sampled_from(["Python", "C"]))
def test_whitespace_only_is_symmetric_and_implies_equal_words(old: str, new: str, language: str) -> None:
    only = is_whitespace_only(old, new, language)
    assert only == is_whitespace_only(new, old, language)
    assert not only or "".join(old.split()) == "".join(new.split())


def credentials() -> dict[str, str]:
    """Made-up credentials, put together here so that no scanner takes this file for a leak."""
    letters = "".join(secrets.choice("BCDFGHJKLMNPQRSTVWZ") for _ in range(60))
    return {
        "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
        "AWS key id": "AKI" + "A" + letters[:16],
        "GitHub token": "ghp" + "_" + letters[:36],
        "GitLab token": "glpat" + "-" + letters[:20],
        "Slack token": "xoxb" + "-" + "98765432109-" + letters[:12],
        "Stripe key": "sk_li" + "ve_" + letters[:24],
        "Google API key": "AIz" + "a" + letters[:35],
        "Hugging Face token": "h" + "f_" + letters[:34],
        "npm token": "np" + "m_" + letters[:36],
    }


@pytest.mark.parametrize("kind", sorted(credentials()))
@pytest.mark.parametrize("side", ["old", "new"])
def test_credentials_are_found_on_both_sides_and_never_shown(kind: str, side: str) -> None:
    secret = credentials()[kind]
    text = OLD + f"key = '{secret}'\n"
    row = edit(text, NEW) if side == "old" else edit(OLD, text)
    reason, detail = judge(SelectConfig(), row) or ("", "")
    assert reason == "secret"
    assert detail == f"{kind} in line 3 of the {side} version"


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "password = 'hunter2'",
        "skip-this-and-that sk-learn task-abc",
        "ghp_" + "x" * 36,
        "hf_token = get_token()",
        "-----BEGIN PUBLIC KEY-----",
        "SKIP 0123",
    ],
)
def test_text_that_only_speaks_of_credentials_is_kept(text: str) -> None:
    assert find_credential(text) is None


def test_copies_are_left_for_dedup_to_compare() -> None:
    rows = [edit(), edit(path="b.py")]
    assert all(isinstance(one, Keep) for one in select_edits(SelectConfig(), iter(rows)))


def test_plan_reads_one_part_a_unit_and_obeys_the_limit(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    for name in ("a", "b"):
        rows = [edit(NEW, OLD + f"# {name}{number}\n") for number in range(3)]
        path = run.part_path("mine", Output("edits"), name)
        count, size, digest = shards.write_shard(path, Edit, rows)
        sidecar = shards.Sidecar(
            table="edits", split=None, stage="mine", unit=name, key="k", rows=count, bytes=size,
            sha256=digest, schema=shards.schema_digest(Edit),
        )  # fmt: skip
        shards.write_sidecar(path, sidecar)
    units = plan_select(run, limit=4)
    assert [unit.rows for unit in units] == [3, 1]
    found = [list(select_unit(SelectConfig(), run.root, unit)) for unit in units]
    assert [len(outcomes) for outcomes in found] == [3, 1]


def test_setting_that_makes_no_sense_is_refused_by_name() -> None:
    with pytest.raises(AssayError, match="max_hunks"):
        SelectConfig(max_hunks=0)
