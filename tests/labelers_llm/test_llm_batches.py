"""Batches for half the price: collected in files, answered, asked again where that helps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from batch_runs import PRICES, SCHEMA, ask, fetch, lines, req, requests, send, upper
from loopback_batches import EXPIRES, NOTHING, LoopbackBatches
from loopback_llm import Action, LoopbackModel, fails, garbage, last, says

from labelers.llm import (
    BatchWaiting,
    Client,
    ModelConfig,
    ModelFault,
    batch_run,
)
from labelers.llm import batch as queue_module
from labelers.llm.calls import WAITING, Call
from labelers.llm.forecast import forecast
from labelers.llm.store import totals
from schemas.errors import AssayError, EnvironmentFault


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelers.llm.batch_server._PAUSE_S", 0.01)


def test_requests_wait_in_a_file_and_the_run_ends_with_a_line(tmp_path: Path) -> None:
    with LoopbackModel(upper) as server:
        config = server.config(batch=True)
        replies, told = ask(config, tmp_path, requests(3, schema=SCHEMA, stop=("z",)))
        assert server.asked == []
    path = tmp_path / "batches" / "loopback-model-0001.jsonl"
    assert [one.finish for one in replies] == [WAITING] * 3
    assert all(one.error for one in replies)
    assert told.startswith(f"3 requests wait in {path}: send them by `assay batch send")
    assert told.endswith("then run the same command again")
    assert issubclass(BatchWaiting, EnvironmentFault)
    found = {line["custom_id"]: line for line in lines(path)}
    calls = [Call.of(one, config) for one in requests(3, schema=SCHEMA, stop=("z",))]
    assert set(found) == {call.key() for call in calls}
    line = found[calls[0].key()]
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"]["messages"] == [{"role": "user", "content": "q0"}]
    assert line["body"]["response_format"]["json_schema"]["schema"] == SCHEMA


def test_a_stage_goes_on_from_the_answers_at_half_the_price(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        config = server.config(**PRICES)
        ask(config, tmp_path, requests(5))
        assert send(tmp_path) == 5
        assert send(tmp_path) == 0
        read, left = fetch(tmp_path)
        assert (dict(read.counts), left) == ({"answered": 5}, 0)
        replies, told = ask(config, tmp_path, requests(5))
        assert len(server.asked) == 5
    assert told == ""
    assert [one.text for one in replies] == [f"Q{n}" for n in range(5)]
    assert all(one.cached for one in replies)
    # 60 tokens at a dollar a thousand, halved.
    assert [one.cost_usd for one in replies] == pytest.approx([0.03] * 5)
    assert totals(tmp_path / "calls.sqlite")["cost_usd"] == pytest.approx(0.15)


def test_what_was_collected_is_the_same_call_as_one_that_is_sent(tmp_path: Path) -> None:
    with LoopbackModel(upper) as server:
        ask(server.config(batch=True), tmp_path, requests(4))
        ask(server.config(), tmp_path, requests(2))
        # What was answered meanwhile is not sent.
        with LoopbackBatches(upper) as batches:
            assert send(tmp_path, place=batch_run.Place(batches.url)) == 2
            read, _ = batch_run.fetch(tmp_path, lambda line: None, batch_run.Place(batches.url))
            assert read.counts == {"answered": 2}
            sent = [json.loads(line) for _, data in batches.files.values() for line in data.splitlines()]
        replies, told = ask(server.config(), tmp_path, requests(4))
        bodies = {last(one["body"]): one["body"] for one in sent if "body" in one}
        assert told == ""
        assert all(one.cached for one in replies)
        (live,) = [one for one in server.asked if last(one) == "q0"]
        assert {**bodies["q2"], "messages": live["messages"]} == live
        assert len(server.asked) == 2


def test_a_request_under_way_in_a_batch_is_not_paid_twice(tmp_path: Path) -> None:
    with LoopbackModel(upper) as server, LoopbackBatches(upper) as batches:
        batches.hold = True
        ask(batches.config(), tmp_path, requests(2))
        send(tmp_path)
        _, told = ask(batches.config(), tmp_path, requests(2))
        assert "2 are under way: get their answers by `assay batch fetch" in told
        with pytest.raises(ModelFault, match="under way in a batch"):
            ask(server.config(), tmp_path, requests(3))
        assert server.prompts() == ["q2"]
        assert len(batches.batches) == 1


def test_files_are_cut_at_the_bounds_of_the_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_LINES", 4)
    monkeypatch.setattr(queue_module, "_FLUSHED", 3)
    with LoopbackBatches(upper) as server:
        _, told = ask(server.config(), tmp_path, requests(9))
        assert "and 2 more files" in told
        files = sorted((tmp_path / "batches").glob("*.jsonl"))
        assert [len(lines(path)) for path in files] == [4, 4, 1]
        # Another process adds to the last.
        ask(server.config(), tmp_path, requests(11))
        assert [len(lines(path)) for path in files] == [4, 4, 3]
        monkeypatch.setattr(queue_module, "MAX_BYTES", files[0].stat().st_size + 600)
        ask(server.config(), tmp_path, [req(f"long {n} " + "x" * 400) for n in range(3)])
        sizes = [path.stat().st_size for path in (tmp_path / "batches").glob("*.jsonl")]
        assert max(sizes) <= files[0].stat().st_size + 600
        assert send(tmp_path) == 14
        assert fetch(tmp_path)[0].counts == {"answered": 14}
        assert sorted(Counter(map(last, server.asked)).values()) == [1] * 14


def test_models_do_not_share_a_file(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        clients = [Client(server.config(model=name), tmp_path / "calls.sqlite") for name in ("a/b", "c d")]
        with (
            pytest.raises(BatchWaiting, match=r"8 requests wait in .* and 1 more file"),
            clients[0] as first,
            clients[1] as second,
        ):
            list(zip(first.ask(requests(4)), second.ask(requests(4)), strict=True))
        files = sorted((tmp_path / "batches").glob("*.jsonl"))
        assert {frozenset(one["body"]["model"] for one in lines(path)) for path in files} == {
            frozenset({"a/b"}),
            frozenset({"c d"}),
        }
        assert {path.name[:-11] for path in files} == {"a-b", "c-d"}


def test_a_bad_answer_is_asked_for_once_more_in_the_next_batch(tmp_path: Path) -> None:
    def script(asked: dict[str, Any]) -> Action:
        good = len(asked["messages"]) > 1 or last(asked) == "q0"
        return says('{"a": 1}' if good else "prose")

    with LoopbackBatches(script) as server:
        config = server.config(**PRICES)
        for expected in (3, 2):
            _, told = ask(config, tmp_path, requests(3, schema=SCHEMA))
            assert told.startswith(f"{expected} request")
            assert send(tmp_path) == expected
            fetch(tmp_path)
        replies, told = ask(config, tmp_path, requests(3, schema=SCHEMA))
        assert told == ""
        assert [one.parsed for one in replies] == [{"a": 1}] * 3
        assert len(server.asked) == 5


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (EXPIRES, "again"),
        (NOTHING, "again"),
        (fails(429, "slow down"), "again"),
        (fails(500, "broken"), "again"),
        (fails(404, "no such model"), "again"),
        (garbage(b'{"choices": []}'), "again"),
        (garbage(b"null"), "again"),
        (fails(400, "too long"), "failed"),
        (fails(422, "content policy"), "failed"),
    ],
)
def test_a_line_without_an_answer_is_kept_or_asked_again_by_its_kind(
    tmp_path: Path, trouble: Action, kind: str
) -> None:
    first = [True]

    def script(asked: dict[str, Any]) -> Action:
        return trouble if last(asked) == "q1" and first[0] else upper(asked)

    with LoopbackBatches(script) as server:
        config = server.config(**PRICES)
        ask(config, tmp_path, requests(3))
        send(tmp_path)
        read, _ = fetch(tmp_path)
        assert dict(read.counts) == {"answered": 2, kind: 1}
        first[0] = False
        replies, told = ask(config, tmp_path, requests(3))
        assert [one.text for one in replies] == ["Q0", "", "Q2"]
        if kind == "failed":
            assert told == ""
            assert (replies[1].error or "").startswith("HTTP 4")
            assert send(tmp_path) == 0
            return
        assert told.startswith("1 request waits")
        assert send(tmp_path) == 1
        fetch(tmp_path)
        replies, told = ask(config, tmp_path, requests(3))
        assert [one.text for one in replies] == ["Q0", "Q1", "Q2"]
        assert Counter(map(last, server.asked)) == {"q0": 1, "q1": 2, "q2": 1}


def test_a_line_that_never_works_is_given_up_and_an_expired_one_is_not(tmp_path: Path) -> None:
    def script(asked: dict[str, Any]) -> Action:
        return fails(500, "broken") if last(asked) == "q0" else EXPIRES

    with LoopbackBatches(script) as server:
        ask(server.config(), tmp_path, requests(2))
        found = []
        for _ in range(4):
            send(tmp_path)
            found.append(dict(fetch(tmp_path)[0].counts))
        assert found == [{"again": 2}, {"again": 2}, {"failed": 1, "again": 1}, {"again": 1}]
        replies, _ = ask(server.config(), tmp_path, requests(1))
    assert replies[0].error == "HTTP 500: broken, in each of 3 batches"


def test_a_parameter_that_a_server_does_not_know_is_left_out_of_the_next_batch(tmp_path: Path) -> None:
    def script(asked: dict[str, Any]) -> Action:
        if "max_tokens" in asked:
            return fails(400, "Unsupported parameter: 'max_tokens'; use 'max_completion_tokens' instead.")
        return says(str(asked["max_completion_tokens"]))

    with LoopbackBatches(script) as server:
        config = server.config(max_tokens=77)
        ask(config, tmp_path, requests(3))
        send(tmp_path)
        assert fetch(tmp_path)[0].counts == {"again": 3}
        send(tmp_path)
        fetch(tmp_path)
        assert [one.text for one in ask(config, tmp_path, requests(3))[0]] == ["77"] * 3


def vllm(path: Path, out: Path, *, broken: int = 0) -> None:
    """What `vllm run_batch` makes of a file."""
    rows = []
    for number, line in enumerate(lines(path)):
        body = json.loads(upper(line["body"]).body)
        if number < broken:
            body = {"error": {"message": "out of memory", "code": 500}}
        rows.append(
            {
                "id": "vllm-1",
                "custom_id": line["custom_id"],
                "response": {"status_code": 500 if number < broken else 200, "request_id": "b", "body": body},
                "error": None,
            }
        )
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_files_answered_elsewhere_are_read(tmp_path: Path) -> None:
    config = ModelConfig(model="m", base_url="http://127.0.0.1:9/v1", batch=True)
    ask(config, tmp_path, requests(6))
    (path,) = (tmp_path / "batches").glob("*.jsonl")
    out = tmp_path / "out.jsonl"
    vllm(path, out, broken=2)
    assert batch_run.read(tmp_path, [out]).counts == {"answered": 4, "again": 2}
    # The files hold what is left.
    assert sum(len(lines(one)) for one in (tmp_path / "batches").glob("*.jsonl")) == 2
    assert batch_run.read(tmp_path, [out]).counts == {"repeated": 4, "again": 2}
    (path,) = [one for one in (tmp_path / "batches").glob("*.jsonl") if one.stat().st_size]
    vllm(path, out)
    batch_run.read(tmp_path, [out])
    replies, told = ask(config, tmp_path, requests(6))
    assert told == ""
    assert [one.text for one in replies] == [f"Q{n}" for n in range(6)]
    assert send(tmp_path) == 0


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"custom_id": 3}',
        b'{"custom_id": "\\ud800"}',
        b'{"custom_id": "someone else\'s", "response": {"status_code": 200}}',
        b"x" * (9 << 20),
        b'{"custom_id": "KEY"}',
        b'{"custom_id": "KEY", "response": []}',
        b'{"custom_id": "KEY", "response": {"status_code": "200", "body": {}}}',
        b'{"custom_id": "KEY", "response": {"status_code": 200, "body": {"choices": 1}}}',
        b'{"custom_id": "KEY", "error": {"code": ["x"], "message": {"y": "\\u001b[31m\\n"}}}',
        b'{"custom_id": "KEY", "response": {"status_code": 9e99, "body": "\\ud800"}}',
    ],
    ids=lambda line: line[:40].decode("latin-1"),
)
def test_hostile_lines_cost_no_other_line(tmp_path: Path, line: bytes) -> None:
    config = ModelConfig(model="m", base_url="http://127.0.0.1:9/v1", batch=True)
    ask(config, tmp_path, requests(3))
    (path,) = (tmp_path / "batches").glob("*.jsonl")
    out = tmp_path / "out.jsonl"
    vllm(path, out)
    first, *rest = out.read_bytes().splitlines(keepends=True)
    key = json.loads(first)["custom_id"].encode()
    out.write_bytes(line.replace(b"KEY", key) + b"\n" + b"".join(rest))
    read = batch_run.read(tmp_path, [out])
    assert read.counts["answered"] == 2
    assert read.line().isprintable()
    # The one that nothing answered still waits.
    _, told = ask(config, tmp_path, requests(3))
    assert told.startswith("1 request waits")


def test_a_file_of_another_run_and_a_missing_one_are_told(tmp_path: Path) -> None:
    config = ModelConfig(model="m", base_url="http://127.0.0.1:9/v1", batch=True)
    ask(config, tmp_path, requests(1))
    other = tmp_path / "other.jsonl"
    other.write_text('{"custom_id": "x", "response": null}\n')
    with pytest.raises(AssayError, match="answers no request"):
        batch_run.read(tmp_path, [other])
    with pytest.raises(AssayError, match="cannot be read"):
        batch_run.read(tmp_path, [tmp_path / "none"])
    with pytest.raises(AssayError, match="no model was asked"):
        batch_run.rows(tmp_path / "elsewhere")


def test_what_was_collected_before_a_kill_is_not_lost_and_the_file_stays_whole(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom labelers.llm import *\n"
        "config = ModelConfig(model='m', base_url='http://127.0.0.1:9/v1', batch=True)\n"
        "client = Client(config, Path(sys.argv[1]) / 'calls.sqlite')\n"
        "list(client.ask(Request((Message('user', f'q{n}'),)) for n in range(600)))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    config = ModelConfig(model="m", base_url="http://127.0.0.1:9/v1", batch=True)
    ask(config, tmp_path, requests(5))
    (path,) = (tmp_path / "batches").glob("*.jsonl")
    with path.open("ab") as file:
        # Of a process that died while it wrote.
        file.write(b'{"custom_id": "half a li')
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    ask(config, tmp_path, requests(600))
    found = [line["custom_id"] for line in lines(path)]
    assert len(found) == len(set(found)) == 600


def test_a_file_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    with LoopbackBatches(upper) as server:
        ask(server.config(), tmp_path, requests(3))
        (path,) = (tmp_path / "batches").glob("*.jsonl")
        path.unlink()
        ask(server.config(), tmp_path, requests(5))
        assert len(lines(path)) == 5
        path.write_text("spoiled\n")
        assert send(tmp_path) == 5
        assert fetch(tmp_path)[0].counts == {"answered": 5}


def test_processes_collect_together(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom labelers.llm import *\n"
        "config = ModelConfig(model='m', base_url='http://127.0.0.1:9/v1', batch=True)\n"
        "try:\n"
        "    with Client(config, Path(sys.argv[1]) / 'calls.sqlite') as client:\n"
        "        numbers = range(int(sys.argv[2]), 400)\n"
        "        list(client.ask(Request((Message('user', f'q{n}'),)) for n in numbers))\n"
        "except BatchWaiting as waits:\n    print(waits)\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), str(begin)], stdout=subprocess.PIPE, text=True
        )
        for begin in (0, 100, 200)
    ]
    told = [one.communicate(timeout=60)[0] for one in running]
    assert all("requests wait in" in one for one in told)
    (path,) = (tmp_path / "batches").glob("*.jsonl")
    found = [line["custom_id"] for line in lines(path)]
    assert len(found) == len(set(found)) == 400


def test_a_forecast_counts_errors_that_batches_kept_as_answered(tmp_path: Path) -> None:
    with LoopbackBatches(lambda asked: fails(400, "no")) as server:
        config = server.config(**PRICES)
        ask(config, tmp_path, requests(2))
        send(tmp_path)
        fetch(tmp_path)
        assert forecast(requests(3), config, tmp_path / "calls.sqlite").calls == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": "anthropic/claude-sonnet-4-5"}, "batches need OpenAI"),
        ({"model": "m", "backend": "local"}, "not for backend 'local'"),
    ],
)
def test_models_that_batches_cannot_ask_are_told(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelFault, match=told):
        Client(ModelConfig(batch=True, **settings), tmp_path / "calls.sqlite")
    with pytest.raises(ModelFault, match="run directory"):
        Client(ModelConfig(model="gpt-4o-mini", batch=True))


def test_a_providers_model_goes_by_its_own_name_and_half_its_listed_price(tmp_path: Path) -> None:
    config = ModelConfig(model="openai/gpt-4o-mini", batch=True)
    ask(config, tmp_path, [req("q", kind="k 1")])
    (path,) = (tmp_path / "batches").glob("*.jsonl")
    (line,) = lines(path)
    assert line["body"]["model"] == "gpt-4o-mini"
    assert "max_tokens" not in line["body"]
    told = forecast([req("q")], config, None)
    assert told.cost_usd == pytest.approx(told.tokens_in * 0.075e-6 + told.tokens_out * 0.3e-6)
