"""Which coding assistant made a change or had a hand in it, by authors and messages.

Pure functions over names, addresses and trailers. A first name that an assistant bears too (Claude, Devin,
Gemini, Jules, Kimi) counts only with an address, or in a place, that no human has.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator

from miner.authors import NOREPLY
from miner.wordlist import words

_MAX_NAME = 300
_MAX_LINES = 5_000
_MAX_LINE = 400

_MODEL = r"(?:[ :/@-].*|\(.*)?"
"""What may follow a tool's name: its model or version."""


@dataclasses.dataclass(frozen=True)
class _Assistant:
    """How to know an assistant.

    Attributes:
        code: its name in records.
        names: pattern of whole names that no human bears.
        bare: names that humans bear as well; they count where there is no address, since people have one.
        addresses: whole ones, since people who work for its maker share the host.
        logins: on GitHub; those that end in `[bot]` are names too.
    """

    code: str
    names: re.Pattern[str]
    bare: frozenset[str]
    addresses: frozenset[str]
    logins: frozenset[str]


def _one(code: str, names: str, bare: str = "", addresses: str = "", logins: str = "") -> _Assistant:
    pattern = re.compile(names or r"(?!)", re.IGNORECASE)
    return _Assistant(code, pattern, words(bare), words(addresses), words(logins))


_ASSISTANTS = (
    # Tools that run the models of others come first, since their names may hold a model's.
    _one("aider", rf".*\(aider\)|aider{_MODEL}", "", "noreply@aider.chat aider@aider.chat"),
    _one(
        "cursor",
        rf"cursor ?(?:agent|ai|bot|composer|bugbot){_MODEL}",
        "cursor",
        "cursoragent@cursor.com agent@cursor.com agent@cursor.sh noreply@cursor.com",
        "cursoragent cursor[bot]",
    ),
    _one(
        "copilot",
        rf"(?:github |gh |microsoft )?copilot(?:\[bot\])?{_MODEL}",
        "",
        "copilot@github.com noreply@copilot.github.com",
        "copilot copilot-swe-agent copilot-swe-agent[bot] copilot-connector[bot]",
    ),
    _one("opencode", rf"opencode{_MODEL}", "", "noreply@opencode.ai", "opencode-agent[bot] opencode[bot]"),
    _one(
        "openhands",
        rf"open(?:hands|devin){_MODEL}",
        "",
        "openhands@all-hands.dev opendevin@all-hands.dev",
        "openhands-agent openhands-ai[bot] all-hands-bot",
    ),
    _one("cline", rf"cline[ -](?:bot|ai|agent){_MODEL}", "cline", "noreply@cline.bot", "cline[bot]"),
    _one("roo", rf"roo[ -]?code{_MODEL}", "roo", "roomote@roocode.com", "roomote roomote[bot]"),
    _one("goose", r"goose (?:ai|agent)|codename goose", "goose", "goose@block.xyz opensource@block.xyz"),
    _one("crush", r"crush:.*", "crush", "crush@charm.land crush@charm.sh"),
    _one("amp", rf"amp[ -]?code{_MODEL}|sourcegraph amp{_MODEL}", "amp", "amp@ampcode.com"),
    _one(
        "windsurf",
        rf"windsurf[ -](?:ai|editor|cascade|agent){_MODEL}|codeium{_MODEL}",
        "windsurf cascade",
        "noreply@codeium.com windsurf@codeium.com cascade@windsurf.com noreply@windsurf.com",
        "windsurf-bot[bot]",
    ),
    _one("amazon-q", rf"(?:amazon|aws) q{_MODEL}|q developer", "", "", "amazon-q-developer[bot]"),
    _one("kiro", rf"kiro (?:agent|ai){_MODEL}", "kiro", "noreply@kiro.dev", "kiro-agent[bot]"),
    _one("replit", rf"replit[ -](?:agent|assistant|ai){_MODEL}", "", "agent@replit.com agent@replit.dev"),
    _one("zed", rf"zed (?:ai|agent|assistant){_MODEL}", "zed", "agent@zed.dev"),
    _one(
        "junie",
        rf"jetbrains junie{_MODEL}|junie (?:agent|ai|bot)",
        "junie",
        "junie@jetbrains.com",
        "jetbrains-junie[bot] junie-agent",
    ),
    _one(
        "jules",
        rf"google[ -](?:labs[ -])?jules{_MODEL}|jules (?:ai|agent|bot)",
        "jules",
        "jules@google.com",
        "google-labs-jules google-labs-jules[bot]",
    ),
    _one(
        "devin",
        rf"devin[ .-]ai{_MODEL}",
        "devin",
        "devin@cognition.ai bot@devin.ai devin@devin.ai",
        "devin-ai-integration devin-ai-integration[bot]",
    ),
    _one(
        "factory",
        rf"factory[ -]droid{_MODEL}",
        "droid",
        "droid@factory.ai",
        "factory-droid factory-droid[bot]",
    ),
    _one("warp", rf"warp (?:ai|agent){_MODEL}", "warp oz", "agent@warp.dev oz-agent@warp.dev"),
    _one("coderabbit", rf"code ?rabbit(?:ai)?{_MODEL}", "", "noreply@coderabbit.ai", "coderabbitai[bot]"),
    _one("sweep", rf"sweep[ -]ai{_MODEL}", "sweep", "team@sweep.dev", "sweep-ai[bot] sweep[bot]"),
    _one(
        "sourcery",
        rf"sourcery[ -]ai{_MODEL}",
        "sourcery",
        "hello@sourcery.ai support@sourcery.ai",
        "sourcery-ai[bot] sourcery-ai-bot",
    ),
    _one("lovable", r"lovable\.dev", "lovable", "", "lovable-dev[bot] gpt-engineer-app[bot]"),
    _one("v0", r"v0 by vercel", "v0", "v0@vercel.com", "v0[bot] v0agent"),
    _one(
        "augment",
        rf"augment (?:agent|code){_MODEL}",
        "augment",
        "noreply@augmentcode.com",
        "augmentcode[bot]",
    ),
    _one("trae", rf"trae (?:ai|cli|agent){_MODEL}", "trae", "traecli@bytedance.com"),
    _one(
        "claude",
        r"claude[ -](?:code|ai|opus|sonnet|haiku|agent|assistant|bot|v?\d)\b.*|claude:.*|anthropic claude.*"
        r"|claude ?\([^)]*(?:claude|opus|sonnet|haiku|anthropic|code|\bai\b|\d)[^)]*\)",
        "claude anthropic",
        "noreply@anthropic.com claude@anthropic.com claude-code@anthropic.com",
        "claude claude[bot] claude-code[bot]",
    ),
    _one(
        "codex",
        rf"(?:openai )?codex{_MODEL}|chatgpt{_MODEL}|gpt-?\d(?:\.\d{{1,2}})?o?(?:[ (:/-].*)?"
        r"|openai (?:chatgpt|gpt|o\d).*",
        "openai",
        "codex@openai.com noreply@openai.com chatgpt@openai.com",
        "codex chatgpt-codex-connector[bot] openai-codex[bot]",
    ),
    _one(
        "gemini",
        r"gemini[ -](?:cli|code[ -]assist|ai|pro|flash|ultra|v?\d).*|gemini ?\(.*|gemini:.*|google gemini.*"
        r"|google antigravity.*",
        "gemini antigravity",
        "gemini-cli@google.com",
        "gemini-cli gemini-cli[bot] gemini-cli-robot gemini-code-assist[bot]",
    ),
    _one("qwen", r"qwen[ -]?(?:code|coder|max|plus|v?\d)\b.*|qwen:.*", "qwen", "qwen-coder@alibabacloud.com"),
    _one("kimi", r"kimi[ -](?:code|cli|ai|k\d).*|kimi:.*", "kimi", "kimi@moonshot.ai kimi@moonshot.cn"),
    _one("deepseek", rf"deepseek{_MODEL}"),
    _one("mistral", rf"mistral vibe{_MODEL}|devstral{_MODEL}", "", "vibe@mistral.ai"),
    _one("grok", rf"grok[ -](?:code|build|\d){_MODEL}|grok:.*|xai grok{_MODEL}", "grok", "grok@x.ai"),
)

_FIRST_NAMES = words("claude devin jules junie kimi gemini roo zed kiro trae oz cline")
"""Bare names that a person may sign with as well, without an address."""

_CREDIT = words(
    """
    co-authored-by co-developed-by assisted-by generated-by ai-assisted-by ai-generated-by ai-agent
    authored-by created-by coded-by made-with generated-with assisted-with ai-co-authored-by ai-assistant
    ai-tool ai-model
    """
)
"""Keys of trailers that name who made a change. Reviewers, testers and sponsors made none."""

_TOOL_KEYS = words("assisted-by generated-by made-with generated-with assisted-with")

_SENTENCE = re.compile(
    r"\W{0,6}(co-?authored|generated|created|made|written|assisted|implemented|built|coded|developed)"
    r" (with(?: the help of)?|by|using) (.{1,300})",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[([^\]\[]{1,100})\]")
_MARKS = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        ("amp", r"amp-thread-id: *\S"),
        ("replit", r"replit-commit-author: *(?:agent|assistant)\b"),
        ("devin", r"(?:link to )?devin (?:run|session): *https://app\.devin\.ai/"),
        ("claude", r"(?:claude-session: *)?https://claude\.ai/code/session"),
        ("jules", r"pr created automatically by jules\b"),
    )
)
"""Lines that one assistant writes."""


@functools.lru_cache(maxsize=20_000)
def _assistant(name: str, email: str) -> str | None:
    """The assistant that a name and address belong to; an empty address is that of a tool."""
    folded = name.casefold()
    login = match[1] if (match := NOREPLY.fullmatch(email)) else ""
    for one in _ASSISTANTS:
        if (
            email in one.addresses
            or login in one.logins
            or (folded in one.logins and folded.endswith("[bot]"))
            or (folded in one.bare and not email)
            or one.names.fullmatch(name)
        ):
            return one.code
    return None


def _signed(name: str, email: str) -> str | None:
    """The assistant that signs with this name and address."""
    name, email = " ".join(name[:_MAX_NAME].split()), email[:_MAX_NAME].strip().lower()
    return _assistant(name, email or "?") if name or email else None


def _named(value: str, tool: bool) -> str | None:
    """The assistant that a trailer's value or the end of a sentence names.

    `tool`: a person would not stand there, so that a first name alone tells enough.
    """
    name, bracket, rest = value.partition("<")
    email = rest.partition(">")[0].strip().lower()
    name = name.strip()
    if link := _LINK.match(name):
        name, tool = link[1], True
    if "@" in name and not bracket:
        name, email = "", name.lower()
    name = name.strip(" \t.*_`,;!")
    if not email and not tool and name.casefold() in _FIRST_NAMES:
        return None
    return _assistant(name, email)


def _lines(message: str) -> Iterator[str]:
    """The lines of a message; of a very long one the last, where trailers stand."""
    return (line.strip()[:_MAX_LINE] for line in message.splitlines()[-_MAX_LINES:])


def ai_assistant(
    message: str, author: str = "", email: str = "", committer: str = "", committer_email: str = ""
) -> str | None:
    """The assistant that made a change or had a hand in it, or None.

    It is the author or committer, or a trailer or closing line of the message says so: `Co-authored-by`,
    `Assisted-by: Tool:model`, `Generated with [Tool](...)`, or a line that only one assistant writes.
    Prose that speaks about an assistant does not count.
    """
    if found := _signed(author, email) or _signed(committer, committer_email):
        return found
    for line in _lines(message):
        key, colon, value = line.partition(":")
        if colon and (key := key.lower()) in _CREDIT:
            found = _named(value, key in _TOOL_KEYS or key.startswith("ai-"))
        elif match := _SENTENCE.fullmatch(line):
            # People write and implement things, too; they neither generate them nor are they used.
            found = _named(
                match[3], match[1].lower() in ("generated", "assisted") or match[2].lower() != "by"
            )
        else:
            found = None
        found = found or next((code for code, pattern in _MARKS if pattern.match(line)), None)
        if found:
            return found
    return None
