"""Several models asked at once in one process, on one file of calls: their answers, accounts and money."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import Action, LoopbackModel, last, says

from labelers.llm import BudgetSpent, Client, Message, Request
from labelers.llm.store import totals

PRICES: dict[str, Any] = {"price_in": 1000.0, "price_out": 1000.0, "max_tokens": 50}
MODELS = ("m0", "m1", "m2")


def req(text: str, **more: Any) -> Request:
    return Request((Message("user", text),), **more)


def script(asked: dict[str, Any]) -> Action:
    # 60 tokens at a dollar a thousand: six cents.
    return says(f"{asked['model']}: {last(asked)}", tokens_in=10, tokens_out=50)


def test_models_asked_in_turn_and_interleaved_keep_their_answers_apart(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    requests = [req(f"q{n}") for n in range(50)]
    with LoopbackModel(script) as server:
        clients = [Client(server.config(model=name, **PRICES), path) for name in MODELS]
        streams = [client.ask(requests) for client in clients]
        for number, replies in enumerate(zip(*streams, strict=True)):
            assert [reply.text for reply in replies] == [f"{name}: q{number}" for name in MODELS]
        for client in clients:
            # In turn, and all there already.
            assert all(reply.cached for reply in client.ask(requests))
        accounts = [client.account for client in clients]
        spent = {round(client.spent(), 6) for client in clients}
        for client in clients:
            client.close()
        assert len(server.asked) == 150
    assert [(one.calls, one.cached, one.tokens_in) for one in accounts] == [(50, 50, 500)] * 3
    assert sum(one.cost_usd for one in accounts) == pytest.approx(9.0)
    assert spent == {9.0}
    assert totals(path)["calls"] == 150
    with sqlite3.connect(path) as db:
        kept = [
            json.loads(text) for (text,) in db.execute("SELECT account FROM sessions WHERE account != '{}'")
        ]
    assert sum(one["cost_usd"] for one in kept) == pytest.approx(9.0)


@pytest.mark.parametrize("threads", [False, True])
def test_models_share_one_budget(tmp_path: Path, threads: bool) -> None:
    path = tmp_path / "calls.sqlite"
    budget = 1.5
    got: dict[str, int] = dict.fromkeys(MODELS, 0)
    ended: list[str] = []
    with LoopbackModel(script) as server:
        clients = [Client(server.config(model=n, budget_usd=budget, **PRICES), path) for n in MODELS]

        def ask(client: Client) -> None:
            try:
                for _ in client.ask(req(f"q{n}") for n in range(100)):
                    got[client.config.model] += 1
            except BudgetSpent:
                ended.append(client.config.model)

        if threads:
            workers = [threading.Thread(target=ask, args=(client,)) for client in clients]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        else:
            for client in clients:
                ask(client)
        spent = clients[0].spent()
        for client in clients:
            client.close()
        assert spent == pytest.approx(0.06 * len(server.asked))
    assert sorted(ended) == list(MODELS)
    assert spent <= budget
    # Nothing was left lying: another call might have passed the budget.
    assert spent > budget - 0.15
    # Some answers stand behind a request that was not made.
    assert 0 < sum(got.values()) <= round(spent / 0.06)


_ASK = """
import sys
from pathlib import Path
from labelers.llm import BudgetSpent, Client, Message, ModelConfig, Request
config = ModelConfig(model=sys.argv[3], base_url=sys.argv[1], concurrency=8, budget_usd=1.5, price_in=1000.0,
                     price_out=1000.0, max_tokens=50)
try:
    with Client(config, Path(sys.argv[2])) as client:
        for _ in client.ask(Request((Message("user", f"q{n}"),)) for n in range(100)):
            pass
except BudgetSpent:
    print("spent")
"""


def test_processes_share_one_budget(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(script) as server:
        running = [
            subprocess.Popen(
                [sys.executable, "-c", _ASK, server.url, str(path), name], stdout=subprocess.PIPE, text=True
            )
            for name in ("m0", "m1", "m1")
        ]
        assert [one.communicate(timeout=60)[0].strip() for one in running] == ["spent"] * 3
        found = totals(path)
        assert found["cost_usd"] == pytest.approx(0.06 * len(server.asked))
    assert found["cost_usd"] + found["lost_usd"] <= 1.5
    assert found["cost_usd"] > 1.5 - 0.15
