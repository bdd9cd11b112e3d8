"""Every command tells how it is used; brackets in a help text are marks for the one who prints it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from assay.cli import app

COMMANDS = sorted(command.name or "" for command in app.registered_commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_tells_how_it_is_used(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exception is None
    assert done.exit_code == 0
    assert f" {name} " in done.output
