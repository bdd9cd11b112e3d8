"""Agent trajectories: chats as JSON lines, and the `.traj` files of SWE-agent and mini-SWE-agent.

A line of a chat file has `instance_id`, `messages` (objects with `role` and `content`, and for tools
`tool_calls`, `tool_call_id` and `name`, as in OpenAI's chat format) and may have `patch`, `resolved`
and `policy`; the names that well-known datasets use for the same things are understood too. A
`.traj` (or `.traj.json`) file is one trajectory: its messages are under `messages` or, without the
demonstrations, under `history`; the patch is `info.submission`.

All trajectories of an instance go into one split, which depends on the instance and the seed only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from miner.config import ImportConfig
from miner.importers.chats import ROLES, content_text
from miner.importers.fields import BadRow, Row, optional_text, parse_object, text_field, text_value
from miner.importers.lines import require_file, shown
from miner.importers.rows import too_long
from miner.importers.units import import_unit, plan_file, refuse_twice, unique_slugs
from schemas.errors import AssayError
from schemas.ids import content_id, digest_json, split_of
from schemas.records import Message, ToolCall, Trajectory
from schemas.stage import Drop, Keep, Outcome, Unit

_PATCH = ("patch", "model_patch", "generated_patch", "submission")
_POLICY = ("policy", "model", "model_name", "model_name_or_path")
_RESOLVED = ("resolved", "target")


def _tool_call(value: Any, where: str) -> ToolCall:
    if not isinstance(value, dict):
        raise BadRow("bad_field", f"{where}: expected an object")
    function = value.get("function", value)
    if not isinstance(function, dict):
        raise BadRow("bad_field", f"{where}.function: expected an object")
    name = text_value(function.get("name"), f"{where}.function.name")
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
        except RecursionError:
            raise BadRow("bad_field", f"{where}.function.arguments: nested too deep") from None
    return ToolCall(
        id=optional_text(value, "id"),
        name=name,
        arguments=text_value(arguments, f"{where}.function.arguments", empty=True),
    )


def _tool_call_id(row: Row) -> str | None:
    """The call that a message answers; SWE-agent writes a list of one."""
    several = row.get("tool_call_ids")
    if row.get("tool_call_id") is None and isinstance(several, list) and several:
        return text_value(several[0], "tool_call_ids[0]")
    return optional_text(row, "tool_call_id")


def _message(value: Any, number: int) -> Message:
    where = f"messages[{number}]"
    if not isinstance(value, dict):
        raise BadRow("bad_field", f"{where}: expected an object")
    try:
        role = ROLES.get(text_field(value, "role").lower())
        if role is None:
            raise BadRow("bad_field", f"role: {value['role'][:40]!r} is none of {', '.join(ROLES)}")
        calls = value.get("tool_calls") or []
        if not isinstance(calls, list):
            raise BadRow("bad_field", "tool_calls: expected a list")
        tool = role == "tool"
        call_id = _tool_call_id(value) if tool else None
        name = optional_text(value, "name") if tool else None
    except BadRow as bad:
        raise BadRow(bad.reason, f"{where}.{bad.detail}") from None
    return Message(
        role=role,
        content=content_text(value.get("content", value.get("text")), where),
        name=name,
        tool_call_id=call_id,
        tool_calls=[_tool_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls)],
    )


def _messages(row: Row) -> list[Message]:
    found = row.get("messages")
    if found is None and isinstance(row.get("history"), list):
        found = [one for one in row["history"] if not (isinstance(one, dict) and one.get("is_demo"))]
    if isinstance(found, str):
        # Some published sets keep the list as JSON text, since a table's cells must be of one type.
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            raise BadRow("bad_field", "messages: a string that is not JSON") from None
    if found is None:
        raise BadRow("bad_field", "messages: missing")
    if not isinstance(found, list) or not found:
        raise BadRow("bad_field", "messages: expected a list with at least one message")
    messages = [_message(value, number) for number, value in enumerate(found)]
    if not any(message.role == "assistant" for message in messages):
        raise BadRow("bad_field", "messages: none is the assistant's")
    return messages


def _resolved(row: Row) -> bool | None:
    for field in _RESOLVED:
        value = row.get(field)
        if isinstance(value, bool) or (value in (0, 1) and isinstance(value, int | float)):
            return bool(value)
        if value is not None:
            raise BadRow("bad_field", f"{field}: expected a boolean")
    return None


def parse_trajectory(row: Row, source: str, seed: int, test_share: float) -> Trajectory:
    """A trajectory from one row.

    Raises:
        BadRow: a field is missing or mistyped, or no message is the assistant's.
    """
    instance_id = text_field(row, "instance_id")
    messages = _messages(row)
    patch = optional_text(row, *_PATCH)
    told = [
        [one.role, one.content, one.name, one.tool_call_id]
        + [part for call in one.tool_calls for part in (call.id, call.name, call.arguments)]
        for one in messages
    ]
    return Trajectory(
        id=content_id(instance_id, json.dumps(told), "none" if patch is None else f"patch {patch}"),
        instance_id=instance_id,
        messages=messages,
        patch=patch,
        resolved=_resolved(row),
        policy=optional_text(row, *_POLICY),
        source=source,
        split=split_of(seed, instance_id, test_share),
    )


def _is_traj(path: Path) -> bool:
    return path.name.endswith((".traj", ".traj.json"))


def _flatten_traj(row: Row, path: Path) -> Row:
    """A `.traj` file's object with the fields of a chat line. The instance is the file's name unless
    the file tells."""
    told = row.get("info")
    info: Row = told if isinstance(told, dict) else {}
    flat = dict(row)
    flat.setdefault("instance_id", shown(path.name.removesuffix(".json").removesuffix(".traj")))
    for field in (*_PATCH, *_RESOLVED):
        if flat.get(field) is None and field in info:
            flat[field] = info[field]
    if all(flat.get(field) is None for field in _POLICY):
        flat["policy"] = _model_of(row, info)
    return flat


def _model_of(row: Row, info: Row) -> str | None:
    """The model's name, where SWE-agent (`replay_config`) and mini-SWE-agent (`info.config`) put it."""
    config: Any = info.get("config")
    if config is None and isinstance(row.get("replay_config"), str):
        try:
            config = json.loads(row["replay_config"])
        except (ValueError, RecursionError):
            return None
    for keys in (("model", "model_name"), ("agent", "model", "name")):
        value = config
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return None


def _read_traj(config: ImportConfig, path: Path) -> bytes:
    """A `.traj` file's bytes, one more than the limit at most.

    Raises:
        AssayError: it is missing, no regular file or not readable.
    """
    try:
        require_file(path)
        with path.open("rb") as handle:
            return handle.read(config.max_row_bytes + 1)
    except OSError as error:
        raise AssayError(f"{path}: cannot be read ({error.strerror})") from None


def _parse_traj(config: ImportConfig, path: Path, data: bytes, seed: int) -> Trajectory:
    if len(data) > config.max_row_bytes:
        raise too_long(config.max_row_bytes)
    row = _flatten_traj(parse_object(data), path)
    return parse_trajectory(row, shown(path.parent.name or path.name), seed, config.test_share)


def _plan_traj_folder(
    config: ImportConfig, files: Sequence[Path], slug: str, limit: int | None
) -> list[Unit]:
    """Units for the `.traj` files of one folder."""
    units: list[Unit] = []
    problem, good = "", False
    for start in range(0, len(files) if limit is None else min(limit, len(files)), config.rows_per_part):
        stop = start + config.rows_per_part
        chunk = files[start : stop if limit is None else min(stop, limit)]
        digests = []
        for path in chunk:
            data = _read_traj(config, path)
            digests.append([path.name, content_id(data)])
            if not good:
                try:
                    _parse_traj(config, path, data, 0)
                    good = True
                except BadRow as bad:
                    problem = problem or f"{path.name}: {bad.detail}"
        payload: dict[str, Any] = {"files": [str(path.absolute()) for path in chunk]}
        inputs = {"rows": digest_json([files[0].parent.name, digests])}
        units.append(Unit(f"{slug}-{start // config.rows_per_part:05d}", len(chunk), payload, inputs))
    if not good:
        raise AssayError(f"{files[0].parent}: no .traj file of it can be imported ({problem})")
    return units


def _import_traj_unit(config: ImportConfig, unit: Unit, seed: int) -> Iterator[Outcome]:
    for name in unit.payload["files"]:
        path = Path(name)
        try:
            yield Keep((_parse_traj(config, path, _read_traj(config, path), seed),))
        except BadRow as bad:
            yield Drop(shown(f"{path.parent.name}/{path.name}"), bad.reason, bad.detail)


def _sources(files: Sequence[Path]) -> dict[Path, list[Path]]:
    """Chat files with nothing below them, and folders with their `.traj` files, in the order given."""
    found: dict[Path, list[Path]] = {}
    for path in files:
        if path.is_dir():
            below = sorted(one for one in path.rglob("*") if _is_traj(one) and one.is_file())
            if not below:
                raise AssayError(f"{path}: no .traj files below it; give a .jsonl file or another folder")
        else:
            below = [path]
        for one in below:
            key = one.parent if _is_traj(one) else one
            trajs = found.setdefault(key, [])
            if _is_traj(one):
                trajs.append(one)
    return found


def plan_trajectories(config: ImportConfig, files: Sequence[Path], limit: int | None = None) -> list[Unit]:
    """Plan the import of chat files, `.traj` files and folders of these; `limit` bounds all rows.

    Raises:
        AssayError: no file, a file twice, a file that cannot be read, one without any good row.
    """
    if not files:
        raise AssayError("import: no file; give a .jsonl file or .traj files of trajectories")
    sources = _sources([Path(path) for path in files])
    refuse_twice(list(sources))
    units: list[Unit] = []
    for (path, trajs), slug in zip(
        sources.items(), unique_slugs([path.name for path in sources]), strict=True
    ):
        left = None if limit is None else limit - sum(unit.rows for unit in units)
        if left is not None and left <= 0:
            break
        if trajs:
            if len(set(trajs)) < len(trajs):
                raise AssayError(f"{path}: a .traj file of it is given twice; give each file once")
            units += _plan_traj_folder(config, trajs, slug, left)
        else:
            units += plan_file(config, path, slug, _examine, left)
    return units


def _examine(row: Row) -> None:
    parse_trajectory(row, "", 0, 0.0)


def import_trajectories(config: ImportConfig, unit: Unit, seed: int) -> Iterator[Outcome]:
    """One outcome for every row of a unit: a `Keep` with its `Trajectory`, or a `Drop`."""
    if "files" in unit.payload:
        return _import_traj_unit(config, unit, seed)
    share = config.test_share
    return import_unit(config, unit, lambda row, source: (parse_trajectory(row, source, seed, share),))
