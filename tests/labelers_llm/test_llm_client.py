"""Asking a model through a real server on this machine: order, cache, retries, faults."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopback_llm import KEY, MODEL, Action, LoopbackModel, drops, fails, garbage, last, says

from labelers.llm import BudgetSpent, Client, Message, ModelConfig, ModelFault, Request
from labelers.llm.store import totals
from schemas.errors import AssayError, EnvironmentFault


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelers.llm.client._FIRST_WAIT_S", 0.01)


def req(text: str, **more: Any) -> Request:
    return Request((Message("user", text),), **more)


def upper(asked: dict[str, Any]) -> Action:
    return says(last(asked).upper())


def texts(client: Client, *prompts: str) -> list[str]:
    return [reply.text for reply in client.ask(req(prompt) for prompt in prompts)]


def test_replies_come_in_the_order_of_requests_whatever_order_they_end_in() -> None:
    def script(asked: dict[str, Any]) -> Action:
        return says(last(asked), seconds=0.02 * (int(last(asked)) % 5))

    with LoopbackModel(script) as server, Client(server.config(concurrency=16)) as client:
        assert texts(client, *map(str, range(60))) == [str(n) for n in range(60)]


def test_requests_are_under_way_together_but_no_more_than_allowed() -> None:
    gate = threading.Barrier(6)

    def script(asked: dict[str, Any]) -> Action:
        # Passes only when six are open at once: one at a time, the barrier breaks.
        gate.wait(timeout=20)
        return says("ok")

    with LoopbackModel(script) as server, Client(server.config(concurrency=6)) as client:
        assert texts(client, *map(str, range(12))) == ["ok"] * 12
        assert server.most_at_once == 6


def test_a_lazy_source_of_requests_is_not_drawn_to_its_end() -> None:
    drawn = itertools.count()
    endless = (req(f"q{next(drawn)}") for _ in itertools.count())
    with LoopbackModel(upper) as server, Client(server.config(concurrency=4)) as client:
        replies = client.ask(endless)
        assert [next(replies).text for _ in range(3)] == ["Q0", "Q1", "Q2"]
        replies.close()
        assert next(drawn) < 200


def test_an_answer_is_not_asked_for_again_after_a_restart(tmp_path: Path) -> None:
    with LoopbackModel(upper) as server:
        for _ in range(2):
            with Client(server.config(), tmp_path / "calls.sqlite") as client:
                assert texts(client, "a", "b") == ["A", "B"]
                account = client.account
        assert len(server.asked) == 2
    assert (account.calls, account.cached) == (0, 2)
    assert totals(tmp_path / "calls.sqlite")["calls"] == 2


def test_what_may_change_an_answer_is_asked_anew() -> None:
    different = [
        req("a"),
        req("a", sample=1),
        req("a", seed=1),
        req("a", temperature=0.1),
        req("a", max_tokens=7),
        req("a", stop=("x",)),
        req("a", schema={"type": "object"}),
        Request((Message("system", "a"),)),
        Request((Message("user", "a"), Message("assistant", "b"), Message("user", "a"))),
    ]
    with LoopbackModel(lambda asked: says("{}")) as server, Client(server.config()) as client:
        assert all(not reply.cached for reply in client.ask(different))
        assert len(server.asked) == len(different)
        assert all(reply.cached for reply in client.ask(different))


def test_where_and_how_fast_a_model_is_served_does_not_change_the_cache(tmp_path: Path) -> None:
    with LoopbackModel(upper) as first, Client(first.config(), tmp_path / "c.sqlite") as client:
        texts(client, "a")
    with LoopbackModel(upper) as second:
        moved = second.config(
            concurrency=3, timeout_s=9.0, retries=1, price_in=0.0, price_out=0.0, budget_usd=1.0
        )
        with Client(moved, tmp_path / "c.sqlite") as client:
            assert texts(client, "a") == ["A"]
        assert second.asked == []


def test_equal_requests_under_way_are_asked_once() -> None:
    with LoopbackModel(lambda asked: says("x", seconds=0.1)) as server, Client(server.config()) as client:
        replies = list(client.ask([req("same")] * 30))
        assert len(server.asked) == 1
    assert {reply.text for reply in replies} == {"x"}
    assert client.account.calls == 1
    assert client.account.cached == 29


def test_parameters_reach_the_server() -> None:
    with LoopbackModel(upper) as server, Client(server.config(top_p=0.5)) as client:
        list(client.ask([req("a", temperature=0.25, max_tokens=9, seed=4, stop=("z",))]))
        (asked,) = server.asked
    assert asked == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0.25,
        "top_p": 0.5,
        "max_tokens": 9,
        "seed": 4,
        "stop": ["z"],
    }


def test_a_reply_tells_tokens_cost_and_who_answered() -> None:
    with LoopbackModel(lambda asked: says("x", tokens_in=1000, tokens_out=500, finish="length")) as server:
        config = server.config(price_in=2.0, price_out=4.0)
        with Client(config) as client:
            (reply,) = client.ask([req("a")])
    assert (reply.tokens_in, reply.tokens_out, reply.cost_usd) == (1000, 500, pytest.approx(0.004))
    assert (reply.finish, reply.model, reply.cached, reply.error) == (
        "length",
        MODEL + "-served",
        False,
        None,
    )
    assert len(reply.prompt_hash) == 32
    assert client.account.cost_usd == pytest.approx(0.004)


def test_tokens_are_estimated_where_the_server_counts_none() -> None:
    with (
        LoopbackModel(lambda asked: says("word " * 50, usage=False)) as server,
        Client(server.config()) as client,
    ):
        (reply,) = client.ask([req("one two three")])
    assert reply.tokens_in > 1
    assert reply.tokens_out > 20


@pytest.mark.parametrize(
    "trouble",
    [
        fails(429, retry_after="0.05"),
        fails(429, retry_after_ms="50"),
        fails(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        fails(429, retry_after="soon"),
        fails(500),
        fails(503),
        fails(529),
        fails(408),
        drops(),
        garbage(b"<html>busy</html>"),
        garbage(b""),
        garbage(b"[" * 100_000),
        garbage(b'{"choices": []}'),
        garbage(b'{"choices": [{"message": "x"}]}'),
        garbage(b"\xff\xfe{"),
    ],
    ids=lambda action: f"{action.status}-{action.headers}-{action.body[:12]!r}",
)
def test_trouble_that_passes_costs_no_answer(trouble: Action) -> None:
    seen: Counter[str] = Counter()

    def script(asked: dict[str, Any]) -> Action:
        seen[last(asked)] += 1
        return trouble if seen[last(asked)] < 3 else upper(asked)

    with LoopbackModel(script) as server, Client(server.config()) as client:
        assert texts(client, "a", "b") == ["A", "B"]
    assert client.account.retries == 4
    assert client.account.failed == 0


def test_a_slow_answer_is_asked_for_again_after_its_time() -> None:
    slow = iter([30.0])

    def script(asked: dict[str, Any]) -> Action:
        return says("x", seconds=next(slow, 0.0))

    with LoopbackModel(script) as server, Client(server.config(timeout_s=1.0)) as client:
        assert texts(client, "a") == ["x"]
    assert client.account.retries >= 1


def test_the_wait_that_a_server_asks_for_holds_for_all_requests() -> None:
    refused = threading.Event()

    def script(asked: dict[str, Any]) -> Action:
        if not refused.is_set():
            refused.set()
            return fails(429, retry_after="0.3")
        return says("x")

    with LoopbackModel(script) as server, Client(server.config(concurrency=1)) as client:
        assert texts(client, "a", "b", "c") == ["x"] * 3
        # Nothing but the first attempt was refused: the others waited with it.
        assert len(server.asked) == 4


@pytest.mark.parametrize(
    "trouble", [fails(400, "content management policy"), fails(422, "too long"), fails(500), drops()]
)
def test_a_request_that_cannot_be_answered_is_a_reply_with_its_error(trouble: Action) -> None:
    def script(asked: dict[str, Any]) -> Action:
        return trouble if last(asked) == "bad" else upper(asked)

    with LoopbackModel(script) as server, Client(server.config(retries=1, missing="skip")) as client:
        first, bad, after = client.ask([req("a"), req("bad"), req("b")])
    assert (first.text, after.text) == ("A", "B")
    assert (bad.text, bad.parsed) == ("", None)
    assert bad.error
    assert client.account.failed == 1


def test_an_outage_stops_the_run_after_the_others_and_the_next_run_asks_what_is_missing(
    tmp_path: Path,
) -> None:
    well = threading.Event()

    def script(asked: dict[str, Any]) -> Action:
        return upper(asked) if well.is_set() or last(asked) != "bad" else fails(500)

    with LoopbackModel(script) as server:
        with Client(server.config(retries=1), tmp_path / "c.sqlite") as client:
            replies = client.ask([req("a"), req("bad"), req("b")])
            assert [next(replies).text for _ in range(3)] == ["A", "", "B"]
            with pytest.raises(ModelFault, match="1 of 3 requests got no answer"):
                next(replies)
        well.set()
        asked = len(server.asked)
        with Client(server.config(retries=1), tmp_path / "c.sqlite") as client:
            assert texts(client, "a", "bad", "b") == ["A", "BAD", "B"]
        assert len(server.asked) == asked + 1


def test_a_failed_request_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    well = threading.Event()
    with LoopbackModel(lambda asked: says("x") if well.is_set() else fails(400)) as server:
        with Client(server.config(), tmp_path / "c.sqlite") as client:
            (reply,) = client.ask([req("a")])
            assert reply.error == "HTTP 400: no"
        well.set()
        with Client(server.config(), tmp_path / "c.sqlite") as client:
            assert texts(client, "a") == ["x"]
    assert totals(tmp_path / "c.sqlite")["failed"] == 0


def test_an_error_of_a_server_is_told_on_one_printable_bounded_line() -> None:
    shout = "a\nb\x1b[31m" + "x" * 5000
    with LoopbackModel(lambda asked: fails(400, shout)) as server, Client(server.config()) as client:
        (reply,) = client.ask([req("a")])
    assert reply.error is not None
    assert reply.error.isprintable()
    assert len(reply.error) < 400


def test_a_wrong_key_ends_the_run_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", "wrong-and-secret")
    with LoopbackModel(upper, key=KEY) as server, Client(server.config(api_key_env="LOOPBACK_KEY")) as client:
        with pytest.raises(ModelFault, match=r"refuses the key.*LOOPBACK_KEY") as caught:
            list(client.ask(req(str(n)) for n in range(50)))
        # Those that were under way, not one for each request.
        assert len(server.asked) <= 16
    assert "wrong-and-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    with LoopbackModel(upper, key=KEY) as server, Client(server.config(api_key_env="LOOPBACK_KEY")) as client:
        assert texts(client, "a") == ["A"]


def test_a_variable_without_a_key_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPBACK_KEY", raising=False)
    with pytest.raises(AssayError, match="LOOPBACK_KEY holds no key"):
        Client(ModelConfig(model=MODEL, base_url="http://127.0.0.1:9", api_key_env="LOOPBACK_KEY"))


def test_a_key_is_not_sent_to_a_server_it_was_not_named_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with (
        LoopbackModel(upper, key=KEY) as server,
        Client(server.config()) as client,
        pytest.raises(ModelFault, match="refuses the key"),
    ):
        texts(client, "a")


def test_no_server_and_an_unknown_model_end_the_run_at_the_first_call() -> None:
    with LoopbackModel(upper) as server:
        gone = server.config()
    with Client(gone) as client, pytest.raises(ModelFault, match=r"no server at http://127\.0\.0\.1"):
        texts(client, "a")
    with LoopbackModel(lambda asked: fails(404, "The model does not exist")) as server:
        with (
            Client(server.config()) as client,
            pytest.raises(ModelFault, match="does not serve 'loopback-model'"),
        ):
            texts(client, "a")
        assert len(server.asked) == 1


def test_faults_stop_a_run_as_faults_of_the_environment_do() -> None:
    assert issubclass(ModelFault, EnvironmentFault)
    assert issubclass(BudgetSpent, EnvironmentFault)


def test_a_server_that_dies_in_the_middle_loses_no_row(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with LoopbackModel(upper) as server:
        client = Client(server.config(retries=1), path)
        replies = client.ask(req(f"q{n}") for n in itertools.count())
        assert next(replies).text == "Q0"
        replies.close()
        kept = totals(path)["calls"]
    with client, pytest.raises(ModelFault, match="no server"):
        list(client.ask(req(f"q{n}") for n in range(200)))
    with LoopbackModel(upper) as server, Client(server.config(), path) as client:
        assert texts(client, *(f"q{n}" for n in range(200))) == [f"Q{n}" for n in range(200)]
        assert len(server.asked) == 200 - kept


def test_a_redirect_is_not_followed_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    with LoopbackModel(upper) as thief:
        with (
            LoopbackModel(lambda asked: fails(302, Location=f"{thief.url}/chat/completions")) as server,
            Client(server.config(api_key_env="LOOPBACK_KEY")) as client,
            pytest.raises(ModelFault, match="sends elsewhere"),
        ):
            texts(client, "a")
        assert thief.asked == []


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelers.llm.backends.openai.MAX_ANSWER", 1 << 16)
    with LoopbackModel(lambda asked: garbage(b"x" * (1 << 20))) as server, Client(server.config()) as client:
        (reply,) = client.ask([req("a")])
    assert "longer than" in (reply.error or "")


@pytest.mark.parametrize(
    "refusals", [["response_format json_schema is not supported"], ["guided decoding", "no response_format"]]
)
def test_a_server_without_schemas_is_asked_without_them(refusals: list[str]) -> None:
    left = iter(refusals)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    def script(asked: dict[str, Any]) -> Action:
        complaint = next(left, None)
        return says('{"a": 1}') if complaint is None else fails(400, complaint)

    with LoopbackModel(script) as server, Client(server.config(concurrency=1)) as client:
        assert [reply.parsed for reply in client.ask([req("a", schema=schema), req("b", schema=schema)])] == [
            {"a": 1},
            {"a": 1},
        ]
        # It is told once, not at every request.
        assert len(server.asked) == 2 + len(refusals)
        formats = [asked.get("response_format", {}).get("type") for asked in server.asked]
    assert formats[0] == "json_schema"
    assert formats[-1] == ("json_object" if len(refusals) == 1 else None)


def test_a_server_that_wants_another_name_for_the_bound_gets_it() -> None:
    def script(asked: dict[str, Any]) -> Action:
        if "max_tokens" in asked:
            return fails(400, "Unsupported parameter: 'max_tokens'; use 'max_completion_tokens' instead.")
        return says(str(asked["max_completion_tokens"]))

    with LoopbackModel(script) as server, Client(server.config(max_tokens=77)) as client:
        assert texts(client, "a") == ["77"]


def test_a_refused_parameter_that_matters_is_an_error_not_a_guess() -> None:
    with (
        LoopbackModel(lambda asked: fails(400, "temperature must be 1")) as server,
        Client(server.config()) as client,
    ):
        (reply,) = client.ask([req("a", temperature=0.3)])
    assert reply.error == "HTTP 400: temperature must be 1"


def test_requests_begin_at_the_pace_that_is_allowed(tmp_path: Path) -> None:
    from labelers.llm.store import Store

    first, second = Store(tmp_path / "c.sqlite"), Store(tmp_path / "c.sqlite")
    waits = [store.slot(10.0) for store in (first, second, first, second)]
    first.close()
    second.close()
    # Each place in line is ten seconds behind the last, whoever takes it.
    assert all(10 * n - 5 < wait <= 10 * n for n, wait in enumerate(waits))


_ASK_FIFTY = """
import sys
from pathlib import Path
from labelers.llm import Client, Message, ModelConfig, Request
config = ModelConfig(model="loopback-model", base_url=sys.argv[1], concurrency=4, timeout_s=30)
with Client(config, Path(sys.argv[2])) as client:
    for reply in client.ask(Request((Message("user", f"q{n}"),)) for n in range(50)):
        print(reply.text, flush=True)
"""


def asker(server: LoopbackModel, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _ASK_FIFTY, server.url, str(path)], stdout=subprocess.PIPE, text=True
    )


def test_a_kill_in_the_middle_repeats_nothing_that_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    dead = threading.Event()

    def script(asked: dict[str, Any]) -> Action:
        if int(last(asked)[1:]) >= 30 and not dead.is_set():
            # Under way when the client is killed.
            dead.wait(timeout=60)
            return drops()
        return upper(asked)

    with LoopbackModel(script) as server:
        killed = asker(server, path)
        assert killed.stdout is not None
        shown = [killed.stdout.readline().strip() for _ in range(30)]
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        dead.set()
        assert shown == [f"Q{n}" for n in range(30)]
        kept = int(totals(path)["calls"])
        again = asker(server, path)
        out, _ = again.communicate(timeout=60)
        assert out.split() == [f"Q{n}" for n in range(50)]
        assert kept == 30
        asked = Counter(server.prompts())
        assert all(asked[f"q{n}"] == 1 for n in range(30))
        # Only what was under way at the kill was asked twice.
        assert sum(n - 1 for n in asked.values()) <= 4


def test_two_processes_share_a_file_of_calls(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with LoopbackModel(upper) as server:
        both = [asker(server, path) for _ in range(2)]
        outputs = [one.communicate(timeout=60)[0].split() for one in both]
        assert [one.returncode for one in both] == [0, 0]
        assert outputs == [[f"Q{n}" for n in range(50)]] * 2
        assert totals(path)["calls"] == 50
        third = asker(server, path)
        before = len(server.asked)
        assert third.communicate(timeout=60)[0].split() == outputs[0]
        assert len(server.asked) == before


def test_two_processes_that_ask_the_same_go_on_with_the_same_answer(tmp_path: Path) -> None:
    from labelers.llm.calls import Call
    from labelers.llm.store import Store, Stored

    call = Call.of(req("a"), ModelConfig(model="m"))
    first, second = Store(tmp_path / "c"), Store(tmp_path / "c")
    one = Stored("one", "stop", None, "m", 1, 1, 0.5, 0.1)
    assert first.put("k", call, one) == one
    assert second.put("k", call, Stored("two", "stop", None, "m", 1, 1, 0.25, 0.1)).text == "one"
    assert first.spent() == pytest.approx(0.75)
    first.close()
    second.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["a", "b", "c", "d", "bad"]), max_size=12), st.integers(1, 5))
def test_every_request_has_one_reply_whatever_is_repeated_or_fails(prompts: list[str], many: int) -> None:
    def script(asked: dict[str, Any]) -> Action:
        return fails(400) if last(asked) == "bad" else upper(asked)

    with LoopbackModel(script) as server, Client(server.config(concurrency=many)) as client:
        replies = list(client.ask(req(prompt) for prompt in prompts))
        assert [reply.text for reply in replies] == ["" if p == "bad" else p.upper() for p in prompts]
        account = client.account
        assert account.calls + account.cached + account.failed == len(prompts) or "bad" in prompts
        assert account.calls == len(set(prompts) - {"bad"})


def test_replies_that_nobody_drew_are_let_go_of_after_the_client() -> None:
    with LoopbackModel(upper) as server:
        with Client(server.config()) as client:
            replies = client.ask(req(str(n)) for n in range(200))
            assert next(replies).text == "0"
        replies.close()
        assert len(server.asked) < 200


def test_many_threads_may_ask_one_client() -> None:
    found: dict[int, list[str]] = {}
    with LoopbackModel(upper) as server, Client(server.config()) as client:

        def ask(number: int) -> None:
            found[number] = texts(client, *(f"q{(n * number) % 20}" for n in range(40)))

        threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 3, 7, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.asked) == 20
    assert found == {number: [f"Q{(n * number) % 20}" for n in range(40)] for number in (1, 3, 7, 9)}
