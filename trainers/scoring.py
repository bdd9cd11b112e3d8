"""Score files of prompts with responses, or of trajectories, in parts that a later run goes on from.

In: files as `rowfiles` reads them, a reward model and what chooses a system prompt, or a verifier, whose
score is the log-odds that a trajectory resolves its task. Out, in a folder:

    part-FFFFF-PPPPP.parquet   a `ScoredRow` a row that could be scored, of `part_rows` rows of file F
    part-FFFFF-PPPPP.json      the part's key, counts, dropped rows and digest
    scores.json                the sums, written last

A part is made anew unless its key (inputs, model, settings, code) and digest are right, and scored on
its own, so that a run that was stopped and one that was not leave the same bytes. Bad rows cost
themselves only; a model that can score no row of a part is an `AssayError`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.declare import column, record
from schemas.errors import AssayError
from schemas.ids import digest_json
from schemas.shards import file_sha256, write_shard, write_text
from schemas.stage import Drop
from trainers import rowfiles
from trainers.conversations import COLUMNS, Request, request_of
from trainers.data import Pair, cut_side, encode_pairs, encode_sides
from trainers.packing import Ids
from trainers.rowfiles import BadRow
from trainers.score import Scorer
from trainers.trajectories import Attempt
from trainers.verify import TrajectoryVerifier, attempt_from

SystemOf = Callable[[Request], str]
"""The system prompt of a request, empty for none; a request that it cannot be told for is a `BadRow`."""

PART_ROWS = 1000
_CALL = 128
"""Rows that are handed to the model at once."""


@record(sort=())
class ScoredRow:
    """A row of a scored file; columns beside the scores are the row's own, where it has them."""

    id: str = column("the row's own id, else its number in the file, from 1")
    file: str = column("name of the file")
    row: int = column("number of the row in it, from 1")
    score: float | None = column("score of a lone response; null for pairs")
    chosen_score: float | None = column("lowest score of the right responses; null for a lone one")
    rejected_score: float | None = column("highest score of the wrong responses; null likewise")
    instance: str | None = column("the task that the response is for")
    outcome: float | None = column("0 to 1: how right the lone response is")
    pass_rate: float | None = column("share of tests that it passes")
    aspect: str | None = column("criterion")
    language: str | None = column("programming language")
    subset: str | None = column("subset")
    cut: bool = column("whether the model read only a part of it, since it was too long")
    system: str = column("first 16 hex digits of the system prompt's digest; empty for none")


@dataclasses.dataclass(frozen=True)
class Options:
    """How rows are scored.

    Attributes:
        batch_size: conversations in one forward pass.
        max_length: tokens of a conversation; 0 takes the model's own.
        part_rows: rows of a part.
        limit: rows of each file that are read; None for all.
    """

    batch_size: int = 16
    max_length: int = 0
    part_rows: int = PART_ROWS
    limit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a request's responses, the right ones first, and whether the model read only a part."""

    values: list[float]
    cut: bool


def score_requests(
    scorer: Scorer,
    asked: Sequence[tuple[Request, str]],
    options: Options,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Scores | BadRow]:
    """Scores of each request's responses, the right ones first, or why there are none.

    Two sides of one pair are cut as in training: to one window that holds where they differ. A lone
    response, and answers of a list, are cut at their end. Responses to one prompt, wherever they stand,
    share what is computed of it.

    Args:
        scorer: the model.
        asked: requests with their system prompts.
        options: see `Options`.
        progress: called with the number of requests done so far.

    Raises:
        AssayError: the model can score none of them.
    """
    found: list[Scores | BadRow] = [BadRow("not_scorable")] * len(asked)
    sides: tuple[list[int], list[int]] = ([], [])
    for at, (request, _) in enumerate(asked):
        sides[bool(request.wrong) and not request.listed].append(at)
    done = 0
    for numbers, work in zip(sides, (_apart, _together), strict=True):
        for part in _calls(numbers, asked):
            told = functools.partial(_within, progress, done, len(part))
            scores = _tried(work, scorer, [asked[at] for at in part], options, told)
            for at, one in zip(part, scores, strict=True):
                found[at] = one
            done += len(part)
            progress(done)
    if found and all(isinstance(one, BadRow) for one in found):
        raise AssayError(f"none of {len(found):,} rows could be scored; the first: {found[0]}")
    return found


def _within(progress: Callable[[int], None], before: int, size: int, share: float) -> None:
    """Tell that a share of a part is done, in rows."""
    progress(before + int(share * size))


def _calls(numbers: Sequence[int], asked: Sequence[tuple[Request, str]]) -> Iterator[list[int]]:
    """Rows that are handed to the model at once: those of one prompt together, about `_CALL` in all."""
    prompts: dict[tuple[str, str], list[int]] = {}
    for at in numbers:
        prompts.setdefault(_prompt(asked[at]), []).append(at)
    part: list[int] = []
    for group in prompts.values():
        for begin in range(0, len(group), _CALL):
            some = group[begin : begin + _CALL]
            if part and len(part) + len(some) > _CALL:
                yield part
                part = []
            part = part + some
    if part:
        yield part


def _prompt(one: tuple[Request, str]) -> tuple[str, str]:
    return one[1], one[0].prompt


_Share = Callable[[float], None]
_Work = Callable[[Scorer, Sequence[tuple[Request, str]], Options, _Share], list[Scores | BadRow]]


def _tried(
    work: _Work, scorer: Scorer, part: Sequence[tuple[Request, str]], options: Options, progress: _Share
) -> list[Scores | BadRow]:
    try:
        return work(scorer, part, options, progress)
    except AssayError as error:
        if len(part) == 1:
            return [BadRow("not_scorable", str(error))]
    # One row that the model refuses must not cost those beside it.
    return [scores for one in part for scores in _tried(work, scorer, [one], options, lambda _: None)]


def _shares(total: int, progress: _Share) -> Callable[[int], None]:
    """From sequences that are done to the share of all."""
    return lambda done: progress(done / total)


def _apart(
    scorer: Scorer, part: Sequence[tuple[Request, str]], options: Options, progress: _Share
) -> list[Scores | BadRow]:
    talks = [
        (system, request.prompt, response)
        for request, system in part
        for response in (*request.right, *request.wrong)
    ]
    cutting = scorer.cut_to(options.max_length)
    sides = encode_sides(scorer.tokenizer, talks)
    pieces = iter([(cut_side(side, cutting), len(side.ids)) for side in sides])
    ids: list[Ids] = []
    prompts: list[tuple[str, str]] = []
    plan: list[tuple[int, bool] | None] = []
    for one in part:
        own = list(itertools.islice(pieces, len(one[0].right) + len(one[0].wrong)))
        kept = [piece for piece, _ in own if piece is not None]
        if len(kept) < len(own):
            plan.append(None)
            continue
        plan.append((len(own), any(len(piece) < whole for piece, (_, whole) in zip(kept, own, strict=True))))
        ids += kept
        prompts += [_prompt(one)] * len(own)
    told = _shares(len(ids), progress)
    values = iter(scorer.score_ids(ids, options.batch_size, told, prompts).tolist() if ids else [])
    return [
        BadRow("prompt_too_long", f"of {cutting.max_length} tokens in all")
        if one is None
        else Scores(list(itertools.islice(values, one[0])), one[1])
        for one in plan
    ]


def _together(
    scorer: Scorer, part: Sequence[tuple[Request, str]], options: Options, progress: _Share
) -> list[Scores | BadRow]:
    texts = [
        Pair(
            idx=str(at),
            system=system,
            input=request.prompt,
            chosen=request.right[0],
            rejected=request.wrong[0],
            language="",
            aspect="",
            commit="",
            license=None,
        )
        for at, (request, system) in enumerate(part)
    ]
    pairs, account = encode_pairs(texts, scorer.tokenizer, scorer.cut_to(options.max_length))
    found: list[Scores | BadRow] = [BadRow("not_scorable")] * len(part)
    for drop in account.drops:
        found[int(drop.id)] = BadRow(drop.reason, drop.detail or "")
    ids = [side for pair in pairs for side in (pair.chosen, pair.rejected)]
    # The sides of a pair share what they begin with, and so do pairs of one prompt.
    prompts = [(pair.pair.system, pair.pair.input) for pair in pairs for _ in range(2)]
    scores = scorer.score_ids(ids, options.batch_size, _shares(len(ids), progress), prompts).reshape(-1, 2)
    for pair, (good, bad) in zip(pairs, scores, strict=True):
        found[int(pair.pair.idx)] = Scores([float(good), float(bad)], pair.windowed or pair.prompt_cut)
    return found


def model_digest(model: str | Path) -> str:
    """A digest of a model folder's files, or of the name of a model elsewhere."""
    folder = Path(model)
    if not folder.is_dir():
        return digest_json({"model": str(model)})
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".md"]
    # A training log and its curves are no part of the model; its settings are, since they say how long texts
    # are cut.
    files = [path for path in files if path.suffix not in (".jsonl", ".png")]
    return digest_json({path.name: file_sha256(path) for path in files})


def part_key(model: str, paths: Sequence[Path], settings: Mapping[str, Any]) -> str:
    """The key of every part of a run: model digest, files in their order, and settings."""
    inputs = [[path.name, file_sha256(path)] for path in paths]
    return digest_json({"model": model, "inputs": inputs, "settings": dict(settings)})


def score_files(
    load: Callable[[], Scorer | TrajectoryVerifier],
    paths: Sequence[Path],
    out: Path,
    system_of: SystemOf,
    options: Options,
    key: str,
    progress: Callable[[int, int | None, int], None] = lambda _done, _total, _made: None,
    *,
    columns: Sequence[str] = COLUMNS,
) -> dict[str, Any]:
    """Score every row of some files.

    Args:
        load: gives the model; only called when a part is missing.
        paths: files, in the order in which parts are numbered.
        out: folder for the parts; made when missing.
        system_of: chooses system prompts.
        options: see `Options`.
        key: digest of model, inputs and settings, see `part_key`.
        progress: called with the rows that are done, the rows of all files (None when not known), and those
            done by this call.
        columns: what is read of a row; `trainers.verify.COLUMNS` for a verifier.

    Returns:
        The content of `scores.json`: `rows`, `scored`, `cut` (too long to be read whole), `dropped` by
        reason, `parts`; and `made` (parts that were not there yet).

    Raises:
        AssayError: a file or the model cannot be used, or the folder holds scores of another key.
    """
    out.mkdir(parents=True, exist_ok=True)
    _refuse_others(out, key)
    scorer: Scorer | TrajectoryVerifier | None = None
    total: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    whole = rowfiles.count(paths, options.limit)
    fresh = 0
    for number, path in enumerate(paths):
        for index, rows in enumerate(_chunks(path, options, columns)):
            place = out / f"part-{number:05d}-{index:05d}.parquet"
            facts = _finished(place, key)
            if facts is None:
                scorer = scorer or load()
                told = functools.partial(_onwards, progress, total["rows"], whole, fresh)
                facts = _make(scorer, path, rows, place, system_of, options, key, told)
                total["made"] += 1
                fresh += facts["rows"]
            total["parts"] += 1
            total["rows"] += facts["rows"]
            total["scored"] += facts["scored"]
            total["cut"] += facts["cut"]
            dropped.update(Counter(drop["reason"] for drop in facts["drops"]))
            progress(total["rows"], whole, fresh)
    result = {
        "key": key,
        **{name: total[name] for name in ("rows", "scored", "cut", "parts")},
        "dropped": dict(sorted(dropped.items())),
    }
    write_text(out / "scores.json", json.dumps(result, indent=1) + "\n")
    return {**result, "made": total["made"]}


def _onwards(
    progress: Callable[[int, int | None, int], None], before: int, whole: int | None, made: int, done: int
) -> None:
    """Tell how many rows of a part are done, as rows of all."""
    progress(before + done, whole, made + done)


def _chunks(path: Path, options: Options, columns: Sequence[str]) -> Iterator[list[rowfiles.Row]]:
    rows = itertools.islice(rowfiles.read(path, columns), options.limit)
    while chunk := list(itertools.islice(rows, options.part_rows)):
        yield chunk


def _refuse_others(out: Path, key: str) -> None:
    """Parts of other inputs would be read as these by whoever reads the folder."""
    for path in sorted(out.glob("part-*.json")):
        if _facts(path).get("key") != key:
            raise AssayError(
                f"{out}: holds scores of other inputs, settings, model or version of assay ({path.name}); "
                "give another --out, or --clean to remove them"
            )


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _finished(place: Path, key: str) -> dict[str, Any] | None:
    facts = _facts(place.with_suffix(".json"))
    if facts.get("key") != key or not place.is_file():
        return None
    return facts if file_sha256(place) == facts.get("sha256") else None


def _make(
    scorer: Scorer | TrajectoryVerifier,
    path: Path,
    rows: Sequence[rowfiles.Row],
    place: Path,
    system_of: SystemOf,
    options: Options,
    key: str,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    if isinstance(scorer, Scorer):
        made, drops = _responses(scorer, path, rows, system_of, options, progress)
    else:
        made, drops = _attempts(scorer, path, rows, progress)
    _, _, digest = write_shard(place, ScoredRow, made)
    drops.sort(key=lambda drop: drop["row"])
    facts = {
        "key": key,
        "rows": len(rows),
        "scored": len(made),
        "cut": sum(row["cut"] for row in made),
        "sha256": digest,
        "drops": drops,
    }
    write_text(place.with_suffix(".json"), json.dumps(facts, indent=1) + "\n")
    return facts


_Rows = list[dict[str, Any]]


def _responses(
    scorer: Scorer,
    path: Path,
    rows: Sequence[rowfiles.Row],
    system_of: SystemOf,
    options: Options,
    progress: Callable[[int], None],
) -> tuple[_Rows, _Rows]:
    """Scored rows and dropped ones, of responses."""
    drops: _Rows = []
    asked: list[tuple[int, Request, str]] = []
    for row in rows:
        try:
            request = request_of(_values(row), row.number)
            asked.append((row.number, request, system_of(request)))
        except BadRow as bad:
            drops.append(_drop(row.number, bad))
    made = []
    scores = score_requests(scorer, [(request, system) for _, request, system in asked], options, progress)
    for (number, request, system), found in zip(asked, scores, strict=True):
        if isinstance(found, BadRow):
            drops.append(_drop(number, found))
        else:
            made.append(_scored(path, number, request, system, found))
    return made, drops


def _attempts(
    verifier: TrajectoryVerifier,
    path: Path,
    rows: Sequence[rowfiles.Row],
    progress: Callable[[int], None],
) -> tuple[_Rows, _Rows]:
    """Scored rows and dropped ones, of trajectories."""
    drops: _Rows = []
    asked: list[tuple[int, Attempt]] = []
    for row in rows:
        try:
            asked.append((row.number, attempt_from(_values(row), row.number)))
        except BadRow as bad:
            drops.append(_drop(row.number, bad))

    def told(done: int, passes: int) -> None:
        progress(len(asked) * done // passes)

    made: _Rows = []
    for (number, attempt), verdict in zip(
        asked, verifier.verify([attempt for _, attempt in asked], told), strict=True
    ):
        if isinstance(verdict, Drop):
            drops.append({"row": number, "reason": verdict.reason, "detail": verdict.detail or ""})
            continue
        made.append(
            {
                **dict.fromkeys(_NO_PAIR),
                "id": attempt.idx,
                "file": _shown(path),
                "row": number,
                "score": verdict.log_odds,
                "cut": verdict.windowed,
                "instance": attempt.instance or None,
                "outcome": None if attempt.resolved is None else float(attempt.resolved),
                "system": "",
            }
        )
    if asked and not made:
        raise AssayError(f"none of {len(asked):,} rows could be scored; the first: {drops[0]}")
    return made, drops


_NO_PAIR = ("chosen_score", "rejected_score", "pass_rate", "aspect", "language", "subset")


def _values(row: rowfiles.Row) -> dict[str, Any]:
    if row.values is None:
        raise BadRow(row.reason, row.detail)
    return row.values


def _drop(number: int, bad: BadRow) -> dict[str, Any]:
    return {"row": number, "reason": bad.reason, "detail": bad.detail}


def _shown(path: Path) -> str:
    return path.name.encode(errors="replace").decode()


def _scored(path: Path, number: int, request: Request, system: str, found: Scores) -> dict[str, Any]:
    right, wrong = found.values[: len(request.right)], found.values[len(request.right) :]
    lone = not wrong
    return {
        "id": request.row_id,
        "file": _shown(path),
        "row": number,
        "score": right[0] if lone else None,
        "chosen_score": None if lone else min(right),
        "rejected_score": None if lone else max(wrong),
        "cut": found.cut,
        "outcome": request.outcome,
        "pass_rate": request.rate,
        **{name: request.names.get(name) for name in ("instance", "aspect", "language", "subset")},
        "system": digest_json({"system": system})[:16] if system else "",
    }
