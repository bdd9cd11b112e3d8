"""Money: never more than the budget, whoever spends, and a later run goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import Action, LoopbackModel, drops, fails, last, says

from labelers.llm import BudgetSpent, Client, Message, ModelConfig, Request
from labelers.llm.calls import Call
from labelers.llm.prices import price_of
from labelers.llm.store import Store, totals
from schemas.errors import AssayError

PRICES: dict[str, Any] = {"price_in": 1000.0, "price_out": 1000.0, "max_tokens": 50}


def req(text: str) -> Request:
    return Request((Message("user", text),))


def dear(asked: dict[str, Any]) -> Action:
    # 60 tokens at a dollar a thousand: six cents.
    return says(last(asked).upper(), tokens_in=10, tokens_out=50)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_run_stops_before_its_budget_is_passed_and_gives_what_it_has(concurrency: int) -> None:
    with LoopbackModel(dear) as server:
        with Client(server.config(budget_usd=1.0, concurrency=concurrency, **PRICES)) as client:
            got = []
            with pytest.raises(BudgetSpent, match="larger budget_usd"):
                got.extend(reply.text for reply in _each(client, got))
            assert client.spent() <= 1.0
            # At most one call's upper bound is left over.
            assert client.spent() > 1.0 - 0.15
        assert len(server.asked) == round(client.account.cost_usd / 0.06)
    assert got == [f"Q{n}" for n in range(len(got))]
    assert len(got) >= 10


def _each(client: Client, got: list[str]) -> Any:
    for reply in client.ask(req(f"q{n}") for n in range(100)):
        got.append(reply.text)
    return ()


def test_more_budget_goes_on_from_what_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(dear) as server:
        with Client(server.config(budget_usd=0.5, **PRICES), path) as client, pytest.raises(BudgetSpent):
            list(client.ask(req(f"q{n}") for n in range(20)))
        asked = len(server.asked)
        assert 0 < asked < 20
        with Client(server.config(budget_usd=0.5, **PRICES), path) as client, pytest.raises(BudgetSpent):
            list(client.ask(req(f"q{n}") for n in range(20)))
        assert len(server.asked) == asked
        with Client(server.config(budget_usd=5.0, **PRICES), path) as client:
            replies = list(client.ask(req(f"q{n}") for n in range(20)))
        assert [reply.text for reply in replies] == [f"Q{n}" for n in range(20)]
        assert len(server.asked) == 20


def test_cached_answers_are_free(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(dear) as server:
        with Client(server.config(**PRICES), path) as client:
            list(client.ask([req("a")]))
        with Client(server.config(budget_usd=0.0001, **PRICES), path) as client:
            (reply,) = client.ask([req("a")])
    assert (reply.text, reply.cached) == ("A", True)


def test_attempts_that_may_be_charged_count_and_refused_ones_do_not() -> None:
    with (
        LoopbackModel(lambda asked: drops()) as server,
        Client(server.config(budget_usd=10.0, retries=2, missing="skip", **PRICES)) as client,
    ):
        (reply,) = client.ask([req("a")])
        assert reply.error
        most = price_of(client.config).most(Call.of(req("a"), client.config))  # type: ignore[union-attr]
        assert client.spent() == pytest.approx(3 * most)
    with (
        LoopbackModel(lambda asked: fails(500)) as server,
        Client(server.config(budget_usd=10.0, retries=1, missing="skip", **PRICES)) as client,
    ):
        list(client.ask([req("a")]))
        assert client.spent() == 0


def test_a_budget_needs_a_price() -> None:
    with pytest.raises(AssayError, match="price_in"):
        Client(ModelConfig(model="x", base_url="http://127.0.0.1:9", budget_usd=1.0))


def test_prices_of_known_models_are_found_without_importing_litellm() -> None:
    script = (
        "import sys\nfrom labelers.llm.config import ModelConfig\nfrom labelers.llm.prices import price_of\n"
        "price = price_of(ModelConfig(model='gpt-4o-mini'))\n"
        "assert price.token_in > 0 and price.token_out > price.token_in\n"
        "assert price_of(ModelConfig(model='nobody/none')) is None\n"
        "assert 'litellm' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_clients_of_one_file_share_the_budget(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "c"), Store(tmp_path / "c")
    held = first.hold(0.6, 1.0)
    assert isinstance(held, int)
    assert second.hold(0.6, 1.0) == "wait"
    assert first.release(held, lost=False) == 0.0
    assert isinstance(second.hold(0.6, 1.0), int)
    assert first.hold(1.1, 1.0) == "spent"
    first.close()
    second.close()


def test_what_a_killed_client_had_under_way_counts_as_spent(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom labelers.llm.store import Store\n"
        "store = Store(Path(sys.argv[1]))\nassert isinstance(store.hold(0.7, 1.0), int)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "c")], check=False)
    assert killed.returncode == -9
    store = Store(tmp_path / "c")
    # Not `wait`: nobody is left who could give it back.
    assert store.hold(0.6, 1.0) == "spent"
    assert store.spent() == pytest.approx(0.7)
    assert isinstance(store.hold(0.2, 1.0), int)
    store.close()
    assert totals(tmp_path / "c")["lost_usd"] == pytest.approx(0.9)


def test_the_most_that_a_call_may_cost_is_not_less_than_any_tokenizer_counts() -> None:
    config = ModelConfig(model="m", price_in=1e6, price_out=0.0, max_tokens=1)
    price = price_of(config)
    assert price is not None
    for text in ("", "x", "日本語", "\x00\x01", "a b c d", "🙂" * 100):
        # One token a byte is the worst that byte-level tokenizers do.
        assert price.most(Call.of(req(text), config)) >= len(text.encode())


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_holds_no_calls_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calls.sqlite"
    path.write_bytes(content)
    with pytest.raises(AssayError, match=r"calls\.sqlite"):
        Store(path)
    assert path.read_bytes() == content


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="cannot be stored"):
        Store(tmp_path / "none" / os.fspath("calls.sqlite"))
