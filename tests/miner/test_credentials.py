"""Credentials in source text."""

from __future__ import annotations

import secrets
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.credentials import find_credential

LETTERS = "BCDFGHJKLMNPQRSTVWZ"


def text_of(length: int, alphabet: str = LETTERS) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def hexadecimal(length: int) -> str:
    return text_of(length, "23456789bcd")


def credentials() -> dict[str, str]:
    """Made-up credentials, put together here so that no scanner takes this file for a leak."""
    return {
        "private key": "-----BEGIN RSA PRIV" + "ATE KEY-----\n" + text_of(64),
        "private key ": "-----BEGIN OPENSSH PRIV" + "ATE KEY-----\\n" + text_of(64),
        "private key  ": "-----BEGIN PGP PRIV" + "ATE KEY BLOCK-----\nVersion: 1\n\n" + text_of(64),
        "private key   ": '"private_key": "-----BEGIN PRIV' + "ATE KEY-----\\n" + text_of(64),
        "AWS key id": "AKI" + "A" + text_of(16),
        "AWS secret key": "aws_sec" + "ret_access_key = " + text_of(40),
        "GitHub token": "ghp" + "_" + text_of(36),
        "GitLab token": "glpat" + "-" + text_of(20),
        "Slack token": "xoxb" + "-" + "98765432109-" + text_of(12),
        "Stripe key": "sk_li" + "ve_" + text_of(24),
        "Google API key": "AIz" + "a" + text_of(35),
        "Hugging Face token": "h" + "f_" + text_of(34),
        "npm token": "np" + "m_" + text_of(36),
        "model provider key": "s" + "k-proj-" + text_of(60),
        "Twilio key": "S" + "K" + hexadecimal(32),
        "Mailgun key": "ke" + "y-" + hexadecimal(32),
        "JSON web token": "ey" + "J" + text_of(20) + ".ey" + "J" + text_of(40) + "." + text_of(30),
        "Azure storage key": "Account" + "Key=" + text_of(86) + "==",
        "Azure client secret": text_of(3) + "8Q" + "~" + text_of(34),
        "Discord token": "Discord M" + text_of(25) + "." + text_of(6) + "." + text_of(30),
        "Telegram token": "987654321" + ":A" + "A" + text_of(33),
        "DigitalOcean token": "dop" + "_v1_" + hexadecimal(64),
        "Databricks token": "dap" + "i" + hexadecimal(32),
        "password in a URL": "postgres" + "://app:h7k2m9qz4w@db.engines.co.uk/main",
        "secret given to a telling name": "api_" + 'key = "q7Rm2Kx9Tb4Wz8Np3Vc6Hd5G"',
    }


@pytest.mark.parametrize("kind", sorted(credentials()))
def test_each_kind_is_found_with_its_line_and_never_shown(kind: str) -> None:
    found = find_credential(f"# one\n# two\nx('{credentials()[kind]}')\n", 10)
    assert found == f"{kind.strip()} in line 12"


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "password = 'hunter2'",
        "skip-this-and-that sk-learn task-abc",
        "ghp_" + "x" * 36,
        "hf_token = get_token()",
        "-----BEGIN PUBLIC KEY-----",
        "if line == '-----BEGIN RSA PRIVATE KEY-----': read()",
        "SKIP 0123",
        "postgres://user:password1@localhost/db",
        "postgres://user:h7k2m9qz4w@127.0.0.1/db",
        "mysql://{user}:{password123}@host.org/db",
        "https://example.com:8080/a@b",
        "amqp://guest:guest12345@broker.example.com",
        'api_key = "YOUR_API_KEY_GOES_RIGHT_HERE"',
        'api_key = "d41d8cd98f00b204e9800998ecf8427e"',
        'secret_key = os.environ["SECRET_KEY_OF_THE_APPLICATION"]',
        'access_token: "someVeryLongIdentifierName2For3Something"',
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "monkey-" + "2" * 32,
        "TASK" + "2" * 32,
    ],
)
def test_text_that_only_speaks_of_credentials_is_none(text: str) -> None:
    assert find_credential(text) is None


@given(st.text(string.printable, max_size=300))
def test_any_text_is_searched_without_failing(text: str) -> None:
    found = find_credential(text)
    assert found is None or " in line " in found


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * 60_000,
        "eyJaaaaaaaaaaa." * 12_000,
        "://a:" * 40_000,
        "://" + "a" * 200_000,
        "://a:" + "b" * 200_000,
        "-----BEGIN RSA PRIVATE KEY-----\n" * 6_000,
        "api_key" + " " * 200_000,
        "api_key='" * 20_000,
        "İapi_key='" * 20_000,
        "Discord " + "M" * 200_000,
        "aws_secret" * 20_000,
        ".atlasv1." + "a" * 200_000,
        "sk-ant-" * 30_000,
    ],
)
def test_hostile_text_is_searched_in_linear_time(text: str) -> None:
    find_credential(text)
