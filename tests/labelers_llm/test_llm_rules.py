"""Answers by rules: no model, no network, no cost, kept by what the rule said."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import LoopbackModel, says

from labelers.llm import Client, Message, ModelConfig, ModelFault, Request
from labelers.llm.calls import Call
from labelers.llm.prices import price_of
from labelers.llm.store import totals

RULES = ModelConfig(model="rules")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def req(text: str, rule: str | None = None, **more: Any) -> Request:
    return Request((Message("user", text),), rule=rule, **more)


def test_the_name_alone_is_enough() -> None:
    assert RULES.kind == "rules"
    assert RULES.enabled
    assert RULES.complaint() is None
    assert ModelConfig(backend="rules", model="rules").complaint() is None
    assert RULES.key_settings() == {"model": "rules"}


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "rules"},
        {"backend": "rules", "model": "gpt-4o"},
        {"model": "rules", "base_url": "http://localhost:1/v1"},
        {"model": "rules", "backend": "litellm"},
        {"model": "rules", "batch": True},
    ],
)
def test_what_rules_cannot_be_is_told(settings: dict[str, Any]) -> None:
    with pytest.raises(ModelFault):
        Client(ModelConfig(**settings))


def test_rules_answer_without_network_and_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    config = ModelConfig(model="rules", budget_usd=0.01, price_in=1e5, price_out=1e5)
    with Client(config, tmp_path / "c") as client:
        replies = list(client.ask([req("q", "yes"), req("q", '{"a": 3}', schema=SCHEMA)]))
        assert client.spent() == 0
    assert [reply.text for reply in replies] == ["yes", '{"a": 3}']
    assert replies[1].parsed == {"a": 3}
    assert {reply.cost_usd for reply in replies} == {0.0}
    assert totals(tmp_path / "c")["cost_usd"] == 0


def test_a_request_without_a_rule_fails_alone() -> None:
    with Client(RULES) as client:
        first, bad, after = client.ask([req("a", "1"), req("b"), req("c", "2")])
    assert (first.text, after.text) == ("1", "2")
    assert (bad.text, bad.finish) == ("", "no_rule")
    assert bad.error


def test_a_rule_that_changed_its_mind_is_not_answered_from_the_cache(tmp_path: Path) -> None:
    for text, cached in (("old", False), ("old", True), ("new", False)):
        with Client(RULES, tmp_path / "c") as client:
            (reply,) = client.ask([req("q", text)])
        assert (reply.text, reply.cached) == (text, cached)


def test_a_rule_is_no_part_of_what_other_models_are_asked() -> None:
    with LoopbackModel(lambda asked: says("model")) as server, Client(server.config()) as client:
        assert [one.text for one in client.ask([req("q", "x"), req("q", "y"), req("q")])] == ["model"] * 3
        assert len(server.asked) == 1
    config = ModelConfig(model="m")
    assert Call.of(req("q", "x"), config).hash == Call.of(req("q"), config).hash
    # Answers of files that exist are found by it.
    assert Call.of(req("q", kind="k", expected_tokens=3), config).hash == "e36c1f264a15bbd199efa28f562ce9a0"


def test_rules_that_were_recorded_are_played_again(tmp_path: Path) -> None:
    with Client(RULES, tmp_path / "c") as client:
        list(client.ask([req("q", "1")]))
    replay = ModelConfig(model="rules", replay=str(tmp_path / "c"))
    assert replay.key_settings() == RULES.key_settings()
    with Client(replay) as client:
        assert [one.text for one in client.ask([req("q", "1")])] == ["1"]
        with pytest.raises(ModelFault, match="holds no answer"):
            list(client.ask([req("q", "2")]))


def test_a_rule_that_does_not_fit_its_schema_is_an_error() -> None:
    with Client(RULES) as client:
        (reply,) = client.ask([req("q", json.dumps({"a": "x"}), schema=SCHEMA)])
    assert "fits the schema" in (reply.error or "")
    assert reply.parsed is None


def test_rules_cost_nothing_whatever_price_is_set() -> None:
    price = price_of(ModelConfig(model="rules", price_in=3.0, price_out=3.0))
    assert price is not None
    assert price.of(1000, 1000) == 0
