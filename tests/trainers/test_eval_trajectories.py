"""Files of trajectories scored by a verifier, in parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from trajectory_helpers import planted, trajectory_shard

from schemas.errors import AssayError
from trainers import scoring, verify
from trainers.config import TrainConfig
from trainers.loop import train
from trainers.verify import TrajectoryVerifier, attempt_from

SETTINGS = {"objective": "yesno", "vocab_size": 512, "max_length": 512, "threads": 1, "max_steps": 6}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifier")
    rows = trajectory_shard(folder / "part-a.parquet", planted(40, 1))
    train(TrainConfig.from_mapping({**SETTINGS, "dev_share": 0.0}), [rows], folder / "verifier")
    return folder / "verifier"


def scored(model: Path, path: Path, out: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = scoring.score_files(
        lambda: TrajectoryVerifier(model),
        [path],
        out,
        lambda _: "",
        scoring.Options(part_rows=7),
        "key",
        columns=verify.COLUMNS,
    )
    return found, [row for part in sorted(out.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def test_each_row_gets_its_own_log_odds_and_bad_rows_cost_themselves_only(
    model: Path, tmp_path: Path
) -> None:
    rows = planted(20, 5)
    path = tmp_path / "rows.jsonl"
    bad = [{"id": "bad", "messages": "no list"}, {"id": "empty", "messages": []}]
    path.write_text("".join(json.dumps(row) + "\n" for row in (*rows[:3], *bad, *rows[3:])))
    found, made = scored(model, path, tmp_path / "out")
    assert (found["rows"], found["scored"], sum(found["dropped"].values())) == (22, 20, 2)
    verifier = TrajectoryVerifier(model)
    alone = [verifier.verify([attempt_from(row, 1)])[0] for row in rows]
    by_id = {row["id"]: row for row in made}
    for row, one in zip(rows, alone, strict=True):
        assert by_id[row["id"]]["score"] == pytest.approx(one.log_odds, abs=1e-4)
        assert by_id[row["id"]]["outcome"] == float(row["resolved"])
        assert by_id[row["id"]]["instance"] == row["instance_id"]


def test_a_second_run_makes_no_part_again(model: Path, tmp_path: Path) -> None:
    path = trajectory_shard(tmp_path / "part-a.parquet", planted(15, 6))
    first, _ = scored(model, path, tmp_path / "out")
    second, _ = scored(model, path, tmp_path / "out")
    assert (first["made"], second["made"]) == (3, 0)


def test_a_file_without_a_trajectory_is_refused(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": [{"role": "assistant", "content": "hi"}]}) + "\n")
    with pytest.raises(AssayError, match="none of 1 rows could be scored"):
        scored(model, path, tmp_path / "out")
