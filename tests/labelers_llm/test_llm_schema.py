"""Answers in JSON that fit a schema, or are asked for once more; and recorded runs that are played again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import MODEL, Action, LoopbackModel, fails, last, says

from labelers.llm import Client, Message, ModelConfig, ModelFault, Request
from schemas.errors import AssayError

SCHEMA = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}},
    "required": ["correct"],
    "additionalProperties": False,
}


def req(text: str, schema: dict[str, Any] | None = None, **more: Any) -> Request:
    return Request((Message("user", text),), schema=schema, **more)


def stubborn(asked: dict[str, Any]) -> Action:
    """Answers prose first, and JSON when it is told what was wrong, except to those who ask in vain."""
    first = asked["messages"][0]["content"]
    if len(asked["messages"]) == 1:
        return says("I think that it is correct.")
    return says("Still prose." if first == "vain" else '{"correct": true}')


def test_an_answer_that_does_not_fit_is_asked_for_once_more() -> None:
    with LoopbackModel(stubborn) as server, Client(server.config(price_in=1.0, price_out=1.0)) as client:
        (reply,) = client.ask([req("a", SCHEMA)])
        assert reply.parsed == {"correct": True}
        assert reply.error is None
        assert len(server.asked) == 2
        second = server.asked[1]["messages"]
    assert [one["role"] for one in second] == ["user", "assistant", "user"]
    assert "holds no JSON value" in second[2]["content"]
    assert json.dumps(SCHEMA, sort_keys=True) in second[2]["content"]
    assert (reply.tokens_in, reply.tokens_out) == (20, 10)
    assert reply.cost_usd == pytest.approx(30e-6)
    assert client.account.repairs == 1


def test_an_answer_that_never_fits_is_an_error_and_asked_for_no_third_time() -> None:
    with LoopbackModel(stubborn) as server, Client(server.config()) as client:
        (reply,) = client.ask([req("vain", SCHEMA)])
        assert len(server.asked) == 2
    assert reply.parsed is None
    assert reply.error == "no answer that fits the schema: the answer holds no JSON value"
    assert reply.text == "Still prose."


def test_a_repaired_answer_comes_from_the_cache_without_any_call(tmp_path: Path) -> None:
    with LoopbackModel(stubborn) as server:
        for _ in range(2):
            with Client(server.config(), tmp_path / "c") as client:
                replies = list(client.ask([req("a", SCHEMA), req("vain", SCHEMA)]))
        assert len(server.asked) == 4
    assert [reply.cached for reply in replies] == [True, True]
    assert [reply.parsed for reply in replies] == [{"correct": True}, None]
    assert client.account.cached == 2


def test_a_long_answer_does_not_make_its_repair_endless() -> None:
    def script(asked: dict[str, Any]) -> Action:
        return says("x" * 500_000) if len(asked["messages"]) == 1 else says('{"correct": false}')

    with LoopbackModel(script) as server, Client(server.config()) as client:
        (reply,) = client.ask([req("a", SCHEMA)])
        assert len(json.dumps(server.asked[1])) < 50_000
    assert reply.parsed == {"correct": False}


def mixed(asked: dict[str, Any]) -> Action:
    return fails(400, "refused") if last(asked) == "bad" else stubborn(asked)


REQUESTS = [req("a"), req("a", sample=1), req("b", SCHEMA), req("vain", SCHEMA), req("bad")]


def test_a_recorded_run_is_played_again_without_a_server(tmp_path: Path) -> None:
    with LoopbackModel(mixed) as server, Client(server.config(), tmp_path / "calls.sqlite") as client:
        first = list(client.ask(REQUESTS))
        config = ModelConfig(backend="replay", model=MODEL, replay=str(tmp_path / "calls.sqlite"))
        assert config.key_settings() == server.config().key_settings()
    with Client(config) as client:
        again = list(client.ask(REQUESTS))
        assert client.account.calls == 0
    assert [(one.text, one.parsed, one.error) for one in again] == [
        (one.text, one.parsed, one.error) for one in first
    ]
    assert all(one.cached for one in again)


def test_a_call_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    with LoopbackModel(mixed) as server, Client(server.config(), tmp_path / "calls.sqlite") as client:
        list(client.ask([req("a")]))
    config = ModelConfig(backend="replay", model=MODEL, replay=str(tmp_path / "calls.sqlite"))
    with (
        Client(config) as client,
        pytest.raises(ModelFault, match=r"holds no answer.*'never asked'"),
    ):
        list(client.ask([req("a"), req("never\nasked")]))
    with Client(config) as client, pytest.raises(ModelFault, match="sample 1"):
        list(client.ask([req("a", sample=1)]))


@pytest.mark.parametrize("kind", ["missing", "text", "other", "folder"])
def test_a_file_that_is_no_recording_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "recording"
    if kind == "text":
        path.write_text("no database " * 100)
    elif kind == "other":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE calls (x)")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(AssayError, match="recorded calls"):
        Client(ModelConfig(backend="replay", model=MODEL, replay=str(path)))


def test_a_damaged_recording_is_told(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(mixed) as server, Client(server.config(), path) as client:
        list(client.ask([req("a")]))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE calls SET tokens_in = 'many', text = x'00ff'")
    config = ModelConfig(backend="replay", model=MODEL, replay=str(path))
    with Client(config) as client, pytest.raises(AssayError, match="damaged"):
        list(client.ask([req("a")]))
