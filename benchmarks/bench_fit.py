"""Share of edits that a model of 4,096 tokens can read, as whole files and as excerpts, by language.

    python benchmarks/bench_fit.py --repo PATH [--repo PATH ...]

Up to 1,000 edits of each repository that `select` keeps, spread over its history. An edit fits when its
longer side does. Its excerpt fits when it parses too (as far as the whole files do), and an edit when all
of its pieces fit. Processor time is given as a multiple of what it takes just to parse both versions with
tree-sitter.
"""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

from common import cores, cpu_seconds, repositories

from decompose.definition_types import SYNTAX
from decompose.grammars import parse
from miner.config import CutConfig, MineConfig, SelectConfig
from miner.edits import mine_unit, plan_mine
from miner.excerpts import excerpts
from miner.filters import judge
from schemas.declare import as_row
from schemas.stage import Keep

MOST = 1000
TOKENS = 4096


def selected(repo: Path) -> list[dict[str, Any]]:
    """Edits of a repository, every n-th so that there are at most `MOST`."""
    found = []
    for unit in plan_mine(MineConfig(), [repo], None):
        for outcome in mine_unit(MineConfig(), unit):
            if isinstance(outcome, Keep):
                row = as_row(outcome.records[0])
                if row["language"] in SYNTAX and judge(SelectConfig(), row) is None:
                    found.append(row)
    return found[:: -(-len(found) // MOST)] if found else []


def main() -> None:
    """Print a line a language and one for all."""
    config = CutConfig(max_tokens=TOKENS)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for repo in repositories("edits that fit, as files and as excerpts"):
        for edit in selected(repo):
            began = cpu_seconds()
            trees = [
                parse(edit[side].encode(), edit["language"]) for side in ("old_contents", "new_contents")
            ]
            parsed = cpu_seconds()
            pieces = excerpts(edit, config)
            ended = cpu_seconds()
            whole = not any(tree.root_node.has_error for tree in trees)
            for count in (counts[edit["language"]], counts["all"]):
                count["edits"] += 1
                count["pieces"] += len(pieces)
                count["files fit"] += pieces[0].file_tokens <= TOKENS
                count["excerpts fit"] += all(one.parses and one.tokens <= TOKENS for one in pieces)
                count["file tokens"] += pieces[0].file_tokens
                count["excerpt tokens"] += max(one.tokens for one in pieces)
                count["files parse"] += whole
                count["both parse"] += whole and all(one.parses for one in pieces)
                count["parse"] += all(one.parses for one in pieces)
                count["us parsing"] += round(1e6 * (parsed - began))
                count["us cutting"] += round(1e6 * (ended - parsed))
    print(f"{cores()}; longer side of an edit; an excerpt fits when it parses as far as its files do")
    for language, n in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        edits = n["edits"]
        clean = f"{n['both parse'] / max(1, n['files parse']):.2%} of {n['files parse']:,}"
        print(
            f"{language}: {edits:,} edits; within {TOKENS:,} tokens {n['files fit'] / edits:.1%} of files,",
            f"{n['excerpts fit'] / edits:.1%} of excerpts;",
            f"mean tokens {n['file tokens'] / edits:,.0f} and {n['excerpt tokens'] / edits:,.0f};",
            f"excerpts parse {n['parse'] / edits:.2%} (of files without error {clean});",
            f"{n['pieces'] / edits:.3f} pieces an edit;",
            f"{n['us cutting'] / edits / 1000:.1f} CPU ms an edit,",
            f"{n['us cutting'] / n['us parsing']:.1f} x parsing",
        )


if __name__ == "__main__":
    main()
