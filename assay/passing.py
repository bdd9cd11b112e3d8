"""`assay eval pass-at-k`: how often one of k answers of a policy passes a problem's tests.

In: files of samples with outcomes (the run's tables `steps`, or `trajectories`, without any), or a causal
language model with problems, which it is asked to solve and whose answers are run in the sandbox. Out, in a
folder: `results.json`, `samples.parquet`, `pass_at_k.png`, and with a model `journal.jsonl`, in which each
problem's answers and verdicts are kept as soon as they are there: the same command again goes on from them.
Wrong: a problem that cannot be asked or judged is left out and counted; a model that cannot be loaded, a
machine that cannot isolate and a folder with answers of other settings are an `AssayError`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay import scoring
from assay.flags import Flags
from assay.passing_problems import Asked, asked_of_files, asked_of_run
from assay.passing_runs import Judge, Verdict
from assay.recipe import Recipe
from schemas.declare import Int32, Text, column, record
from schemas.errors import AssayError
from schemas.ids import content_id, digest_files, digest_json, rng
from schemas.rundir import RunDir
from schemas.shards import write_shard, write_text

if TYPE_CHECKING:
    from assay.progress import Meter
    from trainers.sampling import Policy, Sampling

JOURNAL = "journal.jsonl"
_AT_ONCE = 64
"""Answers that are asked for, run and kept together, at least."""
_Place = tuple[str, str]
"""A problem's id, and a digest of the prompt that it was asked by."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Flags of pass@k beside those of `scoring.Given`.

    Attributes:
        problems: files or names of data sets, as `assay problems` reads them; with a model.
        policies: samples of files that count, by who wrote them; empty for all that a model wrote.
        samples: answers that are asked for of each problem.
        temperature: of sampling; 0 takes the likeliest token.
        top_p: of sampling.
        max_new_tokens: most tokens of an answer.
        prompt: `statement`, `skeleton`, or `auto`: as the run asks its policy, and the statement for files.
    """

    problems: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    samples: int = 10
    temperature: float = 0.8
    top_p: float = 0.95
    max_new_tokens: int = 1024
    prompt: str = "auto"


@record(sort=())
class PassSample:
    """An answer of a policy to a problem, with its verdict."""

    id: str = column("hash of the problem's id, the prompt, the policy and the answer's number")
    problem_id: str = column("id of the problem")
    problem: str = column("name of the problem in its source")
    language: str = column("programming language")
    source: str = column("file or dataset of the problem")
    policy: str = column("name of the model")
    sample: Int32 = column("number of the answer, from 0")
    prompt: Text = column("what was asked")
    completion: Text = column("what was answered")
    program: Text | None = column("the program in it that was run; null where that is all of it")
    fault: str | None = column("what is wrong with the answer at sight; null where nothing is")
    passed: bool | None = column("whether the program passes the problem's tests; null without a verdict")
    reason: str = column("`passed`, the sandbox's status, or the answer's fault")
    detail: Text | None = column("what failed first; null where nothing did")
    trust: str = column("`external`, `split` or `inproc` (which a program could forge)")
    isolation: str = column("backend and layers that ran it")
    finish: str = column("`stop`, or `length` where the answer was cut")
    tokens: Int32 = column("tokens of the answer")


def evaluate(flags: Flags, run_dir: Path, given: scoring.Given, wanted: Wanted) -> None:
    """The command.

    Raises:
        AssayError: see the module, or flags that do not go together.
    """
    if given.model is None and wanted.problems:
        raise AssayError("--problems are asked of a model: give --model FOLDER too")
    if given.model is not None and given.files:
        raise AssayError("files of samples need no model; problems for --model are named by --problems FILE")
    if given.model is not None and wanted.policies:
        raise AssayError("--policy picks samples of files; with --model all answers are the model's")
    work = _of_files if given.model is None else _of_model
    work(flags, run_dir, given, wanted)


def _of_files(flags: Flags, run_dir: Path, given: scoring.Given, wanted: Wanted) -> None:
    from trainers import passes

    root = scoring.run_of(run_dir)
    files, table = given.files, None
    if not files:
        files, table = _samples_of_run(run_dir, root)
    if flags.dry_run:
        print(f"eval pass-at-k: {len(files):,} files would be read")
        return
    read = passes.read(files, wanted.policies)
    ks = scoring.numbers(given.ks) or passes.default_ks(read.samples)
    seed = flags.seed or 0
    out = given.out or scoring.beside(root, "pass-at-k")
    found: dict[str, Any] = {
        "rows": read.rows,
        "used": len(read.samples),
        "dropped": read.dropped,
        "seed": seed,
    }
    # Of answers with one text `sample` keeps one, so that a policy that repeats itself looks better here.
    found |= {"table": table, "distinct": table == "steps"}
    found["policies"] = passes.summary(read.samples, ks, seed)
    out.mkdir(parents=True, exist_ok=True)
    passes.write_samples(out / "samples.parquet", read.samples)
    _finish(flags, out, found)


def _samples_of_run(run_dir: Path, root: Path | None) -> tuple[tuple[Path, ...], str]:
    """(shards, table) of a run's samples."""
    if root is None:
        raise AssayError(
            f"{run_dir}: no run directory, so no samples; name files of samples, or give --model"
        )
    run = RunDir.open(root)
    for table in ("steps", "trajectories"):
        if parts := tuple(part.path for part in run.parts(table) if part.sidecar.rows):
            return parts, table
    raise AssayError(f"{root}: no samples yet; run `assay verify` first, name files, or give --model FOLDER")


def _of_model(flags: Flags, run_dir: Path, given: scoring.Given, wanted: Wanted) -> None:
    from trainers import passes

    chosen, recipe, root = scoring.model_of(run_dir, given, flags)
    seed = scoring.seed_of(flags, recipe)
    how = _sampling(given, wanted)
    asked, left_out = _asked(flags, recipe, root, run_dir, wanted)
    out = given.out or scoring.beside(root, "pass-at-k")
    if flags.dry_run:
        times = f"{len(asked):,} problems would be asked {wanted.samples:,} times each"
        print(f"eval pass-at-k: {times}, by {chosen}")
        return
    ks = scoring.numbers(given.ks) or _powers(wanted.samples)
    problems = len(asked) + len(left_out)
    if flags.clean:
        (out / JOURNAL).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    with Journal(out / JOURNAL, _key(chosen, how, seed)) as journal:
        work = Work(chosen, how, seed, wanted.samples, journal, Judge(recipe, flags.workers))
        with scoring.watched(flags, "eval pass-at-k", "answers") as meter:
            rows, more = work.all(asked, meter)
    left_out += more
    if not rows:
        raise AssayError(f"none of {problems:,} problems can be used; the first: {_first(left_out)}")
    samples = [
        passes.Sample(row.problem_id, row.policy, row.passed, row.language, row.source, f"{row.sample:06d}")
        for row in rows
        if row.passed is not None
    ]
    if not samples:
        one = rows[0]
        raise AssayError(
            f"none of {len(rows):,} answers has a verdict; the first: {one.reason}, {one.detail}"
        )
    found: dict[str, Any] = {
        "model": work.name,
        "problems": problems,
        "rows": len(rows),
        "used": len(samples),
        "without_verdict": len(rows) - len(samples),
        "dropped": dict(sorted(Counter(one["reason"] for one in left_out).items())),
        "left_out": left_out,
        "seed": seed,
        "prompt": wanted.prompt,
        **{name: value for name, value in dataclasses.asdict(how).items() if name != "batch_size"},
        "asked": wanted.samples,
        "cut": sum(row.finish == "length" for row in rows),
        "faults": dict(sorted(Counter(row.fault for row in rows if row.fault).items())),
        "reasons": dict(sorted(Counter(row.reason for row in rows).items())),
        "policies": passes.summary(samples, ks, seed),
    }
    write_shard(out / "samples.parquet", PassSample, rows)
    _finish(flags, out, found)


def _sampling(given: scoring.Given, wanted: Wanted) -> Sampling:
    try:
        from trainers.sampling import Sampling
    except ModuleNotFoundError as error:
        raise scoring.no_torch(error) from None
    if wanted.samples < 1:
        raise AssayError(f"--samples {wanted.samples}: give at least 1")
    if wanted.temperature == 0 and wanted.samples > 1:
        raise AssayError("--temperature 0 gives the same answer every time; ask for --samples 1")
    return Sampling(wanted.temperature, wanted.top_p, wanted.max_new_tokens, given.batch_size)


def _asked(
    flags: Flags, recipe: Recipe, root: Path | None, run_dir: Path, wanted: Wanted
) -> tuple[list[Asked], list[dict[str, str]]]:
    if wanted.problems:
        skeletons = wanted.prompt == "skeleton"
        return asked_of_files(recipe.importing, wanted.problems, flags.limit, skeletons, recipe.seed)
    if root is None:
        raise AssayError(f"{run_dir}: no run directory, so no problems; name some by --problems FILE")
    return asked_of_run(RunDir.open(root), flags.limit, wanted.prompt != "statement")


def _powers(most: int) -> list[int]:
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _key(model: str | Path, how: Sampling, seed: int) -> str:
    """What answers depend on beside their prompt and number."""
    import importlib.metadata

    from trainers import sampling
    from trainers.scoring import model_digest

    settings = {name: value for name, value in dataclasses.asdict(how).items() if name != "batch_size"}
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers")}
    code = digest_files([Path(sampling.__file__)])
    told = {
        "model": model_digest(model),
        "sampling": settings,
        "seed": seed,
        "versions": versions,
        "code": code,
    }
    return digest_json(told)


class Journal:
    """What is known of each problem, in a file that grows by a line a problem and step.

    The first line tells the key. A line that a killed run left half written is cut off. Use as a context
    manager.
    """

    def __init__(self, path: Path, key: str) -> None:
        """Read what is there.

        Raises:
            AssayError: it is of another key, or cannot be read.
        """
        self.path = path
        self.lines: list[dict[str, Any]] = []
        try:
            data = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise AssayError(f"{path}: cannot be read ({error.strerror})") from None
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines()):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise AssayError(f"{path}: line {number + 1} is damaged; give --clean to begin anew")
            self.lines.append(found)
        if self.lines and self.lines[0].get("key") != key:
            raise AssayError(
                f"{path}: holds answers of another model, seed, sampling or version; give another --out, or "
                "--clean to remove them"
            )
        self._handle = path.open("r+b" if path.exists() else "w+b")
        self._handle.truncate(len(whole))
        self._handle.seek(0, 2)
        if not self.lines:
            self.add({"key": key})

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def add(self, line: dict[str, Any]) -> None:
        """Keep a line: it is in the file when this returns."""
        self._handle.write(json.dumps(line).encode() + b"\n")
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self.lines.append(line)


class Work:
    """Asks a model and runs what it answers, but for what a journal knows."""

    def __init__(
        self, model: str | Path, how: Sampling, seed: int, each: int, journal: Journal, judge: Judge
    ) -> None:
        self._model, self._how, self._seed, self._each = model, how, seed, each
        self._journal, self._judge = journal, judge
        self.name = Path(model).resolve().name if Path(model).is_dir() else str(model)
        self._policy: Policy | None = None
        self._chat: bool | None = None
        self._answers: dict[_Place, dict[int, dict[str, Any]]] = {}
        self._verdicts: dict[_Place, dict[str, Verdict]] = {}
        self._refused: dict[_Place, tuple[str, str]] = {}
        for line in journal.lines[1:]:
            self._remember(line)

    def all(self, asked: Sequence[Asked], meter: Meter) -> tuple[list[PassSample], list[dict[str, str]]]:
        """A row an answer, in the order of problems, and the problems that are left out."""
        total = len(asked) * self._each
        done = made = 0
        rows: list[PassSample] = []
        left_out: list[dict[str, str]] = []
        for group in self._groups(asked):
            made += self._write(group, functools.partial(_onwards, meter, done, total, made))
            for one in group:
                refused = self._run(one)
                if refused is None:
                    rows += self._rows(one)
                else:
                    left_out.append({"problem": one.name, "reason": refused[0], "detail": refused[1]})
            done += len(group) * self._each
            meter(done, total, made)
        return rows, left_out

    def _groups(self, asked: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
        size = max(1, max(_AT_ONCE, self._how.batch_size) // self._each)
        for begin in range(0, len(asked), size):
            yield asked[begin : begin + size]

    def _place(self, one: Asked) -> _Place:
        return one.problem["id"], content_id(one.prompt(self._chats()))

    def _chats(self) -> bool:
        """Whether the model is talked to in messages; the journal knows, so that nothing is loaded for it."""
        if self._chat is None:
            self._tell({"chat": self._loaded().chat})
        return bool(self._chat)

    def _loaded(self) -> Policy:
        if self._policy is None:
            from trainers.sampling import Policy

            self._policy = Policy(self._model)
        return self._policy

    def _tell(self, line: dict[str, Any]) -> None:
        self._journal.add(line)
        self._remember(line)

    def _remember(self, line: Mapping[str, Any]) -> None:
        """Take a line of the journal; what was judged by other code or bounds is judged again."""
        if "chat" in line:
            self._chat = bool(line["chat"])
            return
        place = (line["problem"], line["prompt"])
        if "answers" in line:
            self._answers.setdefault(place, {}).update({one["sample"]: one for one in line["answers"]})
        elif line["judge"] == self._judge.key and "refused" in line:
            self._refused[place] = (line["refused"], line["detail"])
        elif line["judge"] == self._judge.key:
            known = self._verdicts.setdefault(place, {})
            for one in line["verdicts"]:
                fields = {name: value for name, value in one.items() if name != "text"}
                known[one["text"]] = Verdict(**fields)

    def _missing(self, one: Asked) -> list[int]:
        """Numbers of the answers that are still to be asked for."""
        known = self._answers.get(self._place(one), {})
        return [number for number in range(self._each) if number not in known]

    def _write(self, group: Sequence[Asked], progress: Callable[[int], None]) -> int:
        """Ask for the answers that are missing, keep them, and say how many there were."""
        todo: list[tuple[Asked, int]] = []
        prompts, seeds = [], []
        for one in group:
            missing = self._missing(one)
            if not missing or self._place(one) in self._refused or not self._checked(one):
                continue
            policy = self._loaded()
            ids = policy.prompt_ids(one.prompt(policy.chat))
            room, new = policy.positions, self._how.max_new_tokens
            if room is not None and len(ids) + new > room:
                self._refuse(one, "prompt_too_long", f"{len(ids)} tokens and {new} new ones are above {room}")
                continue
            todo += [(one, number) for number in missing]
            prompts += [ids] * len(missing)
            names = [f"{one.problem['id']}/{number}" for number in missing]
            seeds += [rng(self._seed, "pass-at-k", name).getrandbits(63) for name in names]
        if not todo:
            return 0
        answers = self._loaded().answer(prompts, seeds, self._how, progress)
        kept: dict[_Place, list[dict[str, Any]]] = {}
        for (one, number), answer in zip(todo, answers, strict=True):
            kept.setdefault(self._place(one), []).append({"sample": number, **dataclasses.asdict(answer)})
        for (problem, prompt), found in kept.items():
            self._tell({"problem": problem, "prompt": prompt, "answers": found})
        return len(todo)

    def _checked(self, one: Asked) -> bool:
        """Whether the problem's own solution passes here; found before the model is asked in vain."""
        why = self._judge.check(one)
        if why is not None:
            self._refuse(one, *why)
        return why is None

    def _refuse(self, one: Asked, reason: str, detail: str) -> None:
        problem, prompt = self._place(one)
        line = {"problem": problem, "prompt": prompt, "judge": self._judge.key}
        self._tell({**line, "refused": reason, "detail": detail[:500]})

    def _run(self, one: Asked) -> tuple[str, str] | None:
        """Run the answers that have no verdict, and keep what came of them; why the problem is left out."""
        place = self._place(one)
        if place in self._refused:
            return self._refused[place]
        texts = [self._answers[place][number]["text"] for number in range(self._each)]
        known = self._verdicts.get(place, {})
        fresh = [text for text in dict.fromkeys(texts) if content_id(text) not in known]
        if not fresh:
            return None
        if not self._checked(one):
            return self._refused[place]
        found = self._judge.judge(one, fresh, self._chats())
        verdicts = [
            {"text": content_id(text), **dataclasses.asdict(verdict)}
            for text, verdict in zip(fresh, found, strict=True)
        ]
        line = {"problem": place[0], "prompt": place[1], "judge": self._judge.key}
        self._tell({**line, "verdicts": verdicts})
        return None

    def _rows(self, one: Asked) -> Iterator[PassSample]:
        place, problem = self._place(one), one.problem
        for number in range(self._each):
            answer = self._answers[place][number]
            verdict = self._verdicts[place][content_id(answer["text"])]
            yield PassSample(
                id=content_id(problem["id"], place[1], self.name, str(number)),
                problem_id=problem["id"],
                problem=problem["name"],
                language=problem["language"],
                source=problem["source"],
                policy=self.name,
                sample=number,
                prompt=one.prompt(self._chats()),
                completion=answer["text"],
                **dataclasses.asdict(verdict),
                finish=answer["finish"],
                tokens=answer["tokens"],
            )


def _onwards(meter: Meter, before: int, total: int, made: int, done: int) -> None:
    meter(before + done, total, made + done)


def _finish(flags: Flags, out: Path, found: dict[str, Any]) -> None:
    """Write the results and say what they are."""
    from assay import charts

    charts.pass_at_k(out / "pass_at_k.png", found)
    write_text(out / "results.json", json.dumps(found, indent=2, allow_nan=False) + "\n")
    told = "; ".join(_headline(name, own) for name, own in found["policies"].items())
    scoring.tell(
        flags,
        {"folder": str(out), **found},
        f"eval pass-at-k: {told}{scoring.drops(found['dropped'])}; {out}",
    )


def _headline(policy: str, own: Mapping[str, Any]) -> str:
    figures = {int(k): row for k, row in own["pass_at_k"].items() if row["value"] is not None}
    shown = [k for k in figures if k in (min(figures), max(figures))]
    parts = [f"pass@{k} {figures[k]['value']:.3f}{scoring.ends(figures[k]['ci95'])}" for k in shown]
    text = f"{policy} {', '.join(parts) or 'no estimate'} on {own['problems']:,} problems"
    short = {int(k): row["short"] for k, row in own["pass_at_k"].items() if row["short"]}
    if short:
        most = max(short)
        text += f" (of which {short[most]:,} with fewer than {most} samples are left out there)"
    return text


def _first(left_out: Sequence[Mapping[str, str]]) -> str:
    one = left_out[0]
    return f"{one['problem'][:80]}: {one['reason']}, {one['detail']}"
