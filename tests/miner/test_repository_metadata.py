"""Files that tell stars, issues and forks of repositories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miner.metadata import MAX_LINE, Known, Metadata, read_metadata
from schemas.errors import AssayError

NAMES = ("ada/engine", "group/sub/project")
URL = "https://github.com/ada/engine.git"


def read(tmp_path: Path, text: str | bytes, name: str = "m.jsonl") -> Metadata:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_metadata(file, NAMES)


def known(tmp_path: Path, row: dict[str, Any], url: str | None = URL) -> Known | None:
    return read(tmp_path, json.dumps(row)).find("ada/engine", url)


@pytest.mark.parametrize(
    "where",
    [
        {"repo": "ada/engine"},
        {"repo": "Ada/ENGINE"},
        {"full_name": "ada/engine"},
        {"url": "https://github.com/ada/engine"},
        {"html_url": "https://www.github.com/Ada/engine/"},
        {"clone_url": "https://user:secret@github.com/ada/engine.git"},
        {"url": "git@github.com:ada/engine.git"},
        {"url": "ssh://git@github.com:22/ada/engine"},
        {"repo": "github.com/ada/engine"},
        {"repo": "https://github.com/ada/engine"},
        {"name": "engine", "full_name": "ada/engine", "url": "https://api.example/x y"},
    ],
)
def test_repository_is_found_however_it_is_named(where: dict[str, str], tmp_path: Path) -> None:
    assert known(tmp_path, {**where, "stars": 7}) == Known(stars=7)


@pytest.mark.parametrize(
    "where", [{"url": "https://gitlab.com/ada/engine"}, {"repo": "bob/engine"}, {"repo": "ada/engines"}]
)
def test_repository_of_another_host_or_name_is_another_one(where: dict[str, str], tmp_path: Path) -> None:
    assert known(tmp_path, {**where, "stars": 7}) is None


def test_repository_without_a_url_is_found_by_name_alone(tmp_path: Path) -> None:
    assert known(tmp_path, {"url": URL, "stars": 7}, url=None) == Known(stars=7)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"stargazers_count": 7}, Known(7)),
        ({"stars": "7"}, Known(7)),
        ({"stars": 7.0}, Known(7)),
        ({"stars": 0, "issues": 0}, Known(0, 0)),
        ({"issues": 12}, Known(None, 12)),
        ({"open_issues": 5, "closed_issues": 7}, Known(None, 12)),
        ({"open_issues": 5}, Known()),
        ({"open_issues_count": 5}, Known()),
        ({"stars": None, "issues": ""}, Known()),
        ({"fork_of": "Bob/Engine"}, Known(fork_of="Bob/Engine")),
        ({"parent": {"full_name": "bob/engine"}}, Known(fork_of="bob/engine")),
        ({"forked_from": "https://github.com/bob/engine.git"}, Known(fork_of="bob/engine")),
    ],
)
def test_fields_of_common_dumps_are_read(row: dict[str, Any], told: Known, tmp_path: Path) -> None:
    assert known(tmp_path, {"repo": "ada/engine", **row}) == told


@pytest.mark.parametrize(
    "row",
    [
        {"stars": -1},
        {"stars": "many"},
        {"stars": True},
        {"stars": 1.5},
        {"stars": 10**30},
        {"stars": [7]},
        {"issues": {}},
        {"fork_of": 7},
        {"fork_of": "no name"},
        {"fork_of": "x/" + "y" * 1000},
    ],
)
def test_row_with_a_bad_field_is_counted_and_costs_no_other(row: dict[str, Any], tmp_path: Path) -> None:
    good, bad = {"repo": "ada/engine", "stars": 7}, {"repo": "ada/engine", **row}
    found = read(tmp_path, f"{json.dumps(bad)}\n{json.dumps(good)}\n")
    assert (found.bad, found.find("ada/engine", URL)) == (1, Known(7))


@pytest.mark.parametrize(
    "line", ["{", "[]", "7", "null", '{"stars": 7}', '{"repo": 7}', "[" * 100_000, "\udcff"]
)
def test_line_that_is_no_row_is_counted(line: str, tmp_path: Path) -> None:
    text = line.encode("utf-8", "surrogateescape") + b'\n{"repo": "ada/engine", "stars": 7}\n\n'
    found = read(tmp_path, text)
    assert (found.bad, found.find("ada/engine", URL)) == (1, Known(7))


def test_line_without_end_costs_only_itself(tmp_path: Path) -> None:
    text = "{" + " " * (3 * MAX_LINE) + '}\n{"repo": "ada/engine", "stars": 7}'
    found = read(tmp_path, text)
    assert (found.bad, found.find("ada/engine", URL)) == (1, Known(7))


def test_rows_that_disagree_are_told_and_the_first_counts(tmp_path: Path) -> None:
    lines = [
        {"repo": "ada/engine", "stars": 7},
        {"repo": "ADA/engine", "stars": 8},
        {"repo": "ada/engine", "stars": 7},
    ]
    found = read(tmp_path, "\n".join(map(json.dumps, lines)))
    assert (found.bad, found.find("ada/engine", URL)) == (1, Known(7))


def test_csv_and_tsv_are_read_by_their_head(tmp_path: Path) -> None:
    csv = '\ufeffname, stars,full_name\n"a ""b"", c",7,ada/engine\nshort\n'
    found = read(tmp_path, csv, "m.csv")
    assert (found.bad, found.find("ada/engine", URL)) == (1, Known(7))
    assert read(tmp_path, "repo\tstars\nada/engine\t8\n", "m.TSV").find("ada/engine", URL) == Known(8)


@pytest.mark.parametrize(
    "text", ["", "\n\n", '"', "repo,stars\n\0\0\n", "repo,stars\n" + '"' + "x" * 300_000]
)
def test_odd_csv_is_no_crash(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text, "m.csv").rows == {}


def test_parquet_is_read_without_columns_that_say_nothing(tmp_path: Path) -> None:
    table = pa.table({"repo": ["ada/engine", None], "stars": [7, 1], "readme": ["x", "y"]})
    pq.write_table(table, tmp_path / "m.parquet")
    found = read_metadata(tmp_path / "m.parquet", NAMES)
    assert (found.bad, found.find("ada/engine", URL)) == (1, Known(7))


@pytest.mark.parametrize(
    ("name", "says"),
    [("none.jsonl", "cannot be read"), ("m.xls", "not a kind of file"), ("folder.csv", "not a file")],
)
def test_file_that_cannot_be_read_is_an_error(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(AssayError, match=says):
        read_metadata(tmp_path / name, NAMES)


def test_broken_parquet_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="as Parquet"):
        read(tmp_path, b"PAR1 no", "m.parquet")


def test_only_wanted_repositories_are_kept(tmp_path: Path) -> None:
    lines = (json.dumps({"repo": f"x/y{number}", "stars": 1}) for number in range(1000))
    assert read(tmp_path, "\n".join(lines)).rows == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.sampled_from(["repo", "url", "stars", "issues", "fork_of", "parent"]), JSON))
)
def test_any_rows_are_read(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    found = read(tmp_path, "\n".join(map(json.dumps, rows)))
    assert 0 <= found.bad <= len(rows)
