"""Bad input and bad machines: one clear line, exit status 2, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_runs import PROBLEM, Ran, assay, command, git, make_repo


def refused(ran: Ran, *says: str) -> None:
    """Exactly one line that says these things, and exit status 2."""
    assert ran.code == 2, ran.err
    assert ran.err.startswith("assay: ")
    assert ran.err.count("\n") == 1, ran.err
    assert "Traceback" not in ran.err
    for text in says:
        assert text in ran.err


def shards_in(run_dir: Path) -> list[str]:
    return [str(path) for path in run_dir.rglob("*") if path.suffix in (".parquet", ".tmp")]


def test_folder_that_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    refused(assay("mine", "plain", cwd=tmp_path), "plain", "repository")
    assert shards_in(tmp_path) == []


def test_missing_repository(tmp_path: Path) -> None:
    refused(assay("demo", "--repo", "nowhere", cwd=tmp_path), "nowhere")


def test_empty_repository(tmp_path: Path) -> None:
    git("init", "--quiet", tmp_path / "empty")
    refused(assay("mine", "empty", cwd=tmp_path), "empty", "no commit")


def test_shallow_clone(tmp_path: Path, repo: Path) -> None:
    git("clone", "--quiet", "--depth=3", f"file://{repo}", tmp_path / "shallow")
    refused(assay("mine", "shallow", cwd=tmp_path), "shallow", "--unshallow")


def test_no_repository_given(tmp_path: Path) -> None:
    refused(assay("mine", cwd=tmp_path), "no repos given")


def test_missing_problem_file(tmp_path: Path) -> None:
    refused(assay("problems", "nowhere.jsonl", cwd=tmp_path), "nowhere.jsonl")


def test_missing_benchmark(tmp_path: Path, repo: Path) -> None:
    assert assay("mine", repo, cwd=tmp_path).code == 0
    refused(assay("decontaminate", "--benchmark", "nowhere.jsonl", cwd=tmp_path), "nowhere.jsonl")


def test_date_that_is_none(tmp_path: Path, repo: Path) -> None:
    assert assay("mine", repo, cwd=tmp_path).code == 0
    refused(assay("split", "--train-until", "soon", cwd=tmp_path), "train_until", "'soon'")


def test_problem_file_without_a_well_formed_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{\nnot json\n")
    refused(assay("problems", "bad.jsonl", cwd=tmp_path), "bad.jsonl")
    assert shards_in(tmp_path) == []


def test_malformed_line_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text("not json\n" + json.dumps(PROBLEM) + "\n")
    ran = assay("problems", "mixed.jsonl", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    (stage,) = json.loads(ran.out)["stages"]
    assert (stage["rows_in"], stage["kept"], sum(stage["drops"].values())) == (2, 1, 1)


def test_problem_whose_reference_fails_its_own_suite_is_a_counted_drop(tmp_path: Path) -> None:
    wrong = {
        **PROBLEM,
        "task_id": "tiny/wrong",
        "test": "def check(candidate):\n    assert candidate([1]) == 4\n",
    }
    (tmp_path / "mixed.jsonl").write_text(json.dumps(wrong) + "\n" + json.dumps(PROBLEM) + "\n")
    assert assay("problems", "mixed.jsonl", cwd=tmp_path).code == 0
    ran = assay("decompose", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    (stage,) = json.loads(ran.out)["stages"]
    assert stage["drops"] == {"reference_fails_suite": 1}
    assert stage["kept"] == 1


@pytest.mark.parametrize("place", ["/proc/run", "/dev/null/run"])
def test_unwritable_run_directory(place: str, repo: Path) -> None:
    refused(assay("mine", repo, "--run-dir", place), place, "cannot be written")


def test_run_directory_of_another_version(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "run.json").write_text('{"format": 99}')
    refused(assay("mine", repo, "--run-dir", tmp_path), "another version")


def test_run_directory_that_holds_something_else(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    refused(assay("mine", repo, "--run-dir", tmp_path), "holds other files")


def test_stage_before_what_it_reads(tmp_path: Path, repo: Path) -> None:
    refused(assay("build", "--run-dir", tmp_path / "none"), "not a run directory")
    assert assay("mine", repo, "--run-dir", tmp_path / "run").code == 0
    refused(assay("build", "--run-dir", tmp_path / "run"), "verdicts/decontaminate lacks part")
    refused(assay("train", "--run-dir", tmp_path / "run"), "no pairs yet")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("split.tset_share=0.2", "did you mean 'test_share'"),
        ("split.test_share=much", "must be a number"),
        ("split.test_share=3", "give 0 to 1"),
        ("nonsense", "table.key=value"),
        ('mine.languages=["Cobol"]', "Cobol"),
    ],
)
def test_bad_setting(setting: str, says: str, tmp_path: Path, repo: Path) -> None:
    refused(assay("mine", repo, "--run-dir", tmp_path / "run", "--set", setting), says)


def test_bad_recipe_file(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "r.toml").write_text("seed = [")
    refused(assay("mine", repo, "--recipe", "r.toml", cwd=tmp_path), "r.toml", "not valid TOML")


def test_unknown_flag_is_a_usage_error(tmp_path: Path) -> None:
    ran = assay("mine", "--nonsense", cwd=tmp_path)
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_full_disk_is_told_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not installed")
    repository = make_repo(tmp_path / "project.git", 120)
    small = tmp_path / "small"
    small.mkdir()
    stage = [*command("mine", repository, "--run-dir", small / "run"), "--set", "mine.commits_per_unit=10"]
    # A file system of its own, a few pages too small for all shards, in a mount namespace of its own.
    script = """
        mount -t tmpfs -o size=200k none "$1"; shift
        "$@"; echo "first $?"
        find "$0" -name '*.tmp' | wc -l
        mount -o remount,size=50m none "$0" && "$@"; echo "second $?"
    """
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, str(small), str(small), *stage],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("this machine allows no user namespace with a mount in it")
    assert done.stdout.split() == ["first", "2", "0", "second", "0"], (done.stdout, done.stderr)
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_mistyped_source_does_not_stay_in_the_recipe(tmp_path: Path, repo: Path) -> None:
    refused(assay("mine", "typo", "--run-dir", tmp_path / "run"), "typo")
    ran = assay("mine", repo, "--run-dir", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "typo" not in (tmp_path / "run" / "recipe.toml").read_text()


@pytest.mark.parametrize("text", ["seed = " + "1" * 5000, "seed = " + "[" * 5000], ids=["digits", "nesting"])
def test_recipe_that_pythons_toml_reader_gives_up_on(text: str, tmp_path: Path, repo: Path) -> None:
    (tmp_path / "r.toml").write_text(text)
    refused(assay("mine", repo, "--recipe", "r.toml", cwd=tmp_path), "r.toml", "not valid TOML")
    setting = text.replace(" ", "")
    refused(assay("mine", repo, "--set", setting, cwd=tmp_path), "seed must be a whole number")


def test_endless_recipe(tmp_path: Path, repo: Path) -> None:
    refused(assay("mine", repo, "--recipe", "/dev/zero", cwd=tmp_path), "/dev/zero", "not a recipe")


def test_setting_of_two_lines_sets_nothing_else(tmp_path: Path, repo: Path) -> None:
    refused(assay("mine", repo, "--set", "seed=1\nlimit=2", cwd=tmp_path), "seed must be a whole number")


def test_name_that_is_not_utf8(tmp_path: Path) -> None:
    refused(assay("mine", os.fsdecode(b"r\xff"), cwd=tmp_path), "not UTF-8")


def test_name_that_is_too_long_for_the_file_system(tmp_path: Path, repo: Path) -> None:
    refused(assay("mine", repo, "--run-dir", "x" * 300, cwd=tmp_path), "File name too long")


def test_damaged_plan_is_told_by_status_and_mended_by_its_stage(tmp_path: Path, repo: Path) -> None:
    run_dir = tmp_path / "run"
    assert assay("mine", repo, "--run-dir", run_dir).code == 0
    for damage in ("{", "[]", '{"units": 3}'):
        (run_dir / "stages" / "mine.json").write_text(damage)
        refused(assay("status", "--run-dir", run_dir), "mine.json", "damaged")
    assert assay("mine", "--run-dir", run_dir).code == 0
    assert assay("status", "--run-dir", run_dir).code == 0


def test_shard_removed_by_hand_is_not_done(tmp_path: Path, repo: Path) -> None:
    run_dir = tmp_path / "run"
    assert assay("mine", repo, "--run-dir", run_dir).code == 0
    next((run_dir / "edits").glob("*.parquet")).unlink()
    told = json.loads(assay("status", "--run-dir", run_dir, "--json").out)["stages"]
    (mined,) = [one for one in told if one["stage"] == "mine"]
    assert (mined["units"], mined["done"]) == (1, 0)


def test_dry_run_of_a_new_run_names_the_folder_that_was_asked_for(tmp_path: Path, repo: Path) -> None:
    ran = assay("demo", "--repo", repo, "--dry-run", "--json", "--run-dir", "new", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["run_dir"] == "new"
    assert "assay-dry-run" not in ran.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", ["decontaminate.benchmarks", "label.criteria_file"])
def test_mistyped_file_of_a_later_stage_does_not_stay_in_the_recipe(
    tmp_path: Path, repo: Path, setting: str
) -> None:
    run = tmp_path / "run"
    assert assay("mine", repo, "--run-dir", run).code == 0
    value = '["typo.jsonl"]' if setting.endswith("s") else "typo.toml"
    wrong = assay("label", "--run-dir", run, "--set", f"{setting}={value}")
    assert (wrong.code, "typo" in wrong.err) == (2, True)
    assert "typo" not in (run / "recipe.toml").read_text()
    assert assay("label", "--run-dir", run).code == 0


def test_file_of_a_later_stage_stays_in_the_recipe_once_it_was_read(tmp_path: Path, repo: Path) -> None:
    run, benchmark = tmp_path / "run", tmp_path / "bench.jsonl"
    benchmark.write_text(json.dumps(PROBLEM))
    assert assay("mine", repo, "--run-dir", run).code == 0
    assert assay("label", "--run-dir", run, "--benchmark", benchmark).code == 0
    assert "bench.jsonl" in (run / "recipe.toml").read_text()
