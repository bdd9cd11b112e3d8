"""A whole run over a real history, with judges on a server that answers well, badly, and then no more."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import Action, LoopbackModel, drops, fails, garbage, says
from vote_judges import kind_of, sides

from assay.flags import Flags
from assay.recipe import Recipe
from assay.session import Session
from labelers.commits.config import BuildConfig, EvidenceConfig, LabelConfig, VoteConfig
from labelers.llm import ModelConfig
from labelers.llm.store import totals
from miner.config import MineConfig, SplitConfig
from schemas.errors import AssayError
from schemas.rundir import RunDir

Script = Callable[[dict[str, Any]], Action]
Row = dict[str, Any]

JUDGES = ("alpha", "beta")
COMMITS = 16
BEFORE = ("repositories", "mine", "select", "dedup", "decontaminate", "label", "split", "cut", "evidence")
PRICES: dict[str, Any] = {"price_in": 1.0, "price_out": 1.0, "max_tokens": 200}
SUBJECTS = (
    "Fix crash when the list of items is empty",
    "Speed up the lookup by keeping a cache of results",
    "Fix memory leak in the pool of buffers",
    "Escape untrusted input to prevent SQL injection",
)


def git(*args: object, stdin: bytes | None = None) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    subprocess.run(["git", *map(str, args)], check=True, capture_output=True, input=stdin, env=environment)


def body_of(file: int, version: int) -> str:
    """Six functions; each version of a file makes one more of them good."""
    parts = [
        f"def step_{file}_{k}(items):\n    return {word}(items, {file}, {k})\n\n\n"
        for k, word in enumerate(["good"] * version + ["poor"] * (6 - version))
    ]
    return f'"""Module {file}."""\n\n\n' + "".join(parts)


def make_repo(path: Path) -> Path:
    """Four files that are changed one after the other."""
    git("init", "--quiet", "--bare", "--initial-branch=main", path)
    stream = []
    for n in range(COMMITS):
        file, version = n % 4, n // 4
        message, text = f"{SUBJECTS[n % len(SUBJECTS)]} ({n})\n", body_of(file, version)
        stream += [
            "commit refs/heads/main\n",
            f"author A <a@example.org> {1500000000 + n * 3600} +0000\n",
            f"committer A <a@example.org> {1500000000 + n * 3600} +0000\n",
            f"data {len(message)}\n{message}",
            f"M 100644 inline src/module{file}.py\ndata {len(text)}\n{text}\n",
        ]
    git("-C", path, "fast-import", "--quiet", stdin="".join(stream).encode())
    return path


def recipe(url: str, **settings: Any) -> Recipe:
    judges = tuple(
        ModelConfig(model=name, base_url=url, timeout_s=20.0, **{**PRICES, **settings}) for name in JUDGES
    )
    return Recipe(
        judges=judges,
        mine=MineConfig(commits_per_unit=8),
        split=SplitConfig(by="file", test_share=0.25),
        label=LabelConfig(classifier="terms"),
        evidence=EvidenceConfig(lint=False, run=False),
        vote=VoteConfig(min_score=0.0),
        build=BuildConfig(trade_offs="mark"),
    )


def stages(root: Path, given: Recipe, names: tuple[str, ...], repo: Path | None = None) -> None:
    path = root.parent / f"{root.name}.toml"
    path.write_text(given.to_toml())
    sources = {"repos": [repo]} if repo is not None else None
    flags = Flags(recipe=path, workers=2)
    with Session(flags, root, create=True, sources=sources) as session:
        session.stages(names)
        assert not session.failed


def rows(root: Path) -> dict[str, list[Row]]:
    run = RunDir.open(root)
    return {table: list(run.rows(table)) for table in ("votes", "pairs", "verdicts")}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as far as it goes without judges."""
    folder = tmp_path_factory.mktemp("votes")
    repo = make_repo(folder / "project.git")
    stages(folder / "run", recipe("http://127.0.0.1:9"), BEFORE, repo)
    return folder / "run"


@pytest.fixture
def copied(started: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(started, tmp_path / name))


def drawn(asked: dict[str, Any]) -> int:
    """A number below 100 for each prompt, sample and judge."""
    parts = [asked["model"], asked["messages"][0]["content"], asked.get("seed")]
    return int(hashlib.sha256(json.dumps(parts).encode()).hexdigest(), 16) % 100


def honest(asked: dict[str, Any]) -> Action:
    """What a good judge says to a request, or to one that asks for it again."""
    first = {**asked, "messages": asked["messages"][:1]}
    kind = kind_of(first)
    if kind == "vote":
        text = json.dumps({"reason": "it is good", "choice": _better(first)})
    elif kind == "others":
        wanted = asked["response_format"]["json_schema"]["schema"]["required"]
        text = json.dumps(dict.fromkeys(wanted, "TIE"))
    else:
        text = json.dumps({"summary": "Calls good.", "purposes": 1, "strength": 4, "specificity": 4})
    return says(text, tokens_in=500, tokens_out=40)


def _better(asked: dict[str, Any]) -> str:
    a, b = (side.count("good") for side in sides(asked))
    return "TIE" if a == b else "A" if a > b else "B"


def mixed(asked: dict[str, Any]) -> Action:
    """Mostly honest; some answers are bad for good, some until they are asked for again."""
    kind, number = len(asked["messages"]) > 1, drawn(asked)
    if number < 8:
        return says("I cannot take part in this.", tokens_in=500, tokens_out=40)
    if number < 16:
        return says('{"winner": "A"}', tokens_in=500, tokens_out=40)
    if number < 20:
        return says("", tokens_in=500, tokens_out=0)
    if number < 32 and not kind:
        return says('{"reason": "I would say that', tokens_in=500, tokens_out=40)
    return honest(asked)


class Server:
    """A script that counts what it has answered, fails each request first, and dies after so many answers."""

    def __init__(self, script: Script, stormy: bool = False, dies_after: int = 1 << 30) -> None:
        self.script, self.stormy, self.dies_after = script, stormy, dies_after
        self.answered = Counter[str]()
        self.seen = Counter[str]()
        self.lock = threading.Lock()

    def __call__(self, asked: dict[str, Any]) -> Action:
        key = json.dumps(asked, sort_keys=True)
        with self.lock:
            self.seen[key] += 1
            first, number = self.seen[key] == 1, len(self.seen)
            if self.answered.total() >= self.dies_after:
                return drops()
            if self.stormy and first:
                bad = (fails(429, retry_after="0"), fails(500), drops(), garbage(b"<html>"), garbage(b"{}"))
                return bad[number % len(bad)]
            self.answered[key] += 1
        return self.script(asked)


@pytest.fixture(scope="module")
def undisturbed(started: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Row]]]:
    """A run with a server that never fails, though its judges do; and its rows."""
    root = Path(shutil.copytree(started, tmp_path_factory.mktemp("undisturbed") / "run"))
    script = Server(mixed)
    with LoopbackModel(script) as server:
        stages(root, recipe(server.url), ("vote", "build"))
    found = rows(root)
    assert set(script.answered.values()) == {1}
    assert len(found["votes"]) == COMMITS - 4
    assert len(found["pairs"]) > len(found["votes"]) / 2
    return root, found


def test_judges_answer_and_every_row_is_accounted_for(undisturbed: tuple[Path, dict[str, list[Row]]]) -> None:
    root, found = undisturbed
    by_id = {row["id"]: row for row in found["votes"]}
    assert all(len(row["counts"]) == len(JUDGES) * 2 * 5 for row in by_id.values())
    errors = [one["error"] for row in by_id.values() for one in row["counts"]]
    assert any(errors)
    for pair in found["pairs"]:
        assert pair["evidence"]["labeler"] == "alpha+beta"
        assert pair["evidence"]["method"] == "model"
        assert pair["evidence"]["share"] > 0.5
        assert pair["evidence"]["votes"]
        assert pair["chosen"] != pair["rejected"]
    dropped = [row for row in found["verdicts"] if row["stage"] == "build" and not row["keep"]]
    confirmed = [row for row in by_id.values() if row["decision"] == "confirmed"]
    assert len(found["pairs"]) == len(confirmed)
    assert len(found["pairs"]) + len(dropped) == len(by_id)
    assert totals(root / "calls.sqlite")["failed"] == 0


def test_a_stormy_server_that_dies_in_the_middle_leaves_the_same_rows(
    copied: Callable[[str], Path], undisturbed: tuple[Path, dict[str, list[Row]]]
) -> None:
    root = copied("run")
    dying = Server(mixed, stormy=True, dies_after=80)
    with LoopbackModel(dying) as server, pytest.raises(AssayError):
        stages(root, recipe(server.url, retries=2), ("vote", "build"))
    assert dying.answered.total() == 80
    assert not rows(root)["pairs"]
    living = Server(mixed, stormy=True)
    with LoopbackModel(living) as server:
        stages(root, recipe(server.url, retries=2), ("vote", "build"))
    # Each answer was given once, by the server before or after.
    assert set((dying.answered + living.answered).values()) == {1}
    assert rows(root) == undisturbed[1]


def test_a_budget_is_never_passed_and_a_larger_one_goes_on(
    copied: Callable[[str], Path], undisturbed: tuple[Path, dict[str, list[Row]]]
) -> None:
    root = copied("run")
    script = Server(mixed)
    whole = totals(undisturbed[0] / "calls.sqlite")["cost_usd"]
    with LoopbackModel(script) as server:
        for share in (0.2, 0.5):
            with pytest.raises(AssayError, match="budget"):
                stages(root, recipe(server.url, budget_usd=share * whole), ("vote", "build"))
            told = totals(root / "calls.sqlite")
            assert told["cost_usd"] + told["lost_usd"] <= share * whole
            assert told["calls"] > 0
        stages(root, recipe(server.url, budget_usd=2 * whole), ("vote", "build"))
    assert set(script.answered.values()) == {1}
    assert totals(root / "calls.sqlite")["cost_usd"] == pytest.approx(whole)
    assert rows(root) == undisturbed[1]


def test_a_recorded_run_is_replayed_without_a_request(
    copied: Callable[[str], Path], undisturbed: tuple[Path, dict[str, list[Row]]]
) -> None:
    root = copied("run")
    recording = str(undisturbed[0] / "calls.sqlite")
    base = recipe("http://127.0.0.1:9")
    judges = tuple(dataclasses.replace(one, base_url="", replay=recording) for one in base.judges)
    with LoopbackModel(mixed) as server:
        stages(root, dataclasses.replace(base, judges=judges), ("vote", "build"))
        assert server.asked == []
    assert rows(root) == undisturbed[1]


def test_what_is_done_is_not_asked_again(undisturbed: tuple[Path, dict[str, list[Row]]]) -> None:
    with LoopbackModel(mixed) as server:
        # Another address, more attempts: answers are the same.
        stages(undisturbed[0], recipe(server.url, retries=1), ("vote", "build"))
        assert server.asked == []
    assert rows(undisturbed[0]) == undisturbed[1]
