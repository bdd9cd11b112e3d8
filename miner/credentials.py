"""Credentials in source text: private keys and tokens of known shapes.

Only shapes that are practically never anything else are looked for, so that code which merely speaks
of passwords stays. Values that say that they are examples are passed over. What is reported is the
kind and the line, never the credential.
"""

from __future__ import annotations

import re

_KINDS = (
    ("private key", ("PRIVATE KEY",), r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("AWS key id", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    ("GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{60,}\b"),
    ("GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("Slack token", ("xox",), r"\bxox[abeoprs]-[0-9]{8,}-[A-Za-z0-9-]{10,}"),
    ("Slack webhook", ("hooks.slack.com",), r"hooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{16,}"),
    ("Stripe key", ("k_live_",), r"\b[sr]k_live_[A-Za-z0-9]{20,}"),
    ("Google API key", ("AIza",), r"\bAIza[0-9A-Za-z_-]{35}\b"),
    ("Google client secret", ("GOCSPX-",), r"\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    ("model provider key", ("sk-",), r"\bsk-(?:ant-|proj-|or-v1-)[A-Za-z0-9_-]{30,}|\bsk-[A-Za-z0-9]{48}\b"),
    ("Hugging Face token", ("hf_",), r"\bhf_[A-Za-z]{34}\b"),
    ("npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", ("pypi-AgE",), r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    ("SendGrid key", ("SG.",), r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b"),
    ("Twilio key", ("SK",), r"\bSK[0-9a-f]{32}\b"),
)
_COMPILED = tuple((kind, words, re.compile(pattern)) for kind, words, pattern in _KINDS)
_EXAMPLE = re.compile(r"example|sample|dummy|fake|placeholder|x{6}|0{8}|1234567|abcdef", re.IGNORECASE)


def find_credential(text: str) -> str | None:
    """Kind and line of the first credential in a text, such as `AWS key id in line 12`, or None."""
    for kind, words, pattern in _COMPILED:
        # Finding a word is many times faster than matching; nearly all texts end here.
        if not any(word in text for word in words):
            continue
        for match in pattern.finditer(text):
            if kind == "private key" or not _EXAMPLE.search(match[0]):
                return f"{kind} in line {text.count(chr(10), 0, match.start()) + 1}"
    return None
