"""SPDX expressions: one spelling for each meaning, and nothing for what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.spdx import MAX_CHARS, PERMISSIVE, allowed_by, join, license_terms, normalize

_IDS = st.sampled_from(
    [
        "MIT",
        "Apache-2.0",
        "GPL-2.0-only",
        "GPL-3.0-or-later",
        "EPL-1.0+",
        "LicenseRef-own",
        "ISC",
        "Apache-2.0 WITH LLVM-exception",
        "GPL-2.0-only WITH Classpath-exception-2.0",
    ]
)
_EXPRESSIONS = st.recursive(
    _IDS,
    lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
        lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("MIT", "MIT"),
        (" mit\t", "MIT"),
        ("MIT or Apache-2.0", "Apache-2.0 OR MIT"),
        ("MIT/Apache-2.0", "Apache-2.0 OR MIT"),
        ("MIT OR MIT", "MIT"),
        ("(((MIT)))", "MIT"),
        ("MIT OR ISC AND Zlib", "(ISC AND Zlib) OR MIT"),
        ("(MIT OR ISC) AND Zlib", "(ISC OR MIT) AND Zlib"),
        ("MIT OR (ISC OR Zlib)", "ISC OR MIT OR Zlib"),
        ("GPL-2.0", "GPL-2.0-only"),
        ("GPL-2.0+", "GPL-2.0-or-later"),
        ("gpl-2.0-ONLY+", "GPL-2.0-or-later"),
        ("GPL-3.0-or-later+", "GPL-3.0-or-later"),
        ("Apache-2.0+", "Apache-2.0+"),
        ("GPL-2.0 with classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("GPL-2.0-with-classpath-exception", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("LicenseRef-Own.1", "LicenseRef-Own.1"),
        ("DocumentRef-a:LicenseRef-b", "DocumentRef-a:LicenseRef-b"),
    ],
)
def test_each_meaning_has_one_spelling(text: str, written: str) -> None:
    assert normalize(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "MIT OR",
        "OR MIT",
        "MIT MIT",
        "(MIT",
        "MIT)",
        "MIT, ISC",
        "My-Own-1.0",
        "Apache 2.0",
        "MIT +",
        "MIT WITH",
        "MIT WITH MIT",
        "GPL-2.0-with-classpath-exception WITH LLVM-exception",
        "GPL-2.0-with-classpath-exception+",
        "A:B",
        "LicenseRef-",
        "M\u0131T",
        "(" * 300 + "MIT" + ")" * 300,
        "MIT" + " OR MIT" * MAX_CHARS,
    ],
)
def test_what_is_no_expression_gives_nothing(text: str) -> None:
    assert normalize(text) is None
    assert license_terms(text) == set()
    assert not allowed_by(text, PERMISSIVE)
    assert join("AND", ["MIT", text]) is None


@given(_EXPRESSIONS)
def test_what_is_written_reads_as_itself(text: str) -> None:
    written = normalize(text)
    assert written is not None
    assert normalize(written) == written
    assert normalize(written.lower()) in (written, None if "licenseref" in written.lower() else written)
    assert license_terms(written) == license_terms(text)
    assert allowed_by(written, PERMISSIVE) == allowed_by(text, PERMISSIVE)


@given(st.text(max_size=80) | st.text(alphabet="MITORANDWH()+/ -.20", max_size=40))
def test_no_text_raises(text: str) -> None:
    written = normalize(text)
    assert written is None or normalize(written) == written
    allowed_by(text, PERMISSIVE)


@given(_EXPRESSIONS, _EXPRESSIONS)
def test_a_choice_needs_one_permissive_side_and_a_sum_needs_both(one: str, other: str) -> None:
    either, both = join("OR", [one, other]), join("AND", [one, other])
    assert allowed_by(either, PERMISSIVE) == (allowed_by(one, PERMISSIVE) or allowed_by(other, PERMISSIVE))
    assert allowed_by(both, PERMISSIVE) == (allowed_by(one, PERMISSIVE) and allowed_by(other, PERMISSIVE))


def test_terms_are_ids_without_signs_and_exceptions() -> None:
    assert license_terms("EPL-1.0+ OR GPL-2.0 WITH Classpath-exception-2.0 AND MIT") == {
        "EPL-1.0",
        "GPL-2.0-only",
        "MIT",
    }


def test_permissive_ids_are_current_ones() -> None:
    assert {normalize(one) for one in PERMISSIVE} == PERMISSIVE


@pytest.mark.parametrize(
    "text", ["MPL-2.0", "LGPL-2.1-only", "GPL-3.0-only", "BUSL-1.1", "SSPL-1.0", "OFL-1.1", None]
)
def test_copyleft_limits_and_the_unknown_are_not_permissive(text: str | None) -> None:
    assert not allowed_by(text, PERMISSIVE)


def test_wanted_licenses_may_be_spelled_in_any_way() -> None:
    assert allowed_by("GPL-2.0-or-later", ["gpl-2.0"])
    assert allowed_by("Apache-2.0 WITH LLVM-exception", ["Apache-2.0"])
    assert allowed_by("GPL-2.0-only OR MIT", ["MIT"])
    assert not allowed_by("GPL-2.0-only AND MIT", ["MIT"])
    assert not allowed_by(None, ["MIT"])
    assert not allowed_by("MIT", ["no such licence"])
