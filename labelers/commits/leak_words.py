"""Words that give a change away, and words that say nothing: data of `labelers.commits.leaks`.

Patterns ignore case and match whole words. What is listed here is refused whatever the code is about, unless
`leaks` finds that both versions have the word too.
"""

from __future__ import annotations

import re

from labelers.commits.spoken import word_set

_TEXT = r"(?:versions?|snippets?|implementations?|solutions?|excerpts?|variants?|approach(?:es)?)"
_CODE = rf"(?:{_TEXT}|programs?|codes?)"
_EARLIER = (
    r"(?:old|older|newer|earlier|previous|existing|current|original|updated|improved|revised|modified|changed|"
    r"fixed|former|latter)"
)
_WHICH = r"(?:new|first|second|both|two|either|alternative|other)"
_MORE = (
    r"(?:efficient|readable|robust|secure|safe|correct|maintainable|idiomatic|concise|performant|reliable)"
)

CHANGE = re.compile(
    r"\b(?:"
    r"instead of|rather than|previously|formerly|no longer|originally|from now on|currently|before and after|"
    rf"{_WHICH}\s+{_TEXT}|{_EARLIER}\s+(?:{_CODE}|functions?|methods?|class(?:es)?|files?|behaviou?rs?|logic)|"
    rf"the\s+(?:former|latter)|{_CODE}\s+(?:[AB12]|one|two)|{_CODE}\s+[AB1]\s+(?:and|or)\s+[B2]|"
    r"(?:the|this|that|these|those|both)\s+"
    r"(?:changes?|edits?|diffs?|patch(?:es)?|commits?|fix(?:es)?|modifications?|rewrite)|"
    r"refactor\w*|rewrit\w+|rework\w*|improv\w+|enhanc\w+|moderni[sz]\w+|optimi[sz]\w+|"
    r"(?:clean(?:ed|s|ing)?|tid(?:y|ied|ies|ying))[ -]?up|bugs?|buggy|bug-?fix\w*|hot-?fix\w*|"
    r"fix|fixes|fixing|"
    rf"fixed (?:the|a|an|this|that|it|bugs?|issues?|errors?)|(?:more|less|most)\s+{_MORE}\w*|"
    r"faster|slower|safer|cleaner|simpler|clearer|better|worse|regression"
    r")\b",
    re.IGNORECASE,
)
A_AND_B = re.compile(r"(?:(\w+)\s+)?\bA (?:and|or|versus|vs\.?) B\b")
"""Two things with letters for names: the two versions, unless the word before says what they are."""
THINGS = word_set(
    """
    integers numbers strings points arrays lists sets matrices nodes vertices teams players cities
    sequences values vectors words people persons files graphs trees positions variables letters and
    or of with
    """
)

PLACEHOLDER = re.compile(
    r"\[(?:insert|your|add|describe|placeholder|name of|todo|fill)\b[^\]\n]{0,80}\]|"
    r"<(?:insert|your|placeholder|instruction|problem|the)\b[^>\n]{0,80}>|"
    r"\{\{[^{}\n]{1,60}\}\}|\bTODO\b|\bTBD\b|lorem ipsum|\bXXX+\b|\bYOUR_[A-Z_]+\b|_{4,}",
    re.IGNORECASE,
)
REFUSAL = re.compile(
    r"\s*(?:i['’]?m sorry|i am sorry|sorry,|i can(?:['’]t|not| not)\b|i(?:['’]?m| am) (?:unable|not able)|"
    r"as an ai\b|as a language model|i won['’]t\b|unfortunately, i)",
    re.IGNORECASE,
)
PREAMBLE = re.compile(
    r"\s*(?:sure\b|certainly\b|of course[,!]|okay\b|here(?:['’]s| is| are)\s+(?:the|an?|your|my|one)\b|"
    r"instruction\s*:|answer\s*:)",
    re.IGNORECASE,
)

EVERYDAY_TERMS = word_set(
    """
    handle handles ensure ensures respect respects honor honors fail fails failing failure failures
    likely unlikely doc docs documentation documented documenting docstring docstrings comment
    comments style styling heap garbage race feedback extract extracts extracted extraction explain
    explains explained memory allocation allocations rss conflict conflicts indent indentation
    indented whitespace annotation annotations unused lambda lambdas warning warnings formatting api
    apis interface interfaces signature signatures coverage retry retries logger logging metric
    metrics copyright licence license legal panic tracing monitoring fixed fixture fixtures
    """
)
"""Single terms of criteria that a plain request uses too. A longer term with one of them still counts."""
EVERYDAY_PHRASES = frozenset(
    (
        *("make sure", "makes sure", "failed to", "return type", "error message", "error messages"),
        *("test case", "test cases", "tests for", "test for", "log message", "log messages", "log level"),
        "inline comment",
    )
)

STOP = word_set(
    """
    the and for with that this these those from into not are was were been being has have had its
    their our your you they them can could should would will shall may might must does did done
    about above after again against all also although always any anything around because before
    below between both but cannot each either else even ever every few get gets give gives given
    here how however just least less like made make makes many more most much need needs needed next
    none nor nothing off often once one only onto other others out over own per please same several
    since single so some something still such take takes than then there therefore thing things
    through thus together too two three four five under until upon use used uses using very via want
    wants way well what when where whether which while who whole why within without yet add added
    adds adding allow allows allowed apply applies based begin call called calls case cases change
    code contain contains create created creates define defined defines definition definitions
    describe described different display example examples excerpt expected file files follow
    following follows function functions implement implementation implemented implements include
    includes input inputs keep kept language library line lines list lists main module modules name
    named names new number numbers object objects order output outputs part parts pass passed
    program programming project provide provided provides question read reads receive receives reply
    request requests result results return returned returns run runs set sets show shows source
    start string strings support supports supported task takes text type types update value values
    variable variables work works write written class classes method methods complete contents
    answer build hand left rest own words rely relies other given python java javascript typescript
    ruby rust php golang csharp swift kotlin scala shell
    """
)
"""Words that any request may have, so that they tell nothing of a message or of a side."""
