"""Credentials in source text: private keys, tokens of known shapes, and secrets given to telling names.

Shapes that are practically never anything else are looked for, so that code which merely speaks of passwords
stays. Values that say that they are examples are passed over. What is reported is the kind and the line,
never the credential. The time is linear in the text.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_KINDS = (
    (
        "private key",
        ("PRIVATE KEY",),
        # A header alone stands in code that reads such files; a key has text.
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[\s\S]{0,300}?[A-Za-z0-9+/]{40}",
    ),
    ("AWS key id", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{60,}\b"),
    ("GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("Slack token", ("xox",), r"\bxox[abeoprs]-[0-9]{8,}-[A-Za-z0-9-]{10,}"),
    ("Slack webhook", ("hooks.slack.com",), r"hooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{16,}"),
    ("Stripe key", ("k_live_",), r"\b[sr]k_live_[A-Za-z0-9]{20,}"),
    ("Google API key", ("AIza",), r"\bAIza[0-9A-Za-z_-]{35}\b"),
    ("Google client secret", ("GOCSPX-",), r"\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    (
        "model provider key",
        ("sk-",),
        r"\bsk-(?:ant-|proj-|svcacct-|admin-|or-v1-)[A-Za-z0-9_-]{30,}|\bsk-[A-Za-z0-9]{48}\b",
    ),
    ("model provider key", ("gsk_", "r8_", "xai-"), r"\b(?:gsk_\w{50,}|r8_[A-Za-z0-9]{37}|xai-\w{70,})\b"),
    ("Hugging Face token", ("hf_",), r"\bhf_[A-Za-z]{34}\b"),
    ("npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", ("pypi-AgE",), r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    ("RubyGems key", ("rubygems_",), r"\brubygems_[0-9a-f]{48}\b"),
    ("SendGrid key", ("SG.",), r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b"),
    ("Twilio key", ("SK",), r"SK(?<!\wSK)[0-9a-f]{32}\b"),
    (
        "JSON web token",
        ("eyJ",),
        r"\beyJ[\w-]{10,2000}\.eyJ(?!zdWIiOiIxMjM0NTY3ODkw)[\w-]{10,4000}\.[\w-]{20,}",
    ),
    ("Azure storage key", ("AccountKey=",), r"AccountKey=(?!Eby8vdM02xNO)[A-Za-z0-9+/]{86}=="),
    (
        "Azure client secret",
        ("8Q~", "7Q~"),
        r"(?<![\w~.-])[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~.-])",
    ),
    (
        "AWS secret key",
        ("aws_secret", "AWS_SECRET"),
        r"(?i:aws_secret\w{0,20})[\"' ]{0,3}[:=][\"' ]{0,3}[A-Za-z0-9+/]{40}\b",
    ),
    ("Discord token", ("iscord", "ISCORD"), r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}\b"),
    ("Discord webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}"),
    ("Telegram token", (":AA",), r"\b\d{8,10}:AA[\w-]{33}(?![\w-])"),
    ("DigitalOcean token", ("_v1_",), r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    ("Databricks token", ("dapi",), r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    ("Docker token", ("dckr_pat_",), r"\bdckr_pat_[\w-]{27,}"),
    ("Shopify token", ("shp",), r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    ("Grafana token", ("glsa_",), r"\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b"),
    ("HashiCorp token", ("hvs.", ".atlasv1."), r"\bhvs\.[\w-]{90,}|\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"),
    ("Mailgun key", ("key-",), r"key-(?<!\wkey-)[0-9a-f]{32}\b"),
    ("age key", ("AGE-SECRET-KEY-1",), r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
)
REACH = 400
"""Characters that the longest of what is looked for may reach from its first line over the next ones."""

_COMPILED = tuple((kind, words, re.compile(pattern)) for kind, words, pattern in _KINDS)
_EXAMPLE = re.compile(
    r"example|sample|dummy|fake|placeholder|redacted|change.?me|your[_-]|x{6}|0{8}|1234567|abcdef",
    re.IGNORECASE,
)

_USER_INFO = re.compile(r"://[^\s:@/'\"]{0,64}:([^\s:@/'\"]{8,128})@([A-Za-z0-9.-]{1,253})")
_DATABASE = re.compile(
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|ftp|https?)(?:\+\w{1,20})?$"
)
_LOCAL_HOST = re.compile(
    r"(?:[^.]*|.*\.(?:local|localhost|internal|test|invalid|example)|(?:.*\.)?example\.\w+|127\..*|0\..*|10\..*|192\.168\..*)"
)
_NAMES = tuple(
    one.replace("-", gap)
    for one in (
        *("api-key", "secret-key", "access-key", "auth-token", "access-token", "client-secret"),
        *("consumer-secret", "encryption-key", "secret-token"),
    )
    for gap in ("-", "_", "")
)
_GIVEN = re.compile(r"[\"']?\s{0,20}(?:=>|:=|=|:)\s{0,20}[\"']([A-Za-z0-9+/_=-]{24,200})[\"']")
_MIN_BITS = 3.8
_PLACEHOLDER = re.compile(r"[<>{}$%*]|pass|secret|change|test", re.IGNORECASE)


def _bits(text: str) -> float:
    """Shannon entropy of a text's letters, in bits a letter."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())


def _looks_random(value: str) -> bool:
    """Whether a value has what a generated one has: digits among letters of both cases, and no pattern.

    Hexadecimal values are passed over: hashes, ids and test vectors are far more often hexadecimal.
    """
    digits = sum(map(str.isdigit, value))
    mixed = digits >= 2 and any(map(str.islower, value)) and any(map(str.isupper, value))
    return mixed and _bits(value) >= _MIN_BITS and not re.search(r"[a-z]{8}|[A-Z]{8}", value)


def _place(text: str, kind: str, at: int, first_line: int) -> str:
    return f"{kind} in line {text.count(chr(10), 0, at) + first_line}"


def find_credential(text: str, first_line: int = 1) -> str | None:
    """Kind and line of the first credential in a text, such as `AWS key id in line 12`, or None.

    Args:
        text: whole lines.
        first_line: number of the first one.
    """
    for kind, words, pattern in _COMPILED:
        # Finding a word is many times faster than matching; nearly all texts end here.
        if not any(word in text for word in words):
            continue
        for match in pattern.finditer(text):
            if kind == "private key" or not _EXAMPLE.search(match[0]):
                return _place(text, kind, match.start(), first_line)
    for match in _USER_INFO.finditer(text):
        password, host = match[1], match[2]
        random = any(map(str.isdigit, password)) and any(map(str.isalpha, password))
        of_server = _DATABASE.search(text, max(0, match.start() - 40), match.start())
        if of_server and random and not _PLACEHOLDER.search(password) and not _LOCAL_HOST.fullmatch(host):
            return _place(text, "password in a URL", match.start(), first_line)
    return _named(text, first_line)


def _named(text: str, first_line: int) -> str | None:
    lower = text.lower()
    # Lower case may have other lengths outside of ASCII, and then positions would not be those of the text.
    if len(lower) != len(text):
        lower = text
    for name in _NAMES:
        at = lower.find(name)
        while at >= 0:
            match = _GIVEN.match(text, at + len(name))
            if match is not None and _looks_random(match[1]) and not _EXAMPLE.search(match[1]):
                return _place(text, "secret given to a telling name", match.start(1), first_line)
            at = lower.find(name, at + len(name))
    return None
