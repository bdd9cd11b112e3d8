"""The house holds: floors, light imports, and a front door that opens fast."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("miner", "labelers", "decompose", "schemas", "trainers", "sandbox", "assay")


def test_import_contracts_hold() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_typed_and_says_what_it_promises(room: str) -> None:
    package = resources.files(room)
    assert package.joinpath("py.typed").is_file()
    init = package.joinpath("__init__.py").read_text()
    assert init.startswith('"""')


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if not path.read_text().startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_stages_are_listed_in_one_order() -> None:
    from assay.stages import STAGES
    from schemas.stage import ORDER

    assert tuple(STAGES) == ORDER


def _imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        (
            "import assay.cli",
            {
                "torch",
                "transformers",
                "datasets",
                "litellm",
                "pyarrow",
                "polars",
                "pygit2",
                "datatrove",
                "numpy",
            },
        ),
        ("import assay.recipe", {"torch", "transformers", "datatrove", "pygit2", "tree_sitter"}),
        ("import sandbox", {"schemas", "pyarrow", "numpy"}),
        ("import schemas.shards, schemas.records, schemas.rundir", {"datatrove", "datasets", "polars"}),
    ],
)
def test_import_leaves_heavy_modules_out(statement: str, heavy: set[str]) -> None:
    assert _imported_by(statement) & heavy == set()
