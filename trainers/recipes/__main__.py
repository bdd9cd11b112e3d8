"""Print what all recipes need; with `--write`, put it into their files."""

from __future__ import annotations

import sys

from schemas.shards import write_text
from trainers.recipes import path, recipes, table_of_all, with_needs

if "--write" in sys.argv[1:]:
    for name in recipes():
        file = path(name)
        write_text(file, with_needs(file.read_text(), name))
print(table_of_all(), end="")
