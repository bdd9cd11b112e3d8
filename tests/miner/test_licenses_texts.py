"""Licences of repositories by their files, and of source files by their headers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gitrepos import BASE, Builder
from hypothesis import given
from hypothesis import strategies as st
from license_samples import APACHE, BSD2, BSD3, BSD4, GPL3, LGPL3, MIT

from miner import spdx
from miner.licenses import license_of_files, license_of_header, license_of_text, repository_license
from miner.licensetexts import TEXTS
from miner.repository import open_repository

EITHER = (
    "This project is dual-licensed under the Apache License 2.0 and the MIT license. Use either license.\n"
)
GPL_HEADER = """This program is free software; you can redistribute it and/or modify
it under the terms of the GNU General Public License as published by
the Free Software Foundation; either version 2 of the License, or
(at your option) any later version.
"""
APACHE_HEADER = """Copyright 2020 Ada

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
"""
MPL_HEADER = """This Source Code Form is subject to the terms of the Mozilla Public
License, v. 2.0. If a copy of the MPL was not distributed with this
file, You can obtain one at http://mozilla.org/MPL/2.0/.
"""
TRI_HEADER = """The contents of this file are subject to the Mozilla Public License Version
1.1 (the "License"). Alternatively, the contents of this file may be used under the terms of
either the GNU General Public License Version 2 or later (the "GPL"), or
the GNU Lesser General Public License Version 2.1 or later (the "LGPL").
"""
COMMENTS = {
    "hash": lambda text: "".join(f"# {line}\n" for line in text.splitlines()) + "x = 1\n",
    "slashes": lambda text: "".join(f"// {line}\n" for line in text.splitlines()) + "int x;\n",
    "block": lambda text: f"/*\n{text}*/\nint x;\n",
    "stars": lambda text: "/**\n" + "".join(f" * {line}\n" for line in text.splitlines()) + " */\nint x;\n",
    "docstring": lambda text: f'#!/usr/bin/env python3\n"""{text}"""\nimport x\n',
    "markup": lambda text: f"<!--\n{text}-->\n<p></p>\n",
    "php": lambda text: f"<?php /*\n{text}*/\n$x = 1;\n",
    "ruby": lambda text: f"=begin\n{text}=end\nx = 1\n",
    "windows": lambda text: "".join(f"// {line}\r\n" for line in text.splitlines()) + "int x;\r\n",
    "after package": lambda text: f"package a;\n\n/*\n{text}*/\nclass A {{}}\n",
}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        (MIT, "MIT"),
        (MIT.replace("MIT License\n\n", ""), "MIT"),
        (BSD2, "BSD-2-Clause"),
        (BSD3, "BSD-3-Clause"),
        (BSD4, "BSD-4-Clause"),
        (APACHE, "Apache-2.0"),
        (GPL3, "GPL-3.0-only"),
        (LGPL3, "LGPL-3.0-only"),
        ("All rights reserved.", None),
        ("", None),
        ("We move to a new licence. " * 40 + MIT, None),
        (MIT + "Further terms apply. " * 400, None),
        ("We move away from the following. " * 30 + GPL3, None),
    ],
)
def test_license_by_text(text: str, expression: str | None) -> None:
    assert license_of_text(text) == expression
    assert license_of_text(text.replace("\n", "\r\n").upper()) == expression


@pytest.mark.parametrize(
    ("files", "expression"),
    [
        ([("LICENSE", MIT)], "MIT"),
        ([("LICENSE-MIT", MIT), ("LICENSE-APACHE", APACHE)], "Apache-2.0 OR MIT"),
        ([("LICENSE", MIT), ("COPYING", APACHE)], None),
        ([("LICENSE", MIT), ("COPYING", MIT)], "MIT"),
        ([("COPYING", GPL3), ("COPYING.LESSER", LGPL3)], "LGPL-3.0-only"),
        ([("LICENSE", MIT), ("LICENSE-EXTRA", "My own terms")], None),
        ([], None),
    ],
)
def test_license_of_several_files(files: list[tuple[str, str]], expression: str | None) -> None:
    assert license_of_files(files) == expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        (MIT + "\n" + APACHE, "Apache-2.0 AND MIT"),
        ("You may choose one of the following.\n" + MIT + "\n" + APACHE, "Apache-2.0 OR MIT"),
        (BSD2 + "\n\n" + MIT, "BSD-2-Clause AND MIT"),
        (BSD3 + "\n" + BSD2, "BSD-2-Clause AND BSD-3-Clause"),
        (GPL3, "GPL-3.0-only"),
        (
            "Either version 3 of the GNU General Public License or any later version.\n" + GPL3,
            "GPL-3.0-or-later",
        ),
        (LGPL3 + GPL3, "LGPL-3.0-only"),
        (
            "The library is licenced under Apache 2.0: http://www.apache.org/licenses/LICENSE-2.0\n",
            "Apache-2.0",
        ),
        (
            "SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note\nSee LICENSES.\n",
            "GPL-2.0-only WITH Linux-syscall-note",
        ),
        ('"Commons Clause" License Condition v1.0\n' + MIT, None),
        (MIT.replace("The above", "The Software shall be used for Good, not Evil. The above"), "JSON"),
        (MIT.replace("The above", "It may not be used by armies. The above"), None),
        ("For non-commercial use only.\n" + MIT, None),
        (MIT + "See the documentation. " * 300, None),
    ],
)
def test_licence_of_a_text(text: str, expression: str | None) -> None:
    assert license_of_text(text) == expression


@pytest.mark.parametrize(
    ("files", "expression"),
    [
        ([("COPYING", EITHER), ("LICENSE-MIT", MIT), ("LICENSE-APACHE", APACHE)], "Apache-2.0 OR MIT"),
        ([("COPYING", EITHER), ("LICENSE", MIT), ("COPYING.APACHE", APACHE)], "Apache-2.0 OR MIT"),
        ([("COPYING", EITHER)], "Apache-2.0 OR MIT"),
        ([("MIT-LICENSE", MIT), ("APACHE-LICENSE", APACHE)], "Apache-2.0 OR MIT"),
        ([("COPYING", GPL3), ("COPYING.LESSER", LGPL3)], "LGPL-3.0-only"),
        ([("LICENSES/MIT.txt", "")], "MIT"),
        ([("LICENSES/MIT.txt", ""), ("LICENSES/CC0-1.0.txt", "")], "MIT"),
        ([("LICENSES/MIT.txt", ""), ("LICENSES/Apache-2.0.txt", "")], "Apache-2.0 AND MIT"),
        ([("LICENSES/CC-BY-4.0.txt", "")], "CC-BY-4.0"),
        ([("LICENSES/MIT.txt", ""), ("LICENSES/README.md", "")], None),
        ([("LICENSE", MIT), ("LICENSES/GPL-3.0.txt", "")], "MIT"),
    ],
)
def test_licence_of_several_files_together(files: list[tuple[str, str]], expression: str | None) -> None:
    assert license_of_files(files) == expression


def test_reuse_folder_of_a_repository_is_read(repo: Builder) -> None:
    commit = repo.commit({"LICENSES/MIT.txt": MIT, "a.py": "x = 1\n"}, "Add all of it")
    assert repository_license(open_repository(repo.path), commit) == "MIT"


def test_file_about_third_parties_is_no_licence_of_the_repository(repo: Builder) -> None:
    commit = repo.commit({"LICENSE": MIT, "LICENSE-3RD-PARTY": GPL3, "LICENSE.docs": "CC"}, "Add all of it")
    assert repository_license(open_repository(repo.path), commit) == "MIT"


@pytest.mark.parametrize("style", COMMENTS)
@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("SPDX-License-Identifier: MIT OR GPL-2.0+\n", "GPL-2.0-or-later OR MIT"),
        ("Copyright Ada. SPDX-License-Identifier: mit\n", "MIT"),
        ("SPDX-License-Identifier: MIT\nSPDX-License-Identifier: ISC\n", "ISC AND MIT"),
        (APACHE_HEADER, "Apache-2.0"),
        (GPL_HEADER, "GPL-2.0-or-later"),
        (
            GPL_HEADER.replace("either version 2", "version 2").replace(
                ", or\n(at your option) any later version", ""
            ),
            "GPL-2.0-only",
        ),
        (GPL_HEADER.replace("General", "Lesser General").replace("2 of", "2.1 of"), "LGPL-2.1-or-later"),
        (GPL_HEADER.replace("General", "Affero General").replace("2 of", "3 of"), "AGPL-3.0-or-later"),
        ("GNU General Public License v3.0+ (see COPYING)\n", "GPL-3.0-or-later"),
        (MPL_HEADER, "MPL-2.0"),
        (TRI_HEADER, "GPL-2.0-or-later OR LGPL-2.1-or-later OR MPL-1.1"),
        (MIT, "MIT"),
        (BSD2, "BSD-2-Clause"),
        (BSD3, "BSD-3-Clause"),
        (BSD3 + "\n" + MIT, "BSD-3-Clause AND MIT"),
        ("Licensed under the MIT license.\n", "MIT"),
        (
            "Licensed under the Apache License, Version 2.0 or the MIT license, at your option.\n",
            "Apache-2.0 OR MIT",
        ),
        ("Use of this source code is governed by a BSD-style license in the LICENSE file.\n", None),
        ("SPDX-License-Identifier: My-Own\n" + MIT, None),
        ("SPDX-License-Identifier:\n", None),
        ("Reads the licence of a file, such as MIT.\n", None),
    ],
)
def test_header_means_the_same_in_every_comment_style(style: str, text: str, expression: str | None) -> None:
    assert license_of_header(COMMENTS[style](text)) == expression


@pytest.mark.parametrize(
    "line",
    [
        "/* SPDX-License-Identifier: MIT */ int x;",
        "<!-- SPDX-License-Identifier: MIT -->",
        "{# SPDX-License-Identifier: MIT #}",
        "<%# SPDX-License-Identifier: MIT %>",
        '"""SPDX-License-Identifier: MIT"""',
        "// SPDX-License-Identifier: (MIT).",
        ";; SPDX-License-Identifier: MIT",
        "dnl SPDX-License-Identifier: MIT",
        "--[[ SPDX-License-Identifier: MIT ]]",
    ],
)
def test_what_ends_a_comment_is_no_part_of_the_expression(line: str) -> None:
    assert license_of_header(line + "\nSPDX\n") == "MIT"


@pytest.mark.parametrize(
    "code",
    [
        'TAG = "SPDX-License-Identifier: MIT"\n',
        "const banner = `SPDX-License-Identifier: ${id}`;\n",
        f'print("""licence""")\nNOTICE = ({MIT!r})\n',
        "x = 1\n" * 2000 + "# SPDX-License-Identifier: MIT\n",
        "x = 1\n" * 2000 + "# Licensed under the MIT license.\n",
    ],
)
def test_code_about_licences_and_what_stands_far_below_say_nothing(code: str) -> None:
    assert license_of_header(code) is None


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([one.head for one in TEXTS] + ["/*", "*/", "\n", '"""', "#", " "])).map(
        " ".join
    )
)
def test_no_text_raises_and_what_is_found_is_an_expression(text: str) -> None:
    for found in (license_of_text(text), license_of_header(text), license_of_files([("LICENSE", text)])):
        assert found is None or spdx.normalize(found) == found


def test_every_known_text_has_a_current_id_and_words_only() -> None:
    for one in TEXTS:
        assert spdx.normalize(one.spdx) == one.spdx
        for phrase in (one.head, *one.marks, *one.absent):
            assert phrase == " ".join(phrase.lower().split())
            assert phrase.replace(" ", "").isalnum()


@pytest.mark.parametrize(
    "piece",
    [one.head + " " for one in TEXTS[:3]] + ["SPDX-License-Identifier: (", "/* licence\n", "under the "],
)
def test_texts_made_to_be_slow_are_read_in_one_go(piece: str) -> None:
    license_of_text(piece * (200_000 // len(piece)))
    license_of_header(piece * (200_000 // len(piece)))


def test_license_of_a_repository_with_sha256_ids_is_read(build: Callable[..., Builder]) -> None:
    repo = build("modern", "--object-format=sha256")
    commit = repo.commit({"LICENSE": MIT, "a.py": BASE})
    assert repository_license(open_repository(repo.path), commit) == "MIT"
