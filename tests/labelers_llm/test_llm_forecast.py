"""What requests will cost, told before: near what they cost then, and without asking or writing anything."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import MODEL, Action, LoopbackModel, says

from labelers.llm import Client, Message, ModelConfig, Request
from labelers.llm.forecast import forecast
from labelers.llm.store import totals
from schemas.errors import AssayError
from schemas.tokens import estimate_tokens

PRICES: dict[str, Any] = {"price_in": 2.0, "price_out": 8.0}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def req(text: str, **more: Any) -> Request:
    return Request((Message("user", text),), **more)


def prompts(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    words = ("def", "return", "value", "self", "index", "range", "print", "lambda", "yield", "import")
    return [f"{seed}-{n} " + " ".join(draw.choices(words, k=draw.randint(20, 400))) for n in range(count)]


def counting(out: int, factor: float = 1.0) -> Any:
    """A server that counts prompts by so many tokens for one of ours, and answers with `out` on average."""
    draw = random.Random(7)

    def script(asked: dict[str, Any]) -> Action:
        told = sum(estimate_tokens(one["content"]) for one in asked["messages"])
        text = json.dumps({"a": 1})
        return says(
            text, tokens_in=round(factor * (told + 20)), tokens_out=draw.randint(out // 2, out * 3 // 2)
        )

    return script


def test_nothing_is_asked_or_written_and_the_asker_is_believed_first(tmp_path: Path) -> None:
    requests = [req(text, expected_tokens=30, kind="k") for text in prompts(10)]
    with LoopbackModel(counting(1)) as server:
        told = forecast(requests, server.config(**PRICES), tmp_path / "calls.sqlite")
        assert server.asked == []
    assert list(tmp_path.iterdir()) == []
    assert (told.calls, told.cached, told.tokens_out) == (10, 0, 300)
    assert told.cost_usd == pytest.approx((told.tokens_in * 2 + told.tokens_out * 8) / 1e6)


@pytest.mark.parametrize("factor", [0.7, 1.6])
@pytest.mark.parametrize("kind", ["judge 3", ""])
def test_the_cost_of_the_rest_is_told_within_15_percent_once_some_are_answered(
    tmp_path: Path, factor: float, kind: str
) -> None:
    requests = [req(text, kind=kind, expected_tokens=1) for text in prompts(200)]
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(counting(90, factor)) as server:
        config = server.config(**PRICES)
        with Client(config, path) as client:
            list(client.ask(requests[:40]))
            before = client.spent()
        told = forecast(requests, config, path)
        with Client(config, path) as client:
            list(client.ask(requests))
            real = client.spent() - before
    assert (told.calls, told.cached) == (160, 40)
    assert told.cost_usd == pytest.approx(real, rel=0.15)


def test_repairs_are_expected_as_often_as_they_were_seen(tmp_path: Path) -> None:
    def script(asked: dict[str, Any]) -> Action:
        hard = int(asked["messages"][0]["content"].split("-")[1].split()[0]) % 2
        first = len(asked["messages"]) == 1
        tokens = sum(estimate_tokens(one["content"]) for one in asked["messages"])
        return says("prose" if hard and first else '{"a": 1}', tokens_in=tokens, tokens_out=200)

    requests = [req(text, kind="k", schema=SCHEMA) for text in prompts(150)]
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(script) as server:
        config = server.config(**PRICES)
        with Client(config, path) as client:
            list(client.ask(requests[:50]))
            before = client.spent()
        told = forecast(requests, config, path)
        with Client(config, path) as client:
            list(client.ask(requests))
            real = client.spent() - before
            assert client.account.repairs == 50
    assert (told.calls, told.cached, told.repairs) == (100, 50, 50)
    assert told.cost_usd == pytest.approx(real, rel=0.15)


def test_a_repair_that_was_never_asked_is_a_call(tmp_path: Path) -> None:
    request = req("q", schema=SCHEMA)
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(lambda _: says("prose")) as server:
        config = server.config(**PRICES)
        with Client(config, path) as client:
            # Only its first answer is kept: that to the same call without its repair.
            list(client.ask([request]))
        with sqlite3.connect(path) as db:
            db.execute("DELETE FROM calls WHERE kind = '/repair'")
        assert forecast([request], config, path).calls == 1
        with Client(config, path) as client:
            list(client.ask([request]))
        told = forecast([request], config, path)
    assert (told.calls, told.cached, told.cost_usd) == (0, 1, 0.0)


def test_equal_requests_are_counted_once_and_kinds_change_no_key() -> None:
    told = forecast([req("a"), req("a", kind="other"), req("b")], ModelConfig(model="m"), None)
    assert (told.calls, told.cached, told.cost_usd) == (2, 1, None)


def test_an_unknown_answer_is_bounded_by_what_it_may_be() -> None:
    config = ModelConfig(model="m", **PRICES)
    assert forecast([req("a", max_tokens=10)], config, None).tokens_out == 5
    assert forecast([req("a", max_tokens=100_000)], config, None).tokens_out < 2000
    assert forecast([req("a", max_tokens=10, expected_tokens=99)], config, None).tokens_out == 10


def test_a_batch_costs_half_and_rules_cost_nothing() -> None:
    requests = [req(text, rule="x") for text in prompts(5)]
    whole = forecast(requests, ModelConfig(model="m", **PRICES), None).cost_usd
    half = forecast(requests, ModelConfig(model="m", batch=True, **PRICES), None).cost_usd
    assert whole is not None
    assert half == pytest.approx(whole / 2)
    told = forecast(requests, ModelConfig(model="rules", **PRICES), None)
    assert (told.calls, told.tokens_in, told.tokens_out, told.cost_usd) == (5, 0, 0, 0.0)


def test_answers_of_rules_tell_nothing_of_a_models(tmp_path: Path) -> None:
    store = tmp_path / "calls.sqlite"
    requests = [
        req(text, expected_tokens=30, kind="k", schema=SCHEMA, rule=json.dumps({"a": n}))
        for n, text in enumerate(prompts(40))
    ]
    model = ModelConfig(model="x", base_url="http://127.0.0.1:1/v1", **PRICES)
    before = forecast(requests, model, store)
    with Client(ModelConfig(model="rules"), store) as client:
        assert all(reply.parsed for reply in client.ask(requests))
    assert forecast(requests, model, store) == before


def test_a_recording_is_not_asked(tmp_path: Path) -> None:
    config = ModelConfig(model="m", replay=str(tmp_path / "none"))
    told = forecast([req("a")], config, None)
    assert (told.calls, told.cached, told.cost_usd) == (0, 1, 0.0)


def test_requests_are_drawn_one_by_one() -> None:
    alive = 0

    class Counted(str):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0

    def source() -> Iterator[Request]:
        nonlocal alive, most
        for n in itertools.islice(itertools.count(), 500):
            alive += 1
            most = max(most, alive)
            yield req("x", seed=n, kind=Counted(f"k{n % 3}"))

    forecast(source(), ModelConfig(model="m"), None)
    assert most < 50


def test_files_of_the_first_format_are_read_and_brought_on(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    requests = [req(text) for text in prompts(30)]
    with LoopbackModel(counting(50)) as server:
        config = server.config(**PRICES)
        with Client(config, path) as client:
            list(client.ask(requests))
        with sqlite3.connect(path) as db:
            db.execute("DROP INDEX calls_by_kind")
            db.execute("ALTER TABLE calls DROP COLUMN kind")
            for table in ("targets", "files", "calls"):
                db.execute(f"DROP TABLE batch_{table}")
            db.execute("PRAGMA user_version = 1")
        more = [*requests, *(req(text) for text in prompts(10, seed=1))]
        told = forecast(more, config, path)
        assert (told.calls, told.cached) == (10, 30)
        assert told.tokens_out == pytest.approx(500, rel=0.2)
        replay = ModelConfig(model=MODEL, replay=str(path))
        with Client(replay) as client:
            assert all(one.cached for one in client.ask(requests))
        with Client(config, path) as client:
            assert sum(one.cached for one in client.ask(more)) == 30
        assert len(server.asked) == 40
    assert totals(path)["calls"] == 40


@pytest.mark.parametrize("content", [b"no database at all " * 99, b""])
def test_a_file_that_holds_no_calls_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calls.sqlite"
    path.write_bytes(content)
    with pytest.raises(AssayError, match=r"calls\.sqlite"):
        forecast([req("a")], ModelConfig(model="m"), path)
