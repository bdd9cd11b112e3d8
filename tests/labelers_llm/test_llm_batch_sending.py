"""Batches are sent once, whatever breaks in between, and within the budget."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from batch_runs import PRICES, ask, fetch, req, requests, send, upper
from loopback_batches import LoopbackBatches
from loopback_llm import Action, LoopbackModel, drops, fails, garbage
from typer.testing import CliRunner

from assay.batches import app
from labelers.llm import (
    BudgetSpent,
    ModelConfig,
    batch_run,
)
from labelers.llm.store import totals
from schemas.errors import AssayError, EnvironmentFault


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelers.llm.batch_server._PAUSE_S", 0.01)


def test_a_batch_that_the_server_refuses_as_a_whole_is_sent_again_when_told(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        ask(server.config(**PRICES), tmp_path, requests(2))
        server.invalid = "enqueued token limit reached"
        send(tmp_path)
        read, _ = fetch(tmp_path)
        assert dict(read.counts) == {"again": 2}
        assert "enqueued token limit" in read.line()
        server.invalid = ""
        assert send(tmp_path) == 2
        assert fetch(tmp_path)[0].counts == {"answered": 2}


@pytest.mark.parametrize("place", ["/v1/files", "/v1/batches"])
@pytest.mark.parametrize("trouble", [drops(), fails(503), fails(429), garbage(b"<html>")])
@pytest.mark.parametrize("late", [False, True])
def test_nothing_is_sent_twice_when_it_is_not_known_whether_it_was_sent(
    tmp_path: Path, place: str, trouble: Action, late: bool
) -> None:
    def hook(method: str, path: str) -> Action | None:
        return trouble if (method, path) == ("POST", place) else None

    with LoopbackBatches(upper) as server:
        ask(server.config(), tmp_path, requests(3))
        # Other batches of the same account, more than a page.
        for n in range(5):
            server.add_batch({"input_file_id": server.add_file(f"other{n}", b"")["id"]})
            server.batches.append({"id": f"other{n}", "status": "completed", "input_file_id": "x"})
        others = len(server.batches)
        setattr(server, "after" if late else "before", hook)
        with pytest.raises(EnvironmentFault, match="again"):
            send(tmp_path)
        server.before = server.after = lambda method, path: None
        assert send(tmp_path) == 3
        assert len(server.batches) == others + 1
        assert fetch(tmp_path)[0].counts == {"answered": 3}
        assert len(server.asked) == 3


@pytest.mark.parametrize("place", ["/v1/files", "/v1/batches"])
def test_nothing_is_sent_twice_after_a_kill(tmp_path: Path, place: str) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom labelers.llm import batch_run\n"
        "batch_run.send(Path(sys.argv[1]), print)\n"
    )
    with LoopbackBatches(upper) as server:
        ask(server.config(**PRICES, budget_usd=100.0), tmp_path, requests(3))
        child: list[subprocess.Popen[bytes]] = []
        started = threading.Event()

        def kill(method: str, path: str) -> Action | None:
            if (method, path) != ("POST", place):
                return None
            # It is done here, and the client dies before it hears of it.
            started.wait(timeout=30)
            os.kill(child[0].pid, signal.SIGKILL)
            return drops()

        server.after = kill
        child.append(subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]))
        started.set()
        assert child[0].wait(timeout=60) == -signal.SIGKILL
        server.after = lambda method, path: None
        assert send(tmp_path) == 3
        assert (server.created("/v1/files"), server.created("/v1/batches")) == (1, 1)
        assert fetch(tmp_path)[0].counts == {"answered": 3}
    assert totals(tmp_path / "calls.sqlite")["cost_usd"] == pytest.approx(0.09)


def test_a_server_that_lists_no_batches_is_not_sent_a_batch_again_unless_told(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        server.lists = False
        ask(server.config(), tmp_path, requests(1))
        server.after = lambda method, path: drops() if (method, path) == ("POST", "/v1/batches") else None
        with pytest.raises(EnvironmentFault):
            send(tmp_path)
        server.after = lambda method, path: None
        for _ in range(2):
            with pytest.raises(EnvironmentFault, match="--resend"):
                send(tmp_path)
        assert len(server.batches) == 1
        assert send(tmp_path, resend=True) == 1
        assert len(server.batches) == 2


def test_a_server_that_turns_a_file_down_leaves_it_to_be_sent(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        ask(server.config(**PRICES, budget_usd=1.0), tmp_path, requests(2))
        server.before = lambda method, path: fails(400, "billing limit") if method == "POST" else None
        with pytest.raises(EnvironmentFault, match=r"not sent .*billing limit"):
            send(tmp_path)
        (row,) = batch_run.rows(tmp_path)
        assert (row.state, row.waiting, row.held_usd) == ("open", 2, 0.0)
        assert "billing limit" in row.told
        server.before = lambda method, path: None
        assert send(tmp_path) == 2
    with pytest.raises(EnvironmentFault, match="no server"):
        fetch(tmp_path)


def spend(run: Path, rounds: list[int]) -> None:
    """Send and fetch for as long as the budget leaves a request; what is set aside counts as spent."""
    while True:
        rounds.append(send(run))
        (row,) = [one for one in batch_run.rows(run) if one.state == "sent"]
        assert totals(run / "calls.sqlite")["cost_usd"] + row.held_usd <= 0.4 + 1e-9
        # The rest has to wait for what this leaves.
        with pytest.raises(BudgetSpent):
            send(run)
        fetch(run)


def test_a_batch_that_its_server_forgot_keeps_no_other_from_being_fetched(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        ask(server.config(), tmp_path, requests(2))
        send(tmp_path)
        ask(server.config(), tmp_path, requests(4))
        send(tmp_path)
        del server.batches[0]
        with pytest.raises(EnvironmentFault, match="--give-up"):
            fetch(tmp_path)
        assert [one.state for one in batch_run.rows(tmp_path)] == ["sent", "done"]
        read, _ = batch_run.fetch(tmp_path, lambda line: None, give_up=True)
        assert read.counts == {"again": 2}
        assert send(tmp_path) == 2


def test_the_budget_holds_for_batches(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        # At most four cents a request, and three really.
        ask(server.config(**PRICES, budget_usd=0.4), tmp_path, requests(20))
        rounds: list[int] = []
        with pytest.raises(BudgetSpent, match="larger --budget"):
            spend(tmp_path, rounds)
        assert len(rounds) > 1
        found = totals(tmp_path / "calls.sqlite")
        assert 0.3 < found["cost_usd"] <= 0.4
        assert len(server.asked) == sum(rounds) == round(found["cost_usd"] / 0.03)
        assert all(one.held_usd == 0 for one in batch_run.rows(tmp_path))
        assert send(tmp_path, budget_usd=10.0) == 20 - sum(rounds)


def test_calls_do_not_spend_what_is_set_aside_for_batches(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as batches, LoopbackModel(upper) as server:
        batches.hold = True
        ask(batches.config(**PRICES, budget_usd=1.0), tmp_path, requests(12))
        send(tmp_path)
        held = sum(one.held_usd for one in batch_run.rows(tmp_path))
        assert held > 0.5
        with pytest.raises(BudgetSpent):
            ask(server.config(**PRICES, budget_usd=1.0), tmp_path, [req(f"other{n}") for n in range(50)])
        found = totals(tmp_path / "calls.sqlite")
        assert found["cost_usd"] + held <= 1.0
        batches.hold = False
        fetch(tmp_path)
        assert totals(tmp_path / "calls.sqlite")["cost_usd"] <= 1.0


def test_a_budget_without_a_price_sends_nothing(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        ask(server.config(), tmp_path, requests(1))
        with pytest.raises(EnvironmentFault, match="price is not known"):
            send(tmp_path, budget_usd=1.0)
        assert server.requests == []


def test_only_one_command_works_on_the_batches_of_a_run(tmp_path: Path) -> None:
    ask(ModelConfig(model="m", base_url="http://127.0.0.1:9/v1", batch=True), tmp_path, requests(1))
    with batch_run.opened(tmp_path), pytest.raises(AssayError, match="another command"):
        send(tmp_path)


def run_command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_the_commands_say_what_they_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", "secret-key")
    with LoopbackBatches(upper, key="secret-key") as server:
        config = server.config(api_key_env="LOOPBACK_KEY", **PRICES)
        ask(config, tmp_path, requests(2))
        run = ("--run-dir", str(tmp_path))
        path = tmp_path / "batches" / "loopback-model-0001.jsonl"
        assert run_command("status", *run) == (0, f"{path}: open, 2 of 2 requests wait\n", "")
        assert run_command("send", *run) == (0, "sent: 2 requests\n", f"{path}: sent as batch_0\n")
        assert (
            "sent, 2 of 2 requests wait, $0.0840 set aside, batch_0: validating"
            in run_command("status", *run)[1]
        )
        _, out, err = run_command("fetch", "--wait", "--every", "0.1", *run)
        assert out == "read: 2 answered, $0.0600\n"
        assert err == f"{path}: completed (2 of 2 done): 2 answered, $0.0600\n"
        assert run_command("send", *run)[1] == "nothing waits to be sent\n"
        facts = json.loads(run_command("status", "--json", *run)[1])
        assert [(one["state"], one["waiting"]) for one in facts["files"]] == [("done", 0)]
        assert b"secret-key" not in b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    with pytest.raises(AssayError, match="base_url"):
        run_command("send", "--base-url", "nonsense", *run)
