"""Answers that are none: empty, refused, cut off in the middle; each costs its own row and no other."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from loopback_llm import Action, LoopbackModel, garbage, says

from labelers.llm import Client, Message, ModelConfig, Request
from labelers.llm.store import totals

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelers.llm.client._FIRST_WAIT_S", 0.01)


def req(text: str, **more: Any) -> Request:
    return Request((Message("user", text),), **more)


def completion(**message: Any) -> Action:
    finish = message.pop("finish", "stop")
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return garbage(json.dumps({"model": "m", "choices": [choice]}).encode())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (says(""), "empty"),
        (says("  \n "), "empty"),
        (says(None), "empty"),
        (says("", finish="length"), r"empty \(finish length\)"),
        (says("", finish="content_filter"), r"refuses \(content_filter\)"),
        (says("I cannot", finish="content_filter"), r"refuses \(I cannot\)"),
        (completion(content=None, refusal="I must not\nsay."), r"refuses \(I must not say\.\)"),
        (completion(content=[]), "empty"),
    ],
)
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_no_answer_is_an_error_of_its_row(answer: Action, told: str, schema: dict[str, Any] | None) -> None:
    def script(asked: dict[str, Any]) -> Action:
        return says('{"a": 1}') if asked["messages"][0]["content"] == "good" else answer

    with LoopbackModel(script) as server, Client(server.config()) as client:
        good, bad = client.ask([req("good", schema=schema), req("bad", schema=schema)])
        asked = len(server.asked)
    assert good.error is None
    assert bad.error
    assert bad.parsed is None
    # What the server held back is not what the model said.
    assert (good.answered, bad.answered) == (True, b"content_filter" not in answer.body)
    if "refuses" in told:
        # Asked again it would refuse again.
        assert asked == 2
    else:
        assert asked == (2 if schema is None else 3)
    assert schema is not None or re.search(told, bad.error)


def test_an_answer_that_was_filtered_and_fits_all_the_same_counts() -> None:
    with (
        LoopbackModel(lambda _: says('{"a": 1}', finish="content_filter")) as server,
        Client(server.config()) as client,
    ):
        (reply,) = client.ask([req("q", schema=SCHEMA)])
    assert (reply.parsed, reply.error) == ({"a": 1}, None)


def test_a_refusal_is_paid_once_and_not_asked_again(tmp_path: Path) -> None:
    refusal = completion(content=None, refusal="No.")
    with LoopbackModel(lambda _: refusal) as server:
        for _ in range(2):
            with Client(server.config(), tmp_path / "c") as client:
                (reply,) = client.ask([req("q", schema=SCHEMA)])
                assert (reply.finish, reply.text) == ("refusal", "No.")
        assert len(server.asked) == 1


@contextmanager
def cuts(times: int) -> Iterator[tuple[str, list[int]]]:
    """A server whose first answers break off in the middle of their bodies."""
    body = says("whole").body
    served: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            with one:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += one.recv(65536)
                head, _, rest = data.partition(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                while len(rest) < length:
                    rest += one.recv(65536)
                served.append(1)
                sent = body[: len(body) // 2] if len(served) <= times else body
                one.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(body) + sent
                )

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", served
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_an_answer_that_breaks_off_in_the_middle_is_asked_for_again_and_counts_as_lost() -> None:
    with cuts(2) as (url, served):
        config = ModelConfig(model="m", base_url=url, price_in=1.0, price_out=1.0, budget_usd=1.0)
        with Client(config) as client:
            (reply,) = client.ask([req("q")])
            account = client.account
        assert len(served) == 3
    assert reply.text == "whole"
    assert account.lost_usd > 0


def test_the_same_rows_come_of_a_bad_server_as_of_a_good_one(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    def answer(asked: dict[str, Any]) -> Action:
        first = asked["messages"][0]["content"]
        if first.endswith("7"):
            return says("I would rather not.", finish="content_filter")
        return says(json.dumps({"a": int(first[1:])}))

    def bad(asked: dict[str, Any]) -> Action:
        text = json.dumps(asked["messages"])
        seen[text] += 1
        number = int(asked["messages"][0]["content"][1:])
        trouble = (garbage(b"<busy>"), Action(status=500), Action(status=429), Action(drop=True))
        if seen[text] <= number % 3:
            return trouble[number % 4]
        if number % 5 == 0 and len(asked["messages"]) == 1:
            return says('{"a": "wrong"}')
        return answer(asked)

    requests = [req(f"q{n}", schema=SCHEMA) for n in range(60)]
    rows = []
    for name, script in (("good", answer), ("bad", bad)):
        with LoopbackModel(script) as server, Client(server.config(), tmp_path / name) as client:
            rows.append([(one.parsed, one.error) for one in client.ask(requests)])
    assert rows[0] == rows[1]
    assert sum(error is not None for _, error in rows[0]) == 6
    assert totals(tmp_path / "bad")["failed"] == 0
