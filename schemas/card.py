"""The dataset card of a run: README.md with YAML front matter, made from what the run holds.

In: a run directory with finished rows of a published table, the id of the dataset, the recipe's text.
Out: one Markdown text, the same for the same run. Nothing in it is written by hand: counts come from
the shards and sidecars, columns from the records' declarations.

Names that come from rows (languages, licences, labelers, reasons) are data of strangers. They are
printed as code spans without the characters that could end one, on one line, clipped, with unseen
characters written out. Paths of the machine stay off the card: `public_recipe` cuts them.

Errors: `ShardError` for a shard that cannot be read, `AssayError` for a recipe that is not TOML.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.card_evidence import EVIDENCE, pairs_counts
from schemas.card_text import LISTED, UNSEEN, code, grouped, markdown_table, plain, ranked
from schemas.declare import describe, schema_of
from schemas.errors import AssayError
from schemas.records import PAIR_TABLES, SPLIT_TABLES, TABLES
from schemas.rundir import SPLITS, Part, RunDir
from schemas.stage import rank

_TASKS = {
    **dict.fromkeys(PAIR_TABLES, ("text-ranking", "text-classification")),
    "steps": ("text-classification",),
    "trajectories": ("text-classification",),
}
_TAGS = {
    "pairs": ("preference",),
    "synthetic": ("preference", "synthetic"),
    "preferences": ("preference",),
    "steps": ("process-supervision",),
    "trajectories": ("agent", "trajectories"),
}
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
_LARGE = ((10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"))

# The Hub refuses a licence that it does not know by name: its own list, as far as code has them.
_HUB_LICENSES = (
    "afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 "
    "cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-4.0 cc0-1.0 ecl-2.0 epl-1.0 epl-2.0 "
    "eupl-1.1 eupl-1.2 gfdl gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit mpl-2.0 ms-pl ncsa odbl odc-by "
    "ofl-1.1 osl-3.0 pddl postgresql unlicense wtfpl zlib"
)

_PATH = re.compile(r"(?:[/~\\]|\.\.?[/\\]|[A-Za-z]:[/\\]|file:)")
_USER = re.compile(r"://[^/@\s]*@")


def _last(path: str) -> str:
    """The last component of a path or URL that names something."""
    parts = [part for part in re.split(r"[/\\]+", path.strip()) if part not in ("", ".", "..", "~", ".git")]
    return parts[-1] if parts else "."


def without_paths(value: Any, source: bool = False) -> Any:
    """A setting as `public_recipe` shows it; `source` says that each text in it is a path or URL."""
    if isinstance(value, list):
        return [without_paths(item, source) for item in value]
    if isinstance(value, dict):
        return {key: without_paths(item, source) for key, item in value.items()}
    if isinstance(value, str):
        return _last(value) if source or _PATH.match(value) else _USER.sub("://", value)
    return value


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    # A JSON string, number or boolean is the same in TOML; what a reader cannot see is escaped.
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def public_recipe(text: str, where: str = "recipe.toml") -> str:
    """A recipe without the paths of the machine that it ran on.

    Sources are cut to their last component, and so is any setting that is an absolute, home or
    dotted path; user names and passwords are taken out of URLs. All else stays as it is.

    Raises:
        AssayError: the text is not TOML.
    """
    try:
        recipe = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise AssayError(
            f"{where}: not valid TOML ({error}); run a stage with --recipe FILE to write it again"
        ) from None
    recipe = {key: without_paths(value, key == "sources") for key, value in recipe.items()}
    lines, tables = [], []
    for key, value in recipe.items():
        if isinstance(value, dict):
            tables += [f"\n[{_key(key)}]\n", *_lines(value)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [line for one in value for line in (f"\n[[{_key(key)}]]\n", *_lines(one))]
        else:
            lines.append(f"{_key(key)} = {_value(value)}\n")
    return "".join([*lines, *tables])


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}\n" for key, value in table.items()]


def published(run: RunDir) -> dict[str, dict[str, list[Part]]]:
    """The finished shards with rows of every published table: table -> split -> shards."""
    found: dict[str, dict[str, list[Part]]] = {}
    for table in SPLIT_TABLES:
        for split in SPLITS:
            if parts := [part for part in run.parts(table, split) if part.sidecar.rows]:
                found.setdefault(table, {})[split] = parts
    return found


def _record(table: str) -> type:
    return TABLES[table]


def _licenses(splits: Mapping[str, list[Part]], table: str) -> Counter[str | None]:
    if "license" not in schema_of(_record(table)).names:
        return Counter({None: sum(part.sidecar.rows for parts in splits.values() for part in parts)})
    parts = [part for found in splits.values() for part in found]
    return Counter({key[0]: rows for key, rows in grouped(parts, table, ["license"]).items()})


def _license_fields(counts: Counter[str | None]) -> dict[str, str]:
    known = [name for name in counts if name is not None]
    if len(counts) == 1 and known:
        hub = re.sub(r"-(only|or-later)$", "", known[0].lower())
        if hub in _HUB_LICENSES.split():
            return {"license": hub}
    ranked = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    listed = [
        f"{'not known' if name is None else plain(name)} ({rows:,} row{'s' if rows != 1 else ''})"
        for name, rows in ranked
    ]
    more = [f"{len(listed) - LISTED:,} others"] if len(listed) > LISTED else []
    return {
        "license": "other",
        "license_name": "mixed" if len(counts) > 1 else "not-listed" if known else "unknown",
        "license_details": "; ".join(listed[:LISTED] + more),
    }


def _size(rows: int) -> str:
    return next((name for bound, name in (*_SIZES, *_LARGE) if rows < bound), "10B<n<100B")


def _front_matter(
    tables: Mapping[str, Mapping[str, list[Part]]], name: str, licenses: Counter[str | None]
) -> str:
    import yaml

    rows = sum(part.sidecar.rows for splits in tables.values() for parts in splits.values() for part in parts)
    configs = [
        {
            "config_name": table,
            **({"default": True} if number == 0 else {}),
            "data_files": [{"split": split, "path": f"{table}/{split}/*.parquet"} for split in splits],
        }
        for number, (table, splits) in enumerate(tables.items())
    ]
    fields = {
        "pretty_name": name,
        **_license_fields(licenses),
        "language": ["code", "en"],
        "task_categories": list(dict.fromkeys(task for table in tables for task in _TASKS[table])),
        "size_categories": [_size(rows)],
        "tags": [
            "code",
            "reward-model",
            *dict.fromkeys(tag for one in tables for tag in _TAGS[one]),
            "assay",
        ],
        "configs": configs,
    }
    text: str = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=10**6)
    return f"---\n{text}---\n"


def _stages(run: RunDir) -> dict[str, tuple[int, int, Counter[str]]]:
    """Stage -> (rows in, rows kept, drops by reason), in the order in which data passes them."""
    found: dict[str, tuple[int, int, Counter[str]]] = {}
    for table in TABLES:
        for part in run.parts(table):
            if (accounting := part.sidecar.accounting) is None:
                continue
            rows_in, kept, drops = found.get(part.sidecar.stage, (0, 0, Counter[str]()))
            drops.update(accounting.drops)
            found[part.sidecar.stage] = (rows_in + accounting.rows_in, kept + accounting.kept, drops)
    return dict(sorted(found.items(), key=lambda item: rank(item[0])))


def _funnel(run: RunDir, reasons: Mapping[str, Mapping[str, str]]) -> str:
    stages = _stages(run)
    if not stages:
        return "The run's shards carry no accounting.\n"
    rows = [(code(stage), rows_in, kept, drops.total()) for stage, (rows_in, kept, drops) in stages.items()]
    text = markdown_table(("stage", "rows in", "kept", "dropped"), rows, right=3) + "\n"
    dropped = []
    for stage, (_, _, drops) in stages.items():
        meanings = reasons.get(stage, {})
        for reason, count in sorted(drops.items(), key=lambda item: (-item[1], item[0])):
            meaning = " ".join(meanings.get(reason, "").replace("|", "¦").split())
            dropped.append((code(stage), code(reason), meaning, count))
    if dropped:
        head = ("stage", "reason of the drop", "what it means", "rows")
        text += f"\n{markdown_table(head, dropped, right=1)}\n"
    return text


def _section(table: str, splits: Mapping[str, list[Part]], repo_id: str) -> str:
    parts = [part for found in splits.values() for part in found]
    record = TABLES[table]
    rows = [(split, sum(part.sidecar.rows for part in found), len(found)) for split, found in splits.items()]
    columns = [(f"`{name}`", kind, doc) for name, kind, doc in describe(record)]
    first = next(iter(splits))
    about = " ".join((record.__doc__ or "").split())
    text = [
        f"## {table}\n\n{about}\n",
        markdown_table(("split", "rows", "files"), rows, right=2) + "\n",
        f'```python\nfrom datasets import load_dataset\n\n{table} = load_dataset("{repo_id}", "{table}", '
        f'split="{first}")\n```\n',
    ]
    if table in PAIR_TABLES:
        text.append(pairs_counts(parts, table))
    elif table == "steps":
        languages = {key[0]: count for key, count in grouped(parts, table, ["language"]).items()}
        text.append(markdown_table(("language", "candidates"), ranked(languages), right=1) + "\n")
    text += [
        f"### Evidence\n\n{EVIDENCE[table](parts)}",
        f"### Columns\n\n{markdown_table(('column', 'type', 'what it is'), columns)}\n",
    ]
    return "\n".join(text)


def _limits(tables: Iterable[str], failed: Mapping[str, int], licenses: Counter[str | None]) -> str:
    lines = [
        "Contents are other people's work under their own licences, and they are not reviewed: files may "
        "hold defects, insecure code, personal data or offensive language."
    ]
    if "pairs" in tables:
        lines += [
            "A commit is evidence that its author preferred the new version, not proof that it is better; "
            "the criterion is an estimate, and `evidence` says whose.",
            "A pair shows one file. What else the repository held at that commit is not in the row.",
        ]
    if "synthetic" in tables:
        lines.append(
            "One version of a synthetic pair was made on purpose; `evidence.made_by` says how. Such faults "
            "are not distributed as those of people."
        )
    if "preferences" in tables:
        lines.append("Labels of imported pairs are taken over from their source and were not checked again.")
    if "steps" in tables:
        lines.append(
            "A step's label is as good as the unit tests of its function; tests taken from a reference "
            "share its mistakes."
        )
    if "trajectories" in tables:
        lines.append("Outcomes of trajectories are taken over from their source and were not run again.")
    if unknown := licenses.get(None):
        lines.append(f"The licence of {unknown:,} rows is not known.")
    lines += [
        f"Stage {code(stage)} failed on {count:,} of its units; their rows are missing."
        for stage, count in failed.items()
    ]
    return "".join(f"- {line}\n" for line in lines)


def failed_units(run: RunDir, tables: Mapping[str, Mapping[str, list[Part]]]) -> dict[str, int]:
    """Stage -> units that failed when it last ran, for the stages that made the published tables."""
    found = {}
    stages = {part.sidecar.stage for splits in tables.values() for parts in splits.values() for part in parts}
    for stage in sorted(stages):
        try:
            plan = run.read_plan(stage) or {}
        except (OSError, ValueError, RecursionError):
            plan = {}
        if isinstance(failed := plan.get("failed"), list) and failed:
            found[stage] = len(failed)
    return found


def dataset_card(
    run: RunDir, repo_id: str, recipe_text: str, reasons: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """README.md of a run as a dataset.

    Args:
        run: a run directory with finished rows of a published table.
        repo_id: `owner/name` of the dataset.
        recipe_text: the run's recipe as TOML; the card shows `public_recipe` of it.
        reasons: stage -> reason code of a drop -> the sentence that explains it.

    Raises:
        AssayError: there is nothing to publish, a shard cannot be read, or the recipe is not TOML.
    """
    tables = published(run)
    if not tables:
        raise AssayError(
            f"{run.root}: nothing to publish, since {', '.join(SPLIT_TABLES)} have no rows yet; "
            "run `assay build`, `assay verify` or another stage that makes them first"
        )
    recipe = public_recipe(recipe_text, str(run.root / "recipe.toml"))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", recipe)), default=0))
    licenses: Counter[str | None] = Counter()
    for table, splits in tables.items():
        licenses.update(_licenses(splits, table))
    name = repo_id.rpartition("/")[2]
    licence_table = markdown_table(("licence", "rows"), ranked(licenses), right=1)
    text = [
        _front_matter(tables, name, licenses),
        f"# {name}\n",
        "A dataset for code reward models, made by `assay` from "
        + _listed([_MADE_FROM[table] for table in tables])
        + ". This card is generated from the run that made the data.\n",
        *(_section(table, splits, repo_id) for table, splits in tables.items()),
        f"## What was kept and what was dropped\n\n{_funnel(run, reasons or {})}",
        f"## Licences\n\n{licence_table}\n",
        f"## Recipe\n\n`recipe.toml` beside this card, with paths cut to their last part:\n\n"
        f"{fence}toml\n{recipe}{fence}\n",
        f"## Limits\n\n{_limits(tables, failed_units(run, tables), licenses)}",
    ]
    return "\n".join(text)


def _listed(names: list[str]) -> str:
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"


_MADE_FROM = {
    "pairs": "the histories of git repositories",
    "synthetic": "programs with planted faults",
    "preferences": "published preference sets",
    "steps": "programming problems",
    "trajectories": "agent trajectories",
}
