"""`assay score` and the kinds of `assay eval` that read files: scores, pairs, best of k, calibration.

In: files, a run directory for its model and criteria, flags. Out: a folder with Parquet, JSON and PNG, and
one line or one JSON object on standard output; how far it is goes to standard error. torch is imported only
where a model is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.flags import Flags
from assay.models import NAMES, model_dir, recorded
from assay.progress import Meter, observer
from assay.recipe import Recipe
from schemas.errors import AssayError
from schemas.rundir import RunDir

if TYPE_CHECKING:
    from labelers.commits.criteria import Criterion
    from trainers.conversations import Request
    from trainers.score import Scorer
    from trainers.verify import TrajectoryVerifier

KINDS = ("pairs", "best-of-k", "calibration", "robustness")
_NONE = "none"
_GENERAL = ("helpfulness", "harmlessness")
"""Aspects that every system prompt holds, so that none is asked for them alone."""


@dataclasses.dataclass(frozen=True)
class Given:
    """Flags of scoring and evaluation.

    Attributes:
        files: what is read.
        model: folder or Hub id; None for the run's model.
        out: folder to write; None for one in the run directory.
        criteria: codes with commas between, `none`, or None for what each row says.
        batch_size: conversations in one forward pass.
        max_length: tokens of a conversation; 0 for the model's own.
        layout: of `pairs`.
        scores: `logit` or `probability`.
        ks: of `best-of-k`.
        bins: of `calibration`.
        dev: files to fit the temperature on.
        before: earlier scores of the same rows.
        part_rows: rows of a part of `score`.
    """

    files: tuple[Path, ...] = ()
    model: str | None = None
    out: Path | None = None
    criteria: str | None = None
    batch_size: int = 16
    max_length: int = 0
    layout: str = "auto"
    scores: str = "logit"
    ks: str = ""
    bins: int = 10
    dev: tuple[Path, ...] = ()
    before: tuple[Path, ...] = ()
    part_rows: int = 1000


def score(flags: Flags, run_dir: Path, given: Given) -> None:
    """Score the rows of files.

    Raises:
        AssayError: no files, a file or model that cannot be used, or unknown criteria.
    """
    _needs_files(given, "score")
    chosen, recipe, root = model_of(run_dir, given, flags)
    system_of = system_chooser(given.criteria, recipe.label.criteria_file)
    out = given.out or beside(root, "scores")
    if flags.dry_run:
        print(f"score: {len(given.files):,} files would be scored by {chosen} into {out}")
        return
    try:
        from trainers import conversations, scoring, verify
    except ModuleNotFoundError as error:
        raise no_torch(error) from None
    if flags.clean:
        _remove(out, "part-*", "scores.json")
    options = scoring.Options(given.batch_size, given.max_length, given.part_rows, flags.limit)
    settings = {**dataclasses.asdict(options), "criteria": given.criteria, "code": _code()}
    settings["prompts"] = _prompts(recipe.label.criteria_file)
    key = scoring.part_key(scoring.model_digest(chosen), given.files, settings)
    judged = verify.is_verifier(chosen)
    if judged and given.criteria is not None:
        raise AssayError("--criteria goes with reward models; a verifier asks one question")
    with watched(flags, "score") as meter:
        found = scoring.score_files(
            lambda: _verifier(chosen, given.max_length) if judged else _loaded(chosen),
            given.files,
            out,
            system_of,
            options,
            key,
            meter,
            columns=verify.COLUMNS if judged else conversations.COLUMNS,
        )
    tell(
        flags,
        {"folder": str(out), **found},
        f"score: {found['scored']:,} of {found['rows']:,} rows scored{_cut(found)}"
        f"{drops(found['dropped'])}; {found['parts']:,} parts, {found['made']:,} of them now; {out}",
    )


def evaluate(kind: str, flags: Flags, run_dir: Path, given: Given) -> None:
    """One of `KINDS`.

    Raises:
        AssayError: see `score`.
    """
    if flags.dry_run:
        return print(f"eval {kind}: {len(given.files):,} files would be evaluated")
    if kind == "robustness":
        return _robustness(flags, run_dir, given)
    _needs_files(given, f"eval {kind}")
    return {"pairs": _pairs, "best-of-k": _best_of_k, "calibration": _calibration}[kind](
        flags, run_dir, given
    )


def _pairs(flags: Flags, run_dir: Path, given: Given) -> None:
    from assay import plots
    from trainers import pairs

    chosen, recipe, root = model_of(run_dir, given, flags)
    system_of = system_chooser(given.criteria, recipe.label.criteria_file)
    loaded = pairs.load(given.files, system_of, given.layout, flags.limit)
    out = given.out or beside(root, "pairs")
    with watched(flags, "eval pairs") as meter:
        found = pairs.evaluate(
            _loaded(chosen), loaded, out, _options(flags, given), seed_of(flags, recipe), meter
        )
    plots.pairs(out, found)
    tell(flags, {"folder": str(out), **found}, f"eval pairs: {_headline(found)}; {out}")


def _robustness(flags: Flags, run_dir: Path, given: Given) -> None:
    """Accuracy on the run's synthetic pairs, by what made the wrong side."""
    from assay import plots
    from trainers import pairs

    chosen, recipe, root = model_of(run_dir, given, flags)
    files = given.files
    if not files:
        if root is None:
            raise AssayError(f"{run_dir}: no run directory, so no synthetic pairs; name files of pairs")
        files = tuple(part.path for part in RunDir.open(root).parts("synthetic") if part.sidecar.rows)
        if not files:
            raise AssayError(f"{root}: no synthetic pairs yet; run `assay synthesize` first, or name files")
    loaded = pairs.load(
        files, system_chooser(given.criteria, recipe.label.criteria_file), "pairs", flags.limit
    )
    out = given.out or beside(root, "robustness")
    seed = seed_of(flags, recipe)
    # What made a pair takes the place of the subset, so that tables and plots go by it.
    loaded.requests = [
        dataclasses.replace(one, names={**one.names, "subset": made_by(one.names.get("made_by"))})
        for one in loaded.requests
    ]
    with watched(flags, "eval robustness") as meter:
        found = pairs.evaluate(_loaded(chosen), loaded, out, _options(flags, given), seed, meter)
    found |= _sides(out / "scores.parquet", seed)
    from schemas.shards import write_text

    write_text(out / "results.json", json.dumps(found, indent=2, allow_nan=False) + "\n")
    plots.robustness(out, found)
    words = ((found["hacks"], "pairs that mislead"), (found["plain"], "plain ones"))
    line = ", ".join(
        f"{one['accuracy_ties_half']:.3f}{ends(one['ci95'])} on {one['count']:,} {word}"
        for one, word in words
        if one["count"]
    )
    tell(flags, {"folder": str(out), **found}, f"eval robustness: accuracy {line}; {out}")


def made_by(text: str | None) -> str:
    """The group of a synthetic pair: `hacks: OPERATOR`, else the source, such as `steps` or `bugs`."""
    source, _, how = (text or "unknown").partition(": ")
    return f"hacks: {how.split()[-1]}" if source == "hacks" and how.split() else source


def _sides(scores: Path, seed: int) -> dict[str, Any]:
    """`hacks` and `plain`: accuracy of the pairs that mislead, and of all others."""
    import numpy as np
    import pyarrow.parquet as pq

    from trainers import metrics

    table = pq.read_table(scores, columns=["chosen_score", "rejected_score", "subset"])
    right, wrong = (table[name].to_numpy() for name in ("chosen_score", "rejected_score"))
    misleads = np.array([name.startswith("hacks: ") for name in table["subset"].to_pylist()], dtype=bool)
    found = {}
    for name, held in (("hacks", misleads), ("plain", ~misleads)):
        row = metrics.summary(right[held], wrong[held], seed, name)
        found[name] = {
            "count": row["pairs"],
            "accuracy": row["accuracy_strict"],
            "accuracy_ties_half": row["accuracy"],
            "ties": row["ties"],
            "ci95": row["ci95"],
            "strict_ci95": row["strict_ci95"],
        }
    return found


def _best_of_k(flags: Flags, run_dir: Path, given: Given) -> None:
    from assay import charts
    from trainers import outcomes

    scored = outcomes.read(given.files, "logit")
    ks = numbers(given.ks) or outcomes.default_ks(scored)
    found = outcomes.best_of_k(scored, ks, flags.seed or 0)
    out = given.out or beside(run_of(run_dir), "best-of-k")
    _write(out, found)
    charts.best_of(out / "best_of.png", found)
    most = list(found["best_of"])[-1]
    row = found["best_of"][most]
    same = f"; in {found['one_score']:,} all scores are equal" if found["one_score"] else ""
    tell(
        flags,
        {"folder": str(out), **found},
        f"eval best-of-k: best of {most} is right in {row['rm']:.3f}{ends(row['ci95'])} of {row['tasks']:,} "
        f"tasks (random "
        f"{row['random']:.3f}, oracle {row['oracle']:.3f}){same}{drops(found['dropped'])}; {out}",
    )


def _calibration(flags: Flags, run_dir: Path, given: Given) -> None:
    from assay import charts
    from trainers import outcomes

    test = outcomes.read(given.files, given.scores)
    dev = outcomes.read(given.dev, given.scores) if given.dev else None
    before = outcomes.read(given.before, given.scores, outcomes=False) if given.before else None
    found = outcomes.calibrate(test, dev, before, given.scores, given.bins, flags.seed or 0)
    out = given.out or beside(run_of(run_dir), "calibration")
    _write(out, found)
    charts.reliability(out / "reliability.png", found)
    spread = found["ci95"]
    parts = [
        f"AUC {_shown(found['auc'])}{ends(spread.get('auc'))}",
        f"within instances {_shown(found['auc_instance'])}{ends(spread.get('auc_instance'))}",
        f"ECE {_shown(found['ece'])}{ends(spread.get('ece'))}",
    ]
    if "scaled" in found:
        parts.append(f"{_shown(found['scaled']['ece'])} at temperature {found['temperature']:.3g}")
    if "drift" in found:
        parts.append(f"largest change {found['drift']['largest']:.3g}")
    tell(
        flags,
        {"folder": str(out), **found},
        f"eval calibration: {', '.join(parts)} on {found['used']:,} rows{drops(found['dropped'])}; {out}",
    )


def system_chooser(criteria: str | None, criteria_file: str) -> Callable[[Request], str]:
    """What gives a row its system prompt, in the very bytes that pairs are built with.

    Args:
        criteria: codes with commas between, in the order in which the prompt names them; `none`; or None: a
            row keeps the `system` that it brings, else gets the prompt of its `aspect`, else none.
        criteria_file: the setting `label.criteria_file`.

    Raises:
        AssayError: a code is not known or stands twice.
    """
    from labelers.commits.system_prompts import render_system

    known = _criteria(criteria_file)
    if criteria is not None:
        codes = [] if criteria.strip() == _NONE else [code.strip() for code in criteria.split(",")]
        fixed = render_system(codes, known)
        return lambda _: fixed
    by_name = {_folded(name): one.code for one in known for name in (one.name, one.code)}

    def choose(request: Request) -> str:
        from trainers.rowfiles import BadRow

        if request.system is not None:
            return request.system
        aspect = request.names.get("aspect")
        if aspect is None or _folded(aspect) in _GENERAL:
            return ""
        code = by_name.get(_folded(aspect))
        if code is None:
            raise BadRow("unknown_criterion", f"aspect {aspect[:60]!r}; give --criteria, or --criteria none")
        return render_system([code], known)

    return choose


def _criteria(criteria_file: str) -> tuple[Criterion, ...]:
    from labelers.commits.criteria import load

    return load(criteria_file)


def _prompts(criteria_file: str) -> list[str]:
    """The prompts that rows can get, for a key: it changes with them."""
    from labelers.commits.system_prompts import render_system

    known = _criteria(criteria_file)
    return [render_system([one.code], known) for one in known]


def _folded(name: str) -> str:
    """A criterion's name without what data sets spell differently: `Readability_Maintainability`."""
    return " ".join(word for word in re.findall(r"[a-z0-9]+", name.lower()) if word != "and")


def run_of(run_dir: Path) -> Path | None:
    """The run directory, where there is one."""
    return run_dir if (run_dir / "run.json").exists() else None


def model_of(run_dir: Path, given: Given, flags: Flags) -> tuple[str | Path, Recipe, Path | None]:
    """The model, the recipe that its criteria stand in, and the run directory if there is one."""
    root = run_of(run_dir)
    saved = run_dir / "recipe.toml"
    start = flags.recipe or (saved if root and saved.exists() else None)
    recipe = (Recipe.load(start) if start else Recipe()).override(flags.settings or [])
    if root is not None and given.model in NAMES:
        return _of_run(root / "models" / given.model), recipe, root
    if given.model is not None:
        folder = Path(given.model)
        if not folder.is_dir() and (folder.is_absolute() or given.model.count("/") != 1):
            raise AssayError(f"{given.model}: no such model folder")
        return (folder if folder.is_dir() else given.model), recipe, root
    if root is None:
        raise AssayError(f"{run_dir}: no run directory, so no model of its own; give --model FOLDER")
    return _of_run(model_dir(RunDir.open(root))), recipe, root


def _of_run(model: Path) -> Path:
    if not recorded(model / "run.json"):
        raise AssayError(f"{model}: no trained model yet; run `assay train` first, or give --model FOLDER")
    return model


def _loaded(model: str | Path) -> Scorer:
    try:
        from trainers.score import Scorer
    except ModuleNotFoundError as error:
        raise no_torch(error) from None
    return Scorer(model)


def _verifier(model: str | Path, max_length: int) -> TrajectoryVerifier:
    from trainers.verify import TrajectoryVerifier

    return TrajectoryVerifier(model, max_length=max_length)


def no_torch(error: ModuleNotFoundError) -> AssayError:
    """What to install where a package that a model needs is missing."""
    return AssayError(
        f"a model needs {error.name}: install assay with its extra, `pip install 'assay[train]'`"
    )


def _options(flags: Flags, given: Given) -> Any:
    from trainers.scoring import Options

    return Options(given.batch_size, given.max_length, given.part_rows, flags.limit)


def _code() -> str:
    from assay.stages import code_digest

    libraries = ("torch", "transformers", "tokenizers")
    try:
        return code_digest(("trainers", "schemas"), libraries)
    except ModuleNotFoundError as error:
        raise no_torch(error) from None


def seed_of(flags: Flags, recipe: Recipe) -> int:
    """The seed that is asked for, else the recipe's."""
    return recipe.seed if flags.seed is None else flags.seed


def beside(root: Path | None, name: str) -> Path:
    """Where a run keeps results of an evaluation.

    Raises:
        AssayError: there is no run.
    """
    if root is None:
        raise AssayError("no run directory to write into; give --out FOLDER")
    return root / "evaluations" / name


def _needs_files(given: Given, what: str) -> None:
    if not given.files:
        raise AssayError(f"{what} needs files: assay {what} FILE...")


def numbers(text: str) -> list[int]:
    """The numbers of `--k`.

    Raises:
        AssayError: they are none, or not from 1.
    """
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [0]
    if any(k < 1 for k in found):
        raise AssayError(f"--k {text!r}: give whole numbers from 1, with commas between")
    return found


def _remove(out: Path, *patterns: str) -> None:
    for path in (path for pattern in patterns for path in out.glob(pattern)):
        path.unlink()


def _write(out: Path, found: Mapping[str, Any]) -> None:
    from schemas.shards import write_text

    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "results.json", json.dumps(found, indent=2, allow_nan=False) + "\n")


def _headline(found: Mapping[str, Any]) -> str:
    dropped = _cut(found) + drops(found["dropped"])
    if "overall" not in found:
        score = found["score"] if "score" in found else found["mean"]
        return f"{found['layout']} {_shown(score)} on {found['scored']:,} prompts{dropped}"
    overall = found["overall"]
    ties = f"; {overall['ties']:,} ties" if overall["ties"] else ""
    return (
        f"accuracy {_shown(overall['accuracy_ties_half'])}{ends(overall['ci95'])}, strict "
        f"{_shown(overall['accuracy'])}{ends(overall['strict_ci95'])}, on {found['scored']:,} pairs"
        f"{dropped}{ties}"
    )


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def ends(interval: Sequence[float] | None) -> str:
    """An interval as it stands behind its figure."""
    return "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"


def _cut(found: Mapping[str, Any]) -> str:
    return f", {found['cut']:,} of them cut to fit" if found["cut"] else ""


def drops(dropped: Mapping[str, int]) -> str:
    """What was left out, as it stands at the end of a line."""
    if not dropped:
        return ""
    return f" ({', '.join(f'{count:,} x {reason}' for reason, count in sorted(dropped.items()))})"


@contextlib.contextmanager
def watched(flags: Flags, what: str, unit: str = "rows") -> Iterator[Meter]:
    """What shows on standard error how far work is; gone when it ends."""
    view = observer(flags.as_json)
    try:
        yield Meter(view, what, unit)
    finally:
        view.closed()


def tell(flags: Flags, found: Mapping[str, Any], line: str) -> None:
    """Print results: a line for a person, or one JSON object."""
    print(json.dumps(found, sort_keys=True) if flags.as_json else line)
