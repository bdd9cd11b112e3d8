"""A whole run over a real history with a judge that fails, and what became of rows, calls and money.

    python benchmarks/bench_judges.py --repo PATH [--limit N]

The history is mined and labelled once. Then, on copies of that run: (a) `build` with a judge that never
fails, and what its dry run foretold; (b) `build` with one whose first attempts go wrong in ten ways, killed
in the middle several times, under budgets that are too small at first; (c) `build` by replay of (a)'s calls,
with no server there. Prints whether all made the same rows, what was paid twice, by how much the budget was
missed, and how near the forecast came. An answer that was under way when a process was killed is lost, and is
the only kind that may be asked for again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import ROOT, cores

from labelers.llm.store import totals
from schemas.rundir import RunDir

TABLES = ("votes", "instructions", "pairs")
PRICE = {"price_in": 0.2, "price_out": 0.6}


def assay(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", *map(str, words)], cwd=ROOT, text=True, capture_output=True
    )
    if check and done.returncode:
        raise SystemExit(f"assay {words[0]}: {done.stderr}")
    return done


@contextlib.contextmanager
def server(*words: str) -> Iterator[int]:
    """The stand-in for a model in a process of its own; its port."""
    script = Path(__file__).with_name("judging_server.py")
    process = subprocess.Popen([sys.executable, script, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def counts(port: int) -> dict[str, Any]:
    """What the server has answered."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts") as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def rows(root: Path) -> dict[str, list[Any]]:
    """All rows of the tables that models have a part in, and the verdicts."""
    run = RunDir.open(root)
    return {table: list(run.rows(table)) for table in (*TABLES, "verdicts")}


def settings(port: int | None, budget: float, replay: Path | None = None) -> list[str]:
    """The judge as flags."""
    model: dict[str, Any] = {
        "model": "stand-in",
        "timeout_s": 5.0,
        "retries": 6,
        "budget_usd": budget,
        **PRICE,
    }
    model |= {"concurrency": 32, "max_tokens": 400}
    model |= {"base_url": f"http://127.0.0.1:{port}/v1"} if port else {"replay": str(replay)}
    return [word for name, value in model.items() for word in ("--set", f"model.{name}={json.dumps(value)}")]


def foretold(stage: str, root: Path, port: int) -> float:
    """US dollars that a dry run says the stage is going to cost."""
    told = json.loads(assay(stage, "--run-dir", root, *settings(port, 0), "--dry-run", "--json").stdout)
    cost: float = told["stages"][0]["model_cost_usd"]
    return cost


def spent(root: Path) -> float:
    """US dollars that the run has spent."""
    path = root / "calls.sqlite"
    cost: float = totals(path)["cost_usd"] if path.exists() else 0.0
    return cost


def judged(root: Path, port: int, pilot: int) -> dict[str, tuple[float, float, float, float]]:
    """(a): a judge that never fails. Stage -> what a dry run foretold and what came, blind and not."""
    found = {}
    for stage in ("split", "cut", "evidence"):
        assay(stage, "--run-dir", root)
    for stage in ("vote", "instruct"):
        blind, before = foretold(stage, root, port), spent(root)
        assay(stage, "--run-dir", root, *settings(port, 0), "--limit", pilot)
        informed, between = foretold(stage, root, port), spent(root)
        assay(stage, "--run-dir", root, *settings(port, 0))
        found[stage] = (blind, spent(root) - before, informed, spent(root) - between)
    assay("build", "--run-dir", root, *settings(port, 0))
    return found


def stormy(root: Path, port: int, whole: float, seed: int, kills: int) -> tuple[int, float]:
    """(b): a judge that fails, a process that is killed, budgets that grow; kills and worst overspending."""
    drawn, killed, over = random.Random(seed), 0, 0.0
    budgets = [0.15 * whole, 0.4 * whole, 0.0]
    while True:
        words = ["build", "--run-dir", root, *settings(port, budgets[0])]
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *map(str, words)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, told = process.communicate(timeout=drawn.uniform(6, 25) if killed < kills else None)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
            told = ""
        if (root / "calls.sqlite").exists() and budgets[0]:
            cost = totals(root / "calls.sqlite")
            over = max(over, cost["cost_usd"] + cost["lost_usd"] - budgets[0])
        if process.returncode == 0:
            return killed, over
        if "budget" in told:
            budgets.pop(0)
        elif told and process.returncode > 0:
            print(told, file=sys.stderr)
            raise SystemExit("the stormy run ended with an error")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True, help="git repository")
    parser.add_argument("--limit", type=int, default=400, help="labels to put before the judge, at most")
    parser.add_argument("--pilot", type=int, default=20, help="labels asked about before a second dry run")
    parser.add_argument("--kills", type=int, default=4, help="how often the stormy run is killed")
    given = parser.parse_args()
    print(f"{cores()}; {given.repo}")
    with tempfile.TemporaryDirectory(prefix="assay-judges-") as folder:
        base = Path(folder) / "base"
        assay("mine", given.repo, "--run-dir", base)
        assay("label", "--run-dir", base, "--limit", given.limit, "--set", 'split.by="file"')
        calm, storm, again = (Path(shutil.copytree(base, base.with_name(name))) for name in "abc")
        with server() as port:
            began = time.monotonic()
            told = judged(calm, port, given.pilot)
            seconds, asked = time.monotonic() - began, counts(port)
        expected, whole = rows(calm), spent(calm)
        made = ", ".join(f"{len(found):,} {table}" for table, found in expected.items())
        print(f"undisturbed: {made}; {asked['answered']:,} answers, ${whole:.4f}, {seconds:.0f} s")
        print(f"  {asked['twice']} of the answers were of requests answered before")
        for stage, (blind, all_of_it, informed, rest) in told.items():
            for how, said, came in (("blind", blind, all_of_it), ("after a pilot", informed, rest)):
                off = abs(said / came - 1) if came else 0.0
                print(f"  {stage}, {how}: dry run ${said:.4f}, came ${came:.4f}, {off:.1%} apart")
        with server("--storm") as port:
            killed, over = stormy(storm, port, whole, 7, given.kills)
            asked = counts(port)
        cost = totals(storm / "calls.sqlite")
        same = rows(storm) == expected
        print(f"stormy: killed {killed} times; rows equal: {same}; spoilt {asked['spoilt']}")
        print(f"  {asked['twice']} of {asked['answered']:,} answers were of requests answered before")
        print(f"  over the budget by ${max(0.0, over):.4f}; ${cost['cost_usd']:.4f} for answers, and")
        print(f"  at most ${cost['lost_usd']:.4f} for those that never came")
        assay("build", "--run-dir", again, *settings(None, 0, calm / "calls.sqlite"))
        print(f"replay: rows equal: {rows(again) == expected}, with no server there")


if __name__ == "__main__":
    main()
