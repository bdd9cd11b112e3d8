"""Agent trajectories from chat lines and `.traj` files."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.config import ImportConfig
from miner.importers.fields import BadRow
from miner.importers.trajectories import import_trajectories, parse_trajectory, plan_trajectories
from miner.reasons import IMPORT
from schemas.declare import validate
from schemas.errors import AssayError
from schemas.ids import split_of
from schemas.records import Message, ToolCall, Trajectory
from schemas.stage import Drop, Keep, Outcome

CHAT = [
    {"role": "system", "content": "You fix bugs."},
    {"role": "user", "content": "Fix it."},
    {"role": "assistant", "content": "Done."},
]


def row(number: int = 0, **change: Any) -> dict[str, Any]:
    return {"instance_id": f"org__repo-{number}", "messages": CHAT, **change}


def write(path: Path, *rows: Any) -> Path:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def run(*files: Path, seed: int = 0, **settings: Any) -> list[Outcome]:
    config = ImportConfig(**settings)
    outcomes = []
    for unit in plan_trajectories(config, files):
        found = list(import_trajectories(config, unit, seed))
        assert len(found) == unit.rows
        outcomes += found
    return outcomes


def parsed(value: dict[str, Any]) -> Trajectory:
    found = parse_trajectory(value, "x.jsonl", 0, 0.1)
    validate(Trajectory, found)
    return found


def test_chat_line_becomes_a_trajectory() -> None:
    found = parsed(row(patch="diff", resolved=True, policy="m"))
    assert [message.role for message in found.messages] == ["system", "user", "assistant"]
    assert (found.patch, found.resolved, found.policy, found.source) == ("diff", True, "m", "x.jsonl")


def test_what_is_not_told_is_null() -> None:
    found = parsed(row())
    assert (found.patch, found.resolved, found.policy) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"target": False}, "resolved", False),
        ({"resolved": 1}, "resolved", True),
        ({"model_patch": "d"}, "patch", "d"),
        ({"generated_patch": "d"}, "patch", "d"),
        ({"model": "m"}, "policy", "m"),
        ({"model_name": "m"}, "policy", "m"),
        ({"patch": None, "model_patch": "d"}, "patch", "d"),
        ({"patch": ""}, "patch", ""),
    ],
)
def test_names_of_well_known_sets_are_understood(change: dict[str, Any], field: str, value: object) -> None:
    assert getattr(parsed(row(**change)), field) == value


def test_tool_messages_keep_calls_ids_and_names() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    found = parsed(
        row(
            messages=[
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {
                    "role": "tool",
                    "content": [{"type": "text", "text": "a"}],
                    "tool_call_id": "c1",
                    "name": "bash",
                },
                {"role": "tool", "content": "b", "tool_call_ids": ["c1"]},
            ]
        )
    )
    assert found.messages == [
        Message(
            role="assistant",
            content="",
            name=None,
            tool_call_id=None,
            tool_calls=[ToolCall(id="c1", name="bash", arguments='{"command": "ls"}')],
        ),
        Message(role="tool", content="a", name="bash", tool_call_id="c1", tool_calls=[]),
        Message(role="tool", content="b", name=None, tool_call_id="c1", tool_calls=[]),
    ]


def test_arguments_given_as_an_object_are_written_as_json() -> None:
    call = {"function": {"name": "bash", "arguments": {"b": "é", "a": 1}}}
    found = parsed(row(messages=[{"role": "assistant", "content": "", "tool_calls": [call]}]))
    assert found.messages[0].tool_calls[0].arguments == '{"a": 1, "b": "é"}'


def test_content_parts_are_joined_and_pictures_named() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    assert parsed(row(messages=[{"role": "ai", "content": parts}])).messages[0].content == "see\n[image_url]"


def test_messages_kept_as_json_text_are_read() -> None:
    assert parsed(row(messages=json.dumps(CHAT))).messages == parsed(row()).messages


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"instance_id": None}, "instance_id"),
        ({"instance_id": ""}, "instance_id: empty"),
        ({"messages": None}, "messages: missing"),
        ({"messages": []}, "at least one message"),
        ({"messages": "nope"}, "not JSON"),
        ({"messages": ["x"]}, "messages[0]: expected an object"),
        ({"messages": [{"content": "x"}]}, "messages[0].role: missing"),
        ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role: 'judge'"),
        ({"messages": [*CHAT, {"role": "user", "content": 3}]}, "messages[3].content: expected a string"),
        ({"messages": [{"role": "user", "content": "x"}]}, "none is the assistant's"),
        ({"messages": [{"role": "ai", "content": "", "tool_calls": "x"}]}, "messages[0].tool_calls"),
        (
            {"messages": [{"role": "ai", "content": "", "tool_calls": [{}]}]},
            "tool_calls[0].function.name",
        ),
        ({"messages": [{"role": "ai", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "ai", "content": "\ud800"}]}, "messages[0].content: holds half"),
        ({"resolved": "yes"}, "resolved: expected a boolean"),
        ({"resolved": 2}, "resolved: expected a boolean"),
        ({"patch": 3}, "patch: expected a string"),
    ],
)
def test_bad_row_names_its_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRow) as caught:
        parse_trajectory(row(**change), "x", 0, 0.1)
    assert caught.value.reason in IMPORT
    assert named in caught.value.detail


def test_bad_line_costs_no_other(tmp_path: Path) -> None:
    first, dropped, last = run(write(tmp_path / "t.jsonl", row(0), b"{", row(1)))
    assert isinstance(first, Keep)
    assert isinstance(last, Keep)
    assert isinstance(dropped, Drop)
    assert dropped.id == "t.jsonl:2"


def test_equal_lines_are_duplicates(tmp_path: Path) -> None:
    outcomes = run(write(tmp_path / "t.jsonl", row(0), row(1), row(0)), rows_per_part=1)
    assert outcomes[2] == Drop("t.jsonl:3", "duplicate", "line 3: the same as line 1")


def test_attempts_at_one_instance_share_a_split_and_have_ids_of_their_own(tmp_path: Path) -> None:
    rows = [row(number % 5, patch=str(number)) for number in range(20)]
    outcomes = run(write(tmp_path / "t.jsonl", *rows), seed=3, test_share=0.5)
    records = [one.records[0] for one in outcomes if isinstance(one, Keep)]
    assert len({record.id for record in records}) == 20
    assert all(record.split == split_of(3, record.instance_id, 0.5) for record in records)
    assert {record.split for record in records} == {"train", "test"}


def test_ids_tell_no_patch_from_an_empty_one() -> None:
    assert parsed(row()).id != parsed(row(patch="")).id


def traj(**change: Any) -> dict[str, Any]:
    """A file as SWE-agent writes it."""
    return {
        "trajectory": [],
        "history": [
            {"role": "system", "content": "s", "agent": "main", "message_type": "system_prompt"},
            {"role": "user", "content": "demo", "is_demo": True, "agent": "main"},
            {"role": "assistant", "content": "a", "agent": "main", "tool_calls": None},
        ],
        "info": {"exit_status": "submitted", "submission": "diff --git"},
        "replay_config": json.dumps({"agent": {"model": {"name": "m1"}}}),
        **change,
    }


def test_swe_agent_file_is_read_without_its_demonstrations(tmp_path: Path) -> None:
    path = write(tmp_path / "run" / "org__repo-1.traj", traj())
    (outcome,) = run(path)
    assert isinstance(outcome, Keep)
    (found,) = outcome.records
    validate(Trajectory, found)
    assert [message.content for message in found.messages] == ["s", "a"]
    assert (found.instance_id, found.patch, found.policy) == ("org__repo-1", "diff --git", "m1")
    assert (found.resolved, found.source) == (None, "run")


def test_mini_swe_agent_file_is_read(tmp_path: Path) -> None:
    content = {
        "info": {"submission": "d", "config": {"model": {"model_name": "m2"}}},
        "messages": CHAT,
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": "org__repo-9",
    }
    (outcome,) = run(write(tmp_path / "run" / "x.traj.json", content))
    assert isinstance(outcome, Keep)
    (found,) = outcome.records
    assert (found.instance_id, found.patch, found.policy) == ("org__repo-9", "d", "m2")


def test_folder_gives_its_traj_files_and_a_bad_one_costs_no_other(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "runs" / "one" / f"i-{number}.traj", traj())
    (tmp_path / "runs" / "one" / "i-1.traj").write_bytes(b"")
    write(tmp_path / "runs" / "two" / "i-0.traj", traj())
    outcomes = run(tmp_path / "runs", rows_per_part=2)
    assert [type(one) for one in outcomes] == [Keep, Drop, Keep, Keep]
    assert isinstance(outcomes[1], Drop)
    assert (outcomes[1].id, outcomes[1].reason) == ("one/i-1.traj", "bad_json")


def test_unusable_sources_are_refused(tmp_path: Path) -> None:
    def refusal(*files: Path) -> str:
        with pytest.raises(AssayError) as caught:
            plan_trajectories(ImportConfig(), files)
        return str(caught.value)

    assert "no file" in refusal()
    assert "no such file" in refusal(tmp_path / "none.jsonl")
    assert "cannot be read" in refusal(tmp_path / "none.traj")
    (tmp_path / "empty").mkdir()
    assert "no .traj files" in refusal(tmp_path / "empty")
    bad = write(tmp_path / "bad" / "x.traj", b"{")
    assert "x.traj: not JSON" in refusal(bad)
    good = write(tmp_path / "good" / "x.traj", traj())
    assert "twice" in refusal(good, good.parent)


def test_too_large_traj_file_is_dropped(tmp_path: Path) -> None:
    write(tmp_path / "run" / "a.traj", traj())
    write(tmp_path / "run" / "b.traj", traj(extra="x" * 5000))
    outcomes = run(tmp_path / "run", max_row_bytes=2000)
    assert isinstance(outcomes[1], Drop)
    assert outcomes[1].reason == "line_too_long"


def test_limit_bounds_all_sources_together(tmp_path: Path) -> None:
    chat = write(tmp_path / "t.jsonl", row(0), row(1))
    for number in range(5):
        write(tmp_path / "run" / f"{number}.traj", traj())
    config = ImportConfig(rows_per_part=2)
    units = plan_trajectories(config, [chat, tmp_path / "run"], limit=5)
    assert [unit.rows for unit in units] == [2, 2, 1]


def test_no_absolute_path_gets_into_rows(tmp_path: Path) -> None:
    chat = write(tmp_path / "t.jsonl", row(0), b"{")
    good = write(tmp_path / "run" / "a.traj", traj())
    write(tmp_path / "run" / "b.traj", b"{")
    assert str(tmp_path) not in repr(run(chat, good.parent))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["instance_id", "messages", "patch", "resolved", "policy", "history", "info"]))
def test_any_json_in_a_field_is_kept_or_a_bad_row(value: Any, field: str) -> None:
    reason = None
    try:
        validate(Trajectory, parse_trajectory(row(**{field: value}), "x", 0, 0.1))
    except BadRow as bad:
        reason = bad.reason
    assert reason is None or reason in IMPORT


@given(JSON, st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "tool_call_ids", "name"]))
def test_any_json_in_a_message_is_kept_or_a_bad_row(value: Any, field: str) -> None:
    messages = [*CHAT, {"role": "tool", "content": "x", field: value}]
    reason = None
    try:
        validate(Trajectory, parse_trajectory(row(messages=messages), "x", 0, 0.1))
    except BadRow as bad:
        reason = bad.reason
    assert reason is None or reason in IMPORT


def test_part_whose_type_holds_half_a_surrogate_pair_costs_only_its_row(tmp_path: Path) -> None:
    bad = row(messages=[*CHAT, {"role": "user", "content": [{"type": "\ud800"}]}])
    found = run(write(tmp_path / "x.jsonl", row(), bad))
    assert [type(one) for one in found] == [Keep, Drop]
    assert "surrogate" in str(found[1])


def test_arguments_that_can_be_read_but_not_written_cost_only_their_row() -> None:
    arguments: Any = 1
    for _ in range(5000):
        arguments = [arguments]
    call = {"function": {"name": "f", "arguments": arguments}}
    with pytest.raises(BadRow, match="nested too deep"):
        parsed(row(messages=[*CHAT, {"role": "assistant", "tool_calls": [call]}]))


def test_file_name_that_is_not_utf8_can_be_stored(tmp_path: Path) -> None:
    chat = write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.jsonl")), row(), b"{")
    traj = write(
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff/c\xff.traj")),
        {"history": CHAT},
    )
    for outcome in run(chat, traj):
        if isinstance(outcome, Keep):
            validate(Trajectory, outcome.records[0])
        else:
            outcome.id.encode()


@pytest.mark.parametrize("name", ["pipe.jsonl", "pipe.jsonl.gz", "pipe.traj"])
def test_pipe_is_refused_and_does_not_hang(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(AssayError, match="pipe or a device"):
        run(tmp_path / name)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_units_do_not_read_what_stands_before_them(tmp_path: Path, name: str) -> None:
    lines = [json.dumps(row(number)).encode() for number in range(9)]
    data = b"\n".join([b"", *lines[:4], b"   ", b"x" * 5000, *lines[4:]]) + b"\r\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    config = ImportConfig(rows_per_part=2, max_row_bytes=4000)
    units = plan_trajectories(config, [path])
    found = [one for unit in units for one in import_trajectories(config, unit, 0)]
    kept = [one.records[0].instance_id for one in found if isinstance(one, Keep)]
    assert kept == [f"org__repo-{number}" for number in range(9)]
    assert [one.id for one in found if isinstance(one, Drop)] == [f"{name}:7"]
    assert all(data[unit.payload["offset"] :].startswith((b"{", b"xxx")) for unit in units)
