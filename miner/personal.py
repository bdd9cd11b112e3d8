"""Personal data in source text: e-mail addresses of people.

In: the changed lines of an edit. Out: kind and line of the first address, never the address. Left out is
what only looks like one (`git@github.com:...`, `user:password@host`, `package@1.2`, `icon@2x.png`,
decorators, npm scopes), what is made up (`foo@example.com`, `a@b.c`), and what belongs to no person
(`noreply@`, `security@`, mailing lists). Telephone numbers and account numbers are not looked for: in code,
numbers of their shape are nearly always something else. The time is linear in the text.
"""

from __future__ import annotations

import re

from miner.wordlist import words

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+\-])([A-Za-z0-9][A-Za-z0-9._%+-]{0,63})@((?:[A-Za-z0-9-]{1,63}\.){1,6})([A-Za-z]{2,12})(?![\w@.-]*[\w@-])"
)
_TOP = words(
    """
    com org net edu gov mil int info biz name pro io dev me co ai app tech cloud xyz online email
    eu us uk ca au nz de fr it es pt nl be ch at se no dk fi pl cz sk hu ro bg gr tr ru su ua by kz il in
    cn jp kr tw hk sg my id th vn ph br mx ar cl pe za ng ke ie is lt lv ee hr si lu ir pk asia
    """
)
"""Domains that end addresses, without those that are extensions of source files: py, rs, sh, md, so, cc."""

_MADE_UP = words(
    """
    example test testing tests sample demo dummy fake invalid localhost local domain mydomain yourdomain
    somedomain email mail host hostname myhost server site website mysite yoursite company mycompany
    yourcompany corp acme foo bar baz foobar qux abc xyz aaa bbb none null nowhere somewhere anywhere
    something place blah a b c d x y z
    """
)
_ROLES = words(
    """
    noreply no-reply donotreply do-not-reply git hg svn root admin administrator webmaster postmaster
    hostmaster info contact support help security abuse sales team dev devel developers developer
    maintainers maintainer bugs bug issues list lists announce users user username you your me someone
    somebody anyone person name email mail e-mail address test tests tester testing foo bar baz foobar
    example bot ci build jenkins travis github gitlab alice bob carol eve mallory john jane john.doe
    jane.doe johndoe janedoe joe jdoe a b c d x y z u me my myname your-email youremail your.email
    my-email myemail
    """
)


def _is_person(local: str, domain: str, top: str) -> bool:
    labels = [label.lower() for label in domain.rstrip(".").split(".")]
    name = local.lower()
    if top.lower() not in _TOP or any(not label or label.strip("0123456789.x") == "" for label in labels):
        return False
    if (
        "noreply" in labels
        or any(label in _MADE_UP for label in labels)
        or labels[-1].startswith(("example", "your"))
    ):
        return False
    if name in _ROLES or name.split("+")[0] in _ROLES or "noreply" in name or "no-reply" in name:
        return False
    # Lists: `python-dev@python.org`, `lists@`; a hash or number is nobody's name.
    if name.endswith(("-dev", "-list", "-devel", "-users", "-bugs", "-announce", "-security", "-bot")):
        return False
    return (
        len(name) > 1
        and any(map(str.isalpha, name))
        and not labels[0].startswith(("list", "groups", "googlegroups"))
    )


def find_personal(text: str, first_line: int = 1) -> str | None:
    """Kind and line of the first personal datum, such as `e-mail address in line 3`, or None.

    Args:
        text: whole lines.
        first_line: number of the first one.
    """
    at = text.find("@")
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        line = text[start : len(text) if end < 0 else end]
        for match in _EMAIL.finditer(line):
            before = line[max(0, match.start() - 7) : match.start()]
            # `scheme://user:password@host` and `host:path` of scp have the same marks.
            of_url = before.endswith(("/", ":", "$", "}")) and not before.endswith("mailto:")
            path = re.match(r":[\w/~]", line[match.end() : match.end() + 2])
            if not of_url and path is None and _is_person(*match.groups()):
                return f"e-mail address in line {first_line + text.count(chr(10), 0, start)}"
        at = -1 if end < 0 else text.find("@", end)
    return None
