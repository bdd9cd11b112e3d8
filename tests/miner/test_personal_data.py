"""E-mail addresses of people in changed lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.personal import find_personal

AT = "@"


@pytest.mark.parametrize(
    "line",
    [
        f"# Copyright Ada Lovelace <ada.lovelace{AT}engines.co.uk>",
        f'__author__ = "Ada (ada{AT}engines.de)"',
        f"mailto:ada.l{AT}posteo.de",
        f"author='ada+git{AT}gmail.com',",
        f"// ADA{AT}ENGINES.ORG",
        f"* {AT}author ada{AT}engines.io.",
        f"ada{AT}engines.org, grace{AT}navy.mil",
    ],
)
def test_address_of_a_person_is_found_with_its_line_and_never_shown(line: str) -> None:
    assert find_personal(f"x = 1\n{line}\n", 7) == "e-mail address in line 8"


@pytest.mark.parametrize(
    "line",
    [
        f"git{AT}github.com:ada/engine.git",
        f"ssh://git{AT}engines.org/a.git",
        f"deploy{AT}engines.org:/srv/app",
        f"https://ada:secret{AT}engines.org/",
        f"https://$KEY{AT}github.com/a/b",
        f"foo{AT}example.com",
        f"someone{AT}mail.example.org",
        f"ada{AT}localhost",
        f"user{AT}domain.com",
        f"test{AT}test.com",
        f"a{AT}b.com",
        f"noreply{AT}github.com",
        f"12345+ada{AT}users.noreply.github.com",
        f"python-dev{AT}python.org",
        f"security{AT}engines.org",
        f"icon{AT}2x.png",
        f"lodash{AT}4.17.21",
        f"engine{AT}1.2.3.tgz",
        f"{AT}app.route('/')",
        f"{AT}angular/core",
        f"import x from '{AT}scope/name.js'",
        f"{AT}ada:matrix.org",
        f"x{AT}y",
        f"ada{AT}engines.py",
        f"ada{AT}engines.rs",
        f"a {AT} b.c",
        f"SELECT {AT}name.value",
        f"{AT}",
        f"{AT}{AT}",
    ],
)
def test_what_only_looks_like_a_persons_address_is_none(line: str) -> None:
    assert find_personal(line) is None


@given(st.text(f"a.{AT}:/-\n ", max_size=60))
def test_any_text_is_searched_without_failing(text: str) -> None:
    find_personal(text)


@pytest.mark.parametrize(
    "text",
    [
        f"a{AT}" * 100_000,
        "a" * 300_000 + AT,
        AT + "a." * 150_000,
        f"a{AT}b." * 50_000,
        AT * 300_000,
        f"{AT}\n" * 100_000,
        "a.a" * 100_000 + f"{AT}x.com",
    ],
)
def test_hostile_text_is_searched_in_linear_time(text: str) -> None:
    find_personal(text)
