"""Rules that find insecure and slow code of languages other than Python, and slow loops of all, as data.

In: an `Outline` of one version and its language. Out: findings, each a rule's name. A rule is a pattern over
the text with comments blanked; what begins inside of a literal is no finding, so that neither a comment nor
a message about `gets()` is one. `sure` rules are those whose findings are nearly always what they say; the
others find what a reader would want to look at. Every pattern takes time linear in the text: repeats are
bounded or cannot overlap with what follows.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import re
from collections import Counter

from labelers.commits.evidence.syntax import Outline

VERSION = "rules-1"
"""What stands as the tool of these measures; another with any change of a rule."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: what is found.
        languages: languages that it is for.
        pattern: what finds it.
        kind: `security`, `performance`, `allocation` or `release`.
        sure: whether a finding is nearly always what it says.
        loop: whether it is one only inside of a loop.
        needs: a text that every finding has, in small letters; empty where none is known.
    """

    name: str
    languages: str
    pattern: str
    kind: str = "security"
    sure: bool = False
    loop: bool = False
    needs: str = ""


_C = "C C++"
_JS = "JavaScript TypeScript"
_JVM = "Java Kotlin Scala"
_NOT_PYTHON = f"{_C} {_JS} {_JVM} C# Go Ruby PHP Rust Swift"
_QUOTED = r"[\"'][^\"'\n]{0,200}[\"']"
_SQL = r"(?:SELECT\s[^\"'`\n]{1,120}\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b"
_WORTHY = r"(?:token|secret|passw(?:or)?d|nonce|salt|session_?id|csrf|otp|api_?key)"

RULES = (
    # C and C++
    Rule("gets", _C, r"(?<![\w.>])gets\s*\(", sure=True),
    Rule("unbounded_copy", _C, r"\b(?:strcpy|strcat)\s*\([^,()\n]{1,80},\s*(?![\s\"A-Z])"),
    Rule("unbounded_format", _C, r"\bv?sprintf\s*\("),
    Rule("unbounded_scan", _C, r"\bf?scanf\s*\([^;\n]{0,60}\"[^\"\n]{0,60}%s", sure=True),
    Rule("shell_command", _C, r"(?<![\w.>])(?:system|popen)\s*\(\s*(?![\s\")])"),
    Rule("format_from_variable", _C, r"(?<![\w.>])v?printf\s*\(\s*[a-z]\w{0,60}\s*\)"),
    Rule(
        "format_from_variable",
        _C,
        r"\b(?:fprintf|syslog|dprintf)\s*\(\s*[\w>.-]{1,60},\s*[a-z]\w{0,60}\s*\)",
    ),
    Rule("temporary_name", _C, r"(?<![\w.>])(?:mktemp|tmpnam|tempnam)\s*\(", sure=True),
    Rule("weak_hash", _C, r"\b(?:MD5|SHA1)(?:_Init|_Update|_Final|Init)?\s*\("),
    Rule(
        "tls_unverified",
        _C,
        r"\bCURLOPT_SSL_VERIFY(?:PEER|HOST)\s*,\s*(?:0L?|false)\b",
        sure=True,
        needs="ssl_verify",
    ),
    Rule("tls_unverified", _C, r"\bSSL_VERIFY_NONE\b", needs="ssl_verify"),
    Rule("random_secret", _C, rf"(?i){_WORTHY}\w{{0,30}}\s*=[^;\n=]{{0,60}}\brand\s*\(", needs="rand"),
    # JavaScript and TypeScript
    Rule("eval", _JS, r"(?<![\w.$])eval\s*\(\s*(?![\s\"'`)])"),
    Rule("eval", _JS, r"\bnew\s+Function\s*\([^)\n]{0,80}\+"),
    Rule("markup_from_value", _JS, r"\.(?:innerHTML|outerHTML)\s*\+?=(?!=)\s*(?![\s\"'`])"),
    Rule("markup_from_value", _JS, r"\bdocument\s*\.\s*write(?:ln)?\s*\(\s*(?![\s\"'`)])"),
    Rule("markup_from_value", _JS, r"\bdangerouslySetInnerHTML\b"),
    Rule(
        "shell_command",
        _JS,
        r"(?<![\w.$])(?:child_process\s*\.\s*|cp\s*\.\s*)?exec(?:Sync)?\s*\(\s*(?:"
        + _QUOTED
        + r"\s*\+|`[^`\n]{0,200}\$\{)",
        sure=True,
    ),
    Rule("tls_unverified", _JS, r"\brejectUnauthorized\s*[:=]\s*false\b", sure=True),
    Rule("tls_unverified", _JS, r"\bNODE_TLS_REJECT_UNAUTHORIZED\b[\"'\]]{0,2}\s*[:=]\s*[\"']?0", sure=True),
    Rule("weak_hash", _JS, r"\bcreateHash\s*\(\s*[\"'](?:md5|sha1)[\"']"),
    Rule("weak_cipher", _JS, r"\bcreateCipher(?:iv)?\s*\(\s*[\"'](?:des|rc4|rc2|bf)", sure=True),
    Rule(
        "random_secret",
        _JS,
        rf"(?i){_WORTHY}\w{{0,30}}\s*[:=][^;\n=]{{0,60}}\bMath\s*\.\s*random",
        needs="rand",
    ),
    # Java, Kotlin, Scala
    Rule("weak_hash", _JVM, r"\bMessageDigest\s*\.\s*getInstance\s*\(\s*\"(?:MD2|MD5|SHA-?1)\""),
    Rule("weak_hash", _JVM, r"\bHashing\s*\.\s*(?:md5|sha1)\s*\("),
    Rule(
        "weak_cipher",
        _JVM,
        r"\bCipher\s*\.\s*getInstance\s*\(\s*\"(?:DES|DESede|RC4|RC2|Blowfish|AES/ECB)\b",
        sure=True,
    ),
    Rule(
        "shell_command",
        _JVM,
        r"\bgetRuntime\s*\(\s*\)\s*\.\s*exec\s*\(\s*\"[^\"\n]{0,200}\"\s*\+",
        sure=True,
    ),
    Rule(
        "tls_unverified",
        _JVM,
        r"\bcheckServerTrusted\s*\([^(){}]{0,200}\)\s*(?:throws\s+[\w, .]{1,80})?\{\s*\}",
        sure=True,
    ),
    Rule("tls_unverified", _JVM, r"\b(?:ALLOW_ALL_HOSTNAME_VERIFIER|NoopHostnameVerifier)\b", sure=True),
    Rule("unsafe_deserialization", _JVM, r"\bnew\s+ObjectInputStream\s*\("),
    Rule(
        "random_secret",
        _JVM,
        rf"(?i){_WORTHY}\w{{0,30}}\s*=[^;\n=]{{0,60}}\b(?:new\s+Random|Math\s*\.\s*random)\s*\(",
        needs="rand",
    ),
    Rule("temporary_name", _JVM, r"\bnew\s+File\s*\(\s*\"/tmp/"),
    # C#
    Rule("weak_hash", "C#", r"\b(?:MD5|SHA1)(?:\s*\.\s*(?:Create|HashData)|CryptoServiceProvider|Managed)\b"),
    Rule(
        "weak_cipher", "C#", r"\b(?:DES|TripleDES|RC2)(?:\s*\.\s*Create|CryptoServiceProvider)\b", sure=True
    ),
    Rule("weak_cipher", "C#", r"\bCipherMode\s*\.\s*ECB\b", sure=True),
    Rule(
        "tls_unverified",
        "C#",
        r"\bServer(?:Certificate\w{0,20})?ValidationCallback\s*\+?=[^;\n]{0,120}=>\s*(?:\{\s*return\s+)?true",
        sure=True,
    ),
    Rule("tls_unverified", "C#", r"\bDangerousAcceptAnyServerCertificateValidator\b", sure=True),
    Rule(
        "unsafe_deserialization",
        "C#",
        r"\bnew\s+(?:BinaryFormatter|NetDataContractSerializer|SoapFormatter|LosFormatter)\b",
    ),
    Rule("unsafe_deserialization", "C#", r"\bTypeNameHandling\s*\.\s*(?:All|Auto|Objects)\b"),
    Rule("shell_command", "C#", r"\bProcess\s*\.\s*Start\s*\([^)\n]{0,120}(?:\+|\$\")"),
    Rule(
        "random_secret", "C#", rf"(?i){_WORTHY}\w{{0,30}}\s*=[^;\n=]{{0,60}}\bnew\s+Random\s*\(", needs="rand"
    ),
    # Go
    Rule("tls_unverified", "Go", r"\bInsecureSkipVerify\s*[:=]{1,2}\s*true\b", sure=True),
    Rule("weak_hash", "Go", r"\b(?:md5|sha1)\s*\.\s*(?:New|Sum)\s*\("),
    Rule("weak_cipher", "Go", r"\b(?:des|rc4)\s*\.\s*New\w{0,20}\s*\(", sure=True),
    Rule(
        "shell_command",
        "Go",
        r"\bexec\s*\.\s*Command\s*\(\s*\"(?:/bin/)?(?:ba)?sh\"\s*,\s*\"-c\"\s*,\s*(?!\")",
    ),
    Rule("sql_from_value", "Go", rf"(?i)\bfmt\s*\.\s*Sprintf\s*\(\s*[\"`]\s*{_SQL}[^\"`]{{0,300}}%[svdq]"),
    # Ruby
    Rule("eval", "Ruby", r"(?<![\w.:])(?:instance_|class_|module_)?eval\s*[( ]\s*(?![\s\"'<{&:=|)]|do\b)"),
    Rule("unsafe_deserialization", "Ruby", r"\bMarshal\s*\.\s*(?:load|restore)\b"),
    Rule("unsafe_deserialization", "Ruby", r"\bYAML\s*\.\s*(?:unsafe_load|load)\b(?!_)"),
    Rule("shell_command", "Ruby", r"(?<![\w.:])(?:system|exec|popen)\s*\(?\s*\"[^\"\n]{0,200}#\{"),
    Rule("shell_command", "Ruby", r"`[^`\n]{0,200}#\{"),
    Rule("tls_unverified", "Ruby", r"\bVERIFY_NONE\b"),
    Rule("weak_hash", "Ruby", r"\bDigest::(?:MD5|SHA1)\b"),
    Rule("markup_from_value", "Ruby", r"\.html_safe\b"),
    Rule(
        "sql_from_value", "Ruby", r"\.(?:where|find_by_sql|order|joins|execute)\s*\(?\s*\"[^\"\n]{0,200}#\{"
    ),
    Rule(
        "reflection_from_request", "Ruby", r"\b(?:send|constantize|public_send)\s*\(?\s*params\b", sure=True
    ),
    Rule(
        "random_secret", "Ruby", rf"(?i){_WORTHY}\w{{0,30}}\s*=[^;\n=]{{0,60}}\brand\b\s*[( ]", needs="rand"
    ),
    # PHP
    Rule("eval", "PHP", r"(?<![\w>:$])eval\s*\(\s*(?![\s\"')])"),
    Rule("unsafe_deserialization", "PHP", r"(?<![\w>:$])unserialize\s*\(\s*\$[^,)\n]{0,80}\)"),
    Rule(
        "shell_command",
        "PHP",
        r"(?<![\w>:$])(?:shell_exec|exec|system|passthru|popen|proc_open)\s*\([^;)\n]{0,100}\$",
    ),
    Rule(
        "tls_unverified", "PHP", r"\bCURLOPT_SSL_VERIFY(?:PEER|HOST)\b\s*(?:,|=>)\s*(?:false|0)\b", sure=True
    ),
    Rule(
        "markup_from_request",
        "PHP",
        r"\b(?:echo|print)\b\s*\(?\s*\$_(?:GET|POST|REQUEST|COOKIE)\b",
        sure=True,
    ),
    Rule(
        "code_from_request",
        "PHP",
        r"\b(?:include|require)(?:_once)?\b\s*\(?[^;\n]{0,40}\$_(?:GET|POST|REQUEST|COOKIE)\b",
        sure=True,
    ),
    Rule("extract_from_request", "PHP", r"(?<![\w>:$])extract\s*\(\s*\$_(?:GET|POST|REQUEST)\b", sure=True),
    Rule("weak_hash", "PHP", r"(?i)(?<![\w>:$])(?:md5|sha1)\s*\([^;)\n]{0,60}passw"),
    Rule(
        "random_secret",
        "PHP",
        rf"(?i){_WORTHY}\w{{0,30}}\s*=[^;\n=]{{0,60}}\b(?:mt_)?rand\s*\(",
        needs="rand",
    ),
    # Rust, Swift
    Rule("tls_unverified", "Rust", r"\bdanger_accept_invalid_(?:certs|hostnames)\s*\(\s*true", sure=True),
    Rule("weak_hash", "Rust", r"\b(?:Md5|Sha1)::(?:new|digest)\b"),
    Rule("weak_hash", "Swift", r"\b(?:CC_MD5|CC_SHA1|Insecure\s*\.\s*(?:MD5|SHA1))\b"),
    # Several languages
    Rule(
        "sql_from_value",
        _NOT_PYTHON,
        rf"(?i)[\"'`]\s*{_SQL}[^\"'`\n]{{0,300}}[\"']\s*(?:\+|\.(?=\s*\$)|\.\.)\s*\(?[$\w]",
    ),
    Rule("sql_from_value", _JS, rf"(?i)`\s*{_SQL}[^`]{{0,300}}\$\{{"),
    Rule("sql_from_value", "PHP", rf"(?i)\"\s*{_SQL}[^\"\n]{{0,300}}[^\\\"]\$\w"),
    Rule(
        "password_in_code",
        _NOT_PYTHON,
        r"(?i)\b(?:\w{0,20}_)?(?:password|passwd|secret_?key|api_?key|private_?key|auth_?token)"
        r"\s*(?::=|=>|=|:)\s*[\"'](?=[^\"'\n]{0,60}[0-9])[A-Za-z0-9+/=_!@#-]{8,60}[\"']",
    ),
    # Slow loops
    Rule("text_grown_in_loop", "Python", r"\b\w{1,60}\s*\+=\s*f?[\"']", "performance", loop=True),
    Rule("text_grown_in_loop", f"{_JVM} C# Go", r"\b\w{1,60}\s*\+=\s*\"", "performance", loop=True),
    Rule("insert_in_front", "Python", r"\.insert\s*\(\s*0\s*,", "performance", loop=True),
    Rule("taken_from_front", "Python", r"\.pop\s*\(\s*0\s*\)", "performance", loop=True),
    Rule(
        "insert_in_front", _JVM, r"\.(?:add\s*\(\s*0\s*,|removeAt?\s*\(\s*0\s*\))", "performance", loop=True
    ),
    Rule(
        "insert_in_front", "C#", r"\.(?:Insert\s*\(\s*0\s*,|RemoveAt\s*\(\s*0\s*\))", "performance", loop=True
    ),
    Rule(
        "list_made_to_look_in",
        "Python",
        r"\bif\b[^:\n]{0,80}\bin\s+(?:list|sorted)\s*\(",
        "performance",
        loop=True,
    ),
    Rule("pattern_compiled_in_loop", "Python", r"\bre\s*\.\s*compile\s*\(", "performance", loop=True),
    Rule("pattern_compiled_in_loop", _JVM, r"\bPattern\s*\.\s*compile\s*\(", "performance", loop=True),
    Rule("pattern_compiled_in_loop", "C#", r"\bnew\s+Regex\s*\(", "performance", loop=True),
    Rule(
        "pattern_compiled_in_loop", "Go", r"\bregexp\s*\.\s*(?:Must)?Compile\s*\(", "performance", loop=True
    ),
    Rule("pattern_compiled_in_loop", _JS, r"\bnew\s+RegExp\s*\(", "performance", loop=True),
    Rule("pattern_compiled_in_loop", "Rust", r"\bRegex\s*::\s*new\s*\(", "performance", loop=True),
    Rule("length_in_condition", _C, r"\bfor\s*\([^;{}]{0,80};[^;{}]{0,60}<=?\s*strlen\s*\(", "performance"),
    # Memory of C, by its own functions and those that are named after them
    Rule("allocation", "C", r"(?<!de)(?:alloc(?:z|_array)?|strn?dup)\s*\(", "allocation"),
    Rule("release", "C", r"free(?:_\w{1,20})?\s*\(|\bFREE_AND_NULL\s*\(", "release"),
)


@functools.cache
def _of(language: str) -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    """The rules of a language with their patterns."""
    return tuple((one, re.compile(one.pattern)) for one in RULES if language in one.languages.split())


def find(outline: Outline, language: str) -> dict[str, Counter[str]]:
    """Findings by kind: how often each rule found something; those that are sure under `sure` too."""
    found: dict[str, Counter[str]] = {"sure": Counter()}
    loops = _joined(outline.loops)
    starts = [start for start, _ in loops]
    small = outline.code.lower()
    for rule, pattern in _of(language):
        # To look for a word is many times faster than to try a pattern everywhere.
        if rule.needs not in small:
            continue
        for match in pattern.finditer(outline.code):
            at = match.start()
            if outline.inside[at]:
                continue
            if rule.loop:
                number = bisect.bisect_right(starts, at) - 1
                if number < 0 or loops[number][1] <= at:
                    continue
            found.setdefault(rule.kind, Counter())[rule.name] += 1
            if rule.sure:
                found["sure"][rule.name] += 1
    return found


def _joined(loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Outermost loops, in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(loops):
        if not joined or joined[-1][1] <= start:
            joined.append((start, end))
    return joined
