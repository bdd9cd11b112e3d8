"""Settings of the miner's stages, as they stand in a recipe: plain scalars and tuples of strings.

A settings object is part of its stage's task key, so a changed value makes the stage run again.
Making one raises `AssayError` naming the field when a value makes no sense.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import Literal

from schemas.errors import AssayError

LANGUAGES = (
    "Python",
    "JavaScript",
    "Java",
    "Go",
    "C",
    "C++",
    "C#",
    "Ruby",
    "TypeScript",
    "Rust",
    "PHP",
    "Kotlin",
    "Scala",
    "Swift",
)
"""Languages that the miner knows, in the spelling of the `language` column."""

MAX_MESSAGE_CHARS = 65_536
"""Longest commit message that may be kept: a unit's messages are in memory at once."""


def _at_least(stage: str, config: object, bounds: dict[str, int]) -> None:
    for name, bound in bounds.items():
        value = getattr(config, name)
        if value < bound:
            raise AssayError(f"{stage}.{name}: {value} is too small; give at least {bound}")


@dataclasses.dataclass(frozen=True)
class RepositoriesConfig:
    """Where stars, issues and forks of repositories come from, beside files of metadata.

    Attributes:
        forge: ask the forges of the repositories: github.com, gitlab.com, codeberg.org.
        forge_url: API of an own forge to ask as well, such as `https://git.example.org/api/v4`.
        forge_timeout: seconds to wait for one answer.
        forge_wait: most seconds to wait when a forge asks for a pause; a longer one ends the questions to it.
    """

    forge: bool = False
    forge_url: str = ""
    forge_timeout: int = 20
    forge_wait: int = 120

    def __post_init__(self) -> None:
        _at_least("repositories", self, {"forge_timeout": 1, "forge_wait": 0})


@dataclasses.dataclass(frozen=True)
class MineConfig:
    """Which commits become edits.

    Attributes:
        languages: languages of the files to keep.
        commits_per_unit: commits of one unit of work. Another value gives other shards, never other edits.
        max_file_bytes: a file that is larger before or after the commit is dropped.
        min_message_chars: the stripped message must be longer than this.
        max_message_chars: the stripped message must be shorter than this.
        drop_low_signal: drop commits whose message says nothing about the change, such as "wip".
        drop_vendored: drop files below folders of other people's code, such as node_modules.
        drop_generated: drop files that say that a program wrote them, and minified ones.
        branches: names or shell patterns of branches that are mined beside HEAD, such as `release/*`.
        revert_window: an edit counts as reverted when one of that many commits after it puts the old file
            back; 0 goes by messages alone.
        companions: `none` keeps commits of one file; `tests` also those whose other files are all tests,
            documents, changelogs or examples.
    """

    languages: tuple[str, ...] = LANGUAGES
    commits_per_unit: int = 1000
    max_file_bytes: int = 1_000_000
    min_message_chars: int = 10
    max_message_chars: int = 15_000
    drop_low_signal: bool = True
    drop_vendored: bool = True
    drop_generated: bool = True
    branches: tuple[str, ...] = ()
    revert_window: int = 200
    companions: Literal["none", "tests"] = "none"

    def __post_init__(self) -> None:
        _at_least(
            "mine",
            self,
            {
                "commits_per_unit": 1,
                "max_file_bytes": 1,
                "min_message_chars": 0,
                "max_message_chars": 1,
                "revert_window": 0,
            },
        )
        if self.max_message_chars > MAX_MESSAGE_CHARS:
            raise AssayError(
                f"mine.max_message_chars: {self.max_message_chars} is too large; give at most "
                f"{MAX_MESSAGE_CHARS}"
            )
        if not self.languages:
            raise AssayError(f"mine.languages: empty; give some of {', '.join(LANGUAGES)}")
        for name in self.languages:
            if name not in LANGUAGES:
                raise AssayError(
                    f"mine.languages: {name!r} is not known; give some of {', '.join(LANGUAGES)}"
                )


@dataclasses.dataclass(frozen=True)
class FetchConfig:
    """How repositories given as URLs are fetched. It decides no edit, so it is in no task key.

    Attributes:
        cache: folder of fetched repositories; empty for `$ASSAY_CACHE/repositories`, else the user's cache.
        update: ask the server for what is new; false mines what the cache holds.
        stall_s: seconds without a sign of life after which a server is given up.
        timeout_s: seconds that one request may last.
        attempts: how often a request is made before it counts as failed.
        max_pack_gb: GiB that one file of a fetched repository may have.
    """

    cache: str = ""
    update: bool = True
    stall_s: int = 120
    timeout_s: int = 14_400
    attempts: int = 3
    max_pack_gb: int = 50

    def __post_init__(self) -> None:
        _at_least("fetch", self, {"stall_s": 1, "timeout_s": 1, "attempts": 1, "max_pack_gb": 1})


@dataclasses.dataclass(frozen=True)
class SelectConfig:
    """Which edits go on to be labelled.

    Attributes:
        message_languages: ISO 639 codes of the languages that messages may be in; empty for any. A message
            whose language cannot be told is kept.
        min_file_chars: the longer side must have at least this many characters.
        max_file_chars: neither side may have more characters.
        min_tokens: the longer side must have at least this many estimated tokens.
        max_tokens: the longer side may have no more estimated tokens; 0 for no bound.
        max_changed_lines: lines added plus lines removed may not be more.
        max_hunks: changed regions may not be more.
        min_syntax_depth: levels that the syntax trees of both sides must have.
        syntax_errors: drop edits that break a file that parsed: `trusted` where the grammar accepts nearly
            all real code (Python, JavaScript, Java, Go, PHP), `all` in every language, `none` nowhere.
        drop_comment_only: drop edits that change nothing but comments, or docstrings of Python.
        drop_format_only: drop edits that change nothing but how the code is laid out.
        drop_personal_data: drop edits with an e-mail address of a person in their changed lines.
        drop_bots: drop edits of known bots.
        drop_reverted: drop edits that a later commit reverts.
        drop_ai_assisted: drop edits whose message names an assistant.
        require_merged: drop edits without a sign of review (`merged_by` is null).
        licenses: SPDX ids to keep, or `permissive` for all permissive ones; empty keeps all, an unknown
            licence too. The file's own header goes before the repository's licence.
        reputation: which repositories the three least numbers are for: `remote` for those that were fetched
            from a URL, `all`, or `none`. What is not known drops nothing.
        min_stars: least stars of a repository.
        min_contributors: least contributors.
        min_issues: least issues, open and closed.
    """

    message_languages: tuple[str, ...] = ("en",)
    min_file_chars: int = 40
    max_file_chars: int = 200_000
    min_tokens: int = 10
    max_tokens: int = 0
    max_changed_lines: int = 400
    max_hunks: int = 40
    min_syntax_depth: int = 3
    syntax_errors: Literal["trusted", "all", "none"] = "trusted"
    drop_comment_only: bool = False
    drop_format_only: bool = True
    drop_personal_data: bool = True
    drop_bots: bool = True
    drop_reverted: bool = True
    drop_ai_assisted: bool = False
    require_merged: bool = False
    licenses: tuple[str, ...] = ()
    reputation: Literal["remote", "all", "none"] = "remote"
    min_stars: int = 15
    min_contributors: int = 5
    min_issues: int = 10

    def __post_init__(self) -> None:
        least = {"max_file_chars": 1, "max_changed_lines": 1, "max_hunks": 1}
        zero = ("min_file_chars", "min_tokens", "max_tokens", "min_syntax_depth")
        counts = ("min_stars", "min_contributors", "min_issues")
        _at_least("select", self, dict.fromkeys((*zero, *counts), 0) | least)
        # Tables of names are read only for those who give some.
        if self.message_languages not in ((), ("en",)):
            _check_languages(self.message_languages)
        if self.licenses:
            _check_licenses(self.licenses)


def _check_languages(codes: tuple[str, ...]) -> None:
    from miner import spoken

    for code in codes:
        if code not in spoken.LANGUAGES:
            known = " ".join(sorted(spoken.LANGUAGES))
            raise AssayError(f"select.message_languages: {code!r} is not known; give some of {known}")


def _check_licenses(names: tuple[str, ...]) -> None:
    from miner.spdx import normalize

    for name in names:
        if name != "permissive" and normalize(name) is None:
            raise AssayError(
                f"select.licenses: {name!r} is no SPDX id; give some such as MIT, or permissive for all such"
            )


@dataclasses.dataclass(frozen=True)
class DedupConfig:
    """Which edits count as duplicates.

    Attributes:
        threshold: Jaccard similarity of the changes, and of the files on both sides, from which two edits are
            near-duplicates; below 0.6 some pairs are missed.
        min_patch_chars: a patch of fewer changed characters, white space left out, is the same as another
            only if both were written in the same second or one message names the other's commit.
    """

    threshold: float = 0.75
    min_patch_chars: int = 64

    def __post_init__(self) -> None:
        """Refuse a threshold that is no similarity."""
        _at_least("dedup", self, {"min_patch_chars": 0})
        if not 0 < self.threshold <= 1:
            raise AssayError(f"dedup.threshold: {self.threshold} must be above 0 and at most 1")


@dataclasses.dataclass(frozen=True)
class CutConfig:
    """How an edit's changed functions are cut out of its file.

    Attributes:
        max_tokens: estimated tokens of the longer side that an excerpt should not pass; an excerpt that
            cannot be made as short without breaking its syntax stays longer.
        split_purposes: when an edit becomes one excerpt a purpose: `told` where its regions do not hang
            together and its message tells of each, `apart` wherever they do not hang together, or `never`.
    """

    max_tokens: int = 4096
    split_purposes: Literal["told", "apart", "never"] = "told"

    def __post_init__(self) -> None:
        _at_least("cut", self, {"max_tokens": 64})


@dataclasses.dataclass(frozen=True)
class DecontaminateConfig:
    """Which edits hold the text of a benchmark, and when two texts have too much in common.

    Attributes:
        benchmarks: files of benchmarks (.parquet, .jsonl, .jsonl.gz) or folders of them; empty compares
            with none.
        columns: columns of the benchmarks that are compared; empty takes every one that holds text.
        n: words of an n-gram.
        min_shared: distinct n-grams in common from which two texts overlap.
        min_share: share of a short text's n-grams from which two overlap, when that is fewer.
        common_files: n-grams in more of the run's own files than this do not count.
        sampled_files: files of the run that are looked at, at most, for what is common.
        max_row_bytes: a longer row of a benchmark is not read, and counted as bad.
    """

    benchmarks: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    n: int = 13
    min_shared: int = 10
    min_share: float = 0.5
    common_files: int = 10
    sampled_files: int = 2000
    max_row_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        bounds = {"n": 1, "min_shared": 1, "common_files": 1, "sampled_files": 0, "max_row_bytes": 1}
        _at_least("decontaminate", self, bounds)
        if not 0 < self.min_share <= 1:
            raise AssayError(
                f"decontaminate.min_share: {self.min_share} must be above 0 and at most 1, such as 0.5"
            )


def seconds_of(name: str, text: str) -> int | None:
    """An ISO date or time (UTC unless it says otherwise) in seconds since 1970; None for an empty one.

    Raises:
        AssayError: it is neither; names the setting.
    """
    if not text:
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=datetime.UTC)
        return int(found.timestamp())
    except (ValueError, OverflowError):
        raise AssayError(f"split.{name}: {text!r} is no date; give one such as 2021-06-30") from None


@dataclasses.dataclass(frozen=True)
class SplitConfig:
    """How edits are told apart into train and test.

    Attributes:
        by: what never stands in both: a repository with its forks, a file of one, or a commit.
        test_share: expected share of these in test, 0 to 1.
        min_patch_lines: repositories that share a patch of at least this many changed lines stay together.
        train_until: train has what was committed before this date (UTC); empty for any time.
        test_from: test has what was committed on this date or later; empty for `train_until`.
        test_until: test has what was committed before this date; empty for no end.
    """

    by: Literal["repo", "file", "commit"] = "repo"
    test_share: float = 0.1
    min_patch_lines: int = 3
    train_until: str = ""
    test_from: str = ""
    test_until: str = ""

    def __post_init__(self) -> None:
        _at_least("split", self, {"min_patch_lines": 1})
        if not 0 <= self.test_share <= 1:
            raise AssayError(f"split.test_share: {self.test_share} is not a share; give 0 to 1")
        names = ("train_until", "test_from", "test_until")
        train_until, test_from, test_until = (seconds_of(name, getattr(self, name)) for name in names)
        start = test_from if test_from is not None else train_until
        if test_until is not None and start is None:
            raise AssayError("split.test_until: give train_until or test_from with it")
        if train_until is not None and start is not None and start < train_until:
            raise AssayError("split.test_from: before train_until, so test would hold what train has")
        if test_until is not None and start is not None and test_until <= start:
            raise AssayError("split.test_until: not after the beginning of test, so test would be empty")


@dataclasses.dataclass(frozen=True)
class ImportConfig:
    """How published problems and trajectories are read.

    Attributes:
        rows_per_part: rows of one unit of work, and so of one shard.
        max_row_bytes: a longer line, or a longer trajectory file, is dropped unread.
        license: SPDX id to put on every imported problem; empty for what the row or the set's card says.
        test_share: share of task instances whose trajectories go into the test split, 0 to 1.
        format: format of the problem files; `auto` tells it by the fields of a file's first good row.
        solution_field: field that holds the solution where a set publishes none (LiveCodeBench).
        languages: languages of solutions to read, such as `Python`; empty for all that a set has.
        max_languages: problems that one row may become, one a language.
        max_references: most solutions kept of one problem beside the first.
        max_tests: most calls or pairs of input and output kept of one problem. A set's own and public ones
            come first, then a draw of the others.
        hub_max_gb: GiB of rows that are taken from one dataset on the Hub.
    """

    rows_per_part: int = 16
    max_row_bytes: int = 64 << 20
    license: str = ""
    test_share: float = 0.1
    format: Literal[
        "auto",
        "humaneval",
        "humaneval+",
        "mbpp",
        "mbpp+",
        "bigcodebench",
        "kodcode",
        "apps",
        "taco",
        "codecontests",
        "livecodebench",
        "verifiable",
        "plain",
    ] = "auto"
    solution_field: str = "solution"
    languages: tuple[str, ...] = ()
    max_languages: int = 4
    max_references: int = 4
    max_tests: int = 100
    hub_max_gb: int = 20

    def __post_init__(self) -> None:
        bounds = dict.fromkeys(
            ("rows_per_part", "max_row_bytes", "max_languages", "max_tests", "hub_max_gb"), 1
        )
        _at_least("importing", self, {**bounds, "max_references": 0})
        if not 0 <= self.test_share <= 1:
            raise AssayError(f"importing.test_share: {self.test_share} is not a share; give 0 to 1")
        for name in self.languages:
            if name not in LANGUAGES:
                raise AssayError(
                    f"importing.languages: {name!r} is not known; give some of {', '.join(LANGUAGES)}"
                )


@dataclasses.dataclass(frozen=True)
class PreferencesConfig:
    """How published preference sets are read.

    Attributes:
        format: format of the files; `auto` tells it by the fields of a file's first good row.
        name: what the sets are called as the source of their labels; empty for the file's or dataset's name.
        license: SPDX id to put on every pair; empty for what a row says of itself.
        aspect: aspect of pairs whose set names none.
        language_names: what the numbers of a column `language` stand for, in order, where a file holds
            numbers and does not say it.
        aspect_names: likewise for the column `aspect`.
        fences: where no programming language is given, take that of the fenced code in the chosen answer.
        score: which of the published scores decides, where a set has several; `auto` takes the mean of the
            ratings of UltraFeedback and the helpfulness of HelpSteer.
        min_margin: least difference of both scores, on the set's own scale; pairs without scores are kept.
        answers: pairs of a prompt with several answers: `one`, the best with the worst, or `all` of a better
            and a worse one.
        max_pairs: most pairs of one prompt.
        max_text_bytes: a pair with a longer text is dropped.
        split: `auto` follows what a row, or the name of a split after `hub:`, says, puts benchmarks into
            test, and draws for the rest; `seeded` draws for all; `train` and `test` put all there.
        test_share: share of prompts that are drawn for test, 0 to 1.
        rows_per_part: rows of one unit of work, and so of one shard.
        max_row_bytes: a longer row is dropped unread.
        hub_max_gb: GiB of rows that are taken from one dataset on the Hub.
    """

    format: Literal[
        "auto",
        "pairs",
        "themis",
        "coderewardbench",
        "helpsteer-preference",
        "helpsteer",
        "ultrafeedback",
        "ultrafeedback-binarized",
        "rewardbench2",
        "rewardbench",
        "tulu",
        "skywork",
        "hh",
        "plain",
    ] = "auto"
    name: str = ""
    license: str = ""
    aspect: str = "Helpfulness"
    language_names: tuple[str, ...] = ()
    aspect_names: tuple[str, ...] = ()
    fences: bool = True
    score: Literal[
        "auto",
        "overall",
        "mean",
        "helpfulness",
        "correctness",
        "coherence",
        "complexity",
        "verbosity",
        "honesty",
        "instruction_following",
        "truthfulness",
    ] = "auto"
    min_margin: float = 0.0
    answers: Literal["one", "all"] = "one"
    max_pairs: int = 16
    max_text_bytes: int = 1_000_000
    split: Literal["auto", "seeded", "train", "test"] = "auto"
    test_share: float = 0.1
    rows_per_part: int = 1000
    max_row_bytes: int = 64 << 20
    hub_max_gb: int = 20

    def __post_init__(self) -> None:
        counts = ("rows_per_part", "max_row_bytes", "max_pairs", "max_text_bytes", "hub_max_gb")
        _at_least("preferences", self, dict.fromkeys(counts, 1))
        if not 0 <= self.test_share <= 1:
            raise AssayError(f"preferences.test_share: {self.test_share} is not a share; give 0 to 1")
        if not 0 <= self.min_margin < math.inf:
            raise AssayError(f"preferences.min_margin: {self.min_margin} is too small; give at least 0")
        if not self.aspect.strip():
            raise AssayError("preferences.aspect: empty; give one such as Helpfulness")
        if self.license:
            from miner.spdx import normalize

            if normalize(self.license) is None:
                raise AssayError(f"preferences.license: {self.license!r} is no SPDX id; give one such as MIT")
