"""The records that every room reads and writes, one declaration each (see `schemas.declare`).

Field names are those of the published datasets. `TABLES` maps a run directory's folders to them.
"""

from __future__ import annotations

from typing import Any

from schemas.declare import Int8, Int32, Text, column, record, table_of


@record()
class Hunk:
    """One changed region, in the line numbers of a zero-context unified diff (1-based)."""

    old_start: Int32 = column("first old line; the line before the insertion when `old_lines` is 0")
    old_lines: Int32 = column("number of old lines replaced")
    new_start: Int32 = column("first new line; the line before the deletion when `new_lines` is 0")
    new_lines: Int32 = column("number of new lines put there")


@record(table="edits", sort=("repo", "path", "commit_time", "id"))
class Edit:
    """A commit that changed one source file in place: the file before and after, and how it got in."""

    id: str = column("hash of repo, commit and path")
    repo: str = column("owner/name when the origin remote tells, else the folder's name")
    commit: str = column("object id of the commit")
    parent: str = column("object id of its first parent")
    path: str = column("file path inside the repository")
    language: str = column("programming language, in the spelling of the `language` column of pairs")
    old_contents: Text = column("the whole file before the commit")
    new_contents: Text = column("the whole file after the commit")
    old_id: str = column("git's object id of the file before")
    new_id: str = column("git's object id of the file after")
    patch_id: str = column(
        "hash of the change with three lines around it, all whitespace and line numbers left out, "
        "by the recipe of `git patch-id --stable`: the same patch has the same id on every branch and fork"
    )
    subject: str = column("first line of the commit message")
    message: Text = column("the whole commit message")
    author_time: int = column("author time, seconds since 1970 UTC")
    commit_time: int = column("committer time, seconds since 1970 UTC")
    license: str | None = column(
        "SPDX expression of the repository's licence files; null when none was recognised"
    )
    file_license: str | None = column(
        "SPDX expression of the file's own header, by tag or by notice; null when it has none"
    )
    merged_by: str | None = column(
        "how it got in: `pr:<n>`, `mr:<n>`, `change:<n>` (Gerrit), `revision:D<n>` (Phabricator), "
        "`review-trailer`, `mailing-list`, `merge-commit`; null when git does not tell"
    )
    reverted_by: str | None = column("commit that reverts this one; null when none in this history")
    reverted_how: str | None = column(
        "`message` when `reverted_by` says so, `content` when it puts the old file back; null when neither"
    )
    cherry_picked_from: str | None = column(
        "commit that the message says this one was picked from, as written there; null when it names none"
    )
    bot: bool = column("the author is a known bot")
    ai_assisted: str | None = column("assistant that made it or that a trailer names; null when none")
    companions: list[str] = column(
        "paths of the tests, documents, changelogs and examples that the commit changed too; empty for most"
    )
    hunks: list[Hunk] = column("changed regions, top to bottom")
    lines_added: Int32 = column("lines only in the new file")
    lines_removed: Int32 = column("lines only in the old file")


@record(table="repositories", sort=("repo", "head"))
class RepositoryFacts:
    """What is known of a mined repository: from git itself, and from a forge where somebody asked it."""

    repo: str = column("owner/name when the origin remote tells, else the folder's name")
    url: str | None = column("where it was fetched from, without credentials; null for a local path")
    head: str = column("object id of the newest commit that was mined")
    object_format: str = column("`sha1` or `sha256`")
    roots: list[str] = column("commits without parents that `head` reaches; forks of one project share them")
    commits: int = column("commits that `head` reaches")
    first_commit_time: int | None = column("committer time of the oldest commit, seconds since 1970 UTC")
    last_commit_time: int | None = column("committer time of `head`, seconds since 1970 UTC")
    license: str | None = column("SPDX expression of its licence files; null when none was recognised")
    license_files: list[str] = column("names of the licence files at the top of `head`'s tree")
    contributors: int = column("distinct authors of its commits, bots left out, one a name or address")
    stars: int | None = column("stars on its forge; null when not known")
    issues: int | None = column("issues on its forge, open and closed; null when not known")
    fork_of: str | None = column("owner/name that the forge says it was forked from; null when not known")
    known_from: str | None = column("where stars and issues come from: a file's name or a forge's host")


@record(table="verdicts", sort=("stage", "id"))
class Verdict:
    """What a stage decided about one row. A dropped row stays here with its reason."""

    id: str = column("id of the row; `repo@commit` for a commit that never became an edit")
    stage: str = column("stage that decided")
    keep: bool = column("whether the row went on")
    reason: str | None = column("reason code of the drop; null when kept")
    detail: str | None = column("what a person would want to know about it, in a few words")
    marks: list[str] = column("what a stage noted about a row without dropping it, such as `comment_only`")


@record()
class CriterionScore:
    """How strongly one criterion is supported for one edit."""

    criterion: str = column("criterion code: FC, RE, ME, SH, RM, or a user's own")
    score: float = column("0 to 1: estimated probability that the edit improves this criterion")


@record(table="labels")
class Label:
    """A labeler's decision about an edit: which criterion it improves, if any."""

    id: str = column("id of the edit")
    labeler: str = column("who decided: name and version")
    method: str = column("`rule`, `classifier`, `model` or `execution`")
    criterion: str | None = column("the criterion that the edit improves most; null when none is supported")
    confidence: float = column("0 to 1: estimated probability of `criterion`; 0 when null")
    single_intent: float = column("0 to 1: estimated probability that the edit has one purpose")
    scores: list[CriterionScore] = column("every criterion with its score, in the criteria file's order")
    terms: list[str] = column("the terms of the message and change that spoke for `criterion`")


@record(table="splits", sort=("id",))
class SplitAssignment:
    """The split of an edit, decided so that nothing of one split is known to the other."""

    id: str = column("id of the edit")
    split: str = column("`train` or `test`")
    group: str = column("what was kept together: hash of the repositories, or of the file or commit")


@record(table="excerpts", sort=("edit_id", "piece"))
class Excerpt:
    """The changed functions and classes of an edit with the lines that they need, or one purpose of it."""

    id: str = column("hash of the edit's id, the piece and both contents")
    edit_id: str = column("id of the edit")
    piece: Int32 = column("which of the edit's separate changes this is, counted from 0")
    pieces: Int32 = column("separate changes of the edit; 1 when all of it hangs together")
    names: list[str] = column("qualified names of the changed functions and classes; empty outside of any")
    old_contents: Text = column("the excerpt before the change")
    new_contents: Text = column("the excerpt after the change")
    hunks: list[Hunk] = column("the changed regions of this piece, in the line numbers of the whole files")
    tokens: Int32 = column("estimated tokens of the longer side")
    file_tokens: Int32 = column("estimated tokens of the longer whole file")
    parses: bool = column("both sides parse without error, as far as the whole files do")


@record()
class Measure:
    """One number that was measured on both versions."""

    name: str = column("what was measured, such as `complexity`, `lint` or `findings`")
    old: float | None = column("its value for the old version; null when it could not be measured")
    new: float | None = column("its value for the new version; null when it could not be measured")
    tool: str = column("what measured it: tool and version")


@record()
class Bearing:
    """What the measures say about one criterion."""

    criterion: str = column("criterion code")
    verdict: str = column("`agrees` that the new version is better, `disagrees`, or `silent`")
    by: list[str] = column("names of the measures that say so")


@record(table="evidence", sort=("edit_id", "id"))
class Evidence:
    """What was measured about a change, without a model."""

    id: str = column("id of the view: hash of the edit and the piece, or of the edit and `file`")
    edit_id: str = column("id of the edit")
    piece: Int32 | None = column("which piece of the edit; null for whole files")
    measures: list[Measure] = column("what was measured on both versions")
    bearings: list[Bearing] = column("every criterion with what the measures say, in the criteria's order")
    veto: str | None = column("why no pair may be made of it, whatever the label; null when nothing is")
    notes: list[str] = column("what could not be measured and why, and what else was seen, as short codes")


@record()
class VoteCount:
    """How one judge voted under one criterion, in one order of the versions."""

    judge: str = column("model that was asked")
    criterion: str = column("criterion code")
    order: str = column("`old_first` or `new_first`: which version was shown as A")
    new: Int32 = column("votes for the new version")
    old: Int32 = column("votes for the old version")
    tie: Int32 = column("votes for neither")
    error: Int32 = column("samples without a usable answer")


@record()
class Review:
    """One judge's review of the change under its criterion."""

    judge: str = column("model that was asked")
    strength: Int8 | None = column(
        "1 to 5: how much the change improves the criterion; null without an answer"
    )
    specificity: Int8 | None = column("1 to 5: how much of the change serves the criterion; null likewise")
    purposes: Int8 | None = column("separate purposes that the judge sees in the change; null likewise")
    summary: Text | None = column("what the change does, in the judge's words; null likewise")


@record(table="votes", sort=("edit_id", "id"))
class Votes:
    """What models said of a change, and what follows from it."""

    id: str = column("id of the view: hash of the edit and the piece, or of the edit and `file`")
    edit_id: str = column("id of the edit")
    piece: Int32 | None = column("which piece of the edit; null for whole files")
    criterion: str = column("the criterion that was put before the judges")
    decision: str = column(
        "`confirmed`, or why not: `opposed`, `tied`, `divided`, `weak`, `unspecific`, `several_purposes`, "
        "`no_purpose`, `no_answer`"
    )
    share: float = column(
        "share of the votes under `criterion` that are for the new version; a tie is half a vote"
    )
    strength: float | None = column("mean strength of the reviews; null without any")
    specificity: float | None = column("mean specificity of the reviews; null without any")
    counts: list[VoteCount] = column("votes by judge, criterion and order; of other criteria too")
    reviews: list[Review] = column("one entry a judge that was asked for a review")
    better: list[str] = column("other criteria under which the judges prefer the new version")
    worse: list[str] = column("other criteria under which the judges prefer the old version: trade-offs")
    prompts: list[str] = column("templates that the judges were asked by, with their versions")
    calls: Int32 = column("answers that these decisions rest on, repairs left out")


@record(table="instructions", sort=("edit_id", "id"))
class Instruction:
    """A request that either version could answer, written by a model."""

    id: str = column("id of the view: hash of the edit and the piece, or of the edit and `file`")
    edit_id: str = column("id of the edit")
    piece: Int32 | None = column("which piece of the edit; null for whole files")
    text: Text = column("the request")
    kind: str = column(
        "`inverse`: from the change; `recovered`: a statement that both versions solve; `template`: by rules"
    )
    style: str = column("style that was drawn")
    by: str = column("model that wrote it")
    prompt_version: str = column("template that the model was asked by")
    spoken: str = column("natural language of the text, ISO 639-1")
    attempts: Int32 = column("texts that the model was asked for until one passed the checks")
    refused: list[str] = column("why the earlier ones were refused, as reason codes")


@record()
class PairEvidence:
    """What the label of a pair rests on."""

    edit_id: str | None = column("id of the edit that the pair was built from; null when there is none")
    labeler: str = column("who gave the criterion")
    method: str = column("`rule`, `classifier`, `model`, `execution`, or `published` for an imported pair")
    confidence: float = column("the labeler's estimated probability, 0 to 1")
    single_intent: float | None = column(
        "estimated probability that the edit has one purpose; null without edit"
    )
    scores: list[CriterionScore] = column("every criterion's score")
    terms: list[str] = column("terms that spoke for the criterion")
    subject: str | None = column("first line of the commit message; null when there is none")
    merged_by: str | None = column("how the commit got in, as in `edits`; null when git does not tell")
    instruction_by: str = column("what wrote `input`: template or model, with the template's version")
    instruction_kind: str = column("`template`, `inverse`, `recovered`, or `given` with the source")
    instruction_style: str | None = column("style that was drawn; null when none was")
    system_kind: str = column(
        "`none`, `all`, `single` or `several`: which system prompt was drawn; `given` with the source"
    )
    level: str = column(
        "`file`: both versions are whole files; `function`: excerpts; `answer`: anything else"
    )
    names: list[str] = column("qualified names of the changed definitions of an excerpt; empty for files")
    measures: list[Measure] = column("what was measured on both versions; empty without the stage `evidence`")
    bearings: list[Bearing] = column("what the measures say about each criterion; empty likewise")
    share: float | None = column("share of the judges' votes for `chosen`; null without votes")
    strength: float | None = column("mean of the judges' 1 to 5 for strength; null without reviews")
    specificity: float | None = column("mean of the judges' 1 to 5 for specificity; null likewise")
    votes: list[VoteCount] = column("votes by judge, criterion and order; empty without votes")
    trade_offs: list[str] = column("criteria under which the other version is better")
    made_by: str | None = column(
        "what made `rejected` or `chosen` of a synthetic pair; null for real commits"
    )
    detail: str | None = column(
        "what exactly was done, or the published id; null when there is nothing to say"
    )


@record(table="pairs", sort=("repo", "path", "idx"))
class PreferencePair:
    """Two versions of a file with a preference under one criterion. A superset of the columns of
    Themis-CodePreference, with its names and label spellings."""

    system: Text = column("system prompt; empty when none was drawn")
    input: Text = column("the instruction that either version could answer")
    chosen: Text = column("the preferred version")
    rejected: Text = column("the other version")
    language: str = column("programming language; `NL` for prose")
    aspect: str = column("criterion, spelled out")
    source: str = column("where the pair comes from")
    idx: str = column(
        "id of the pair: hash of its edit and criterion, and of the piece for an excerpt; of its source, "
        "texts and aspect when imported"
    )
    repo: str | None = column("repository of the edit; null when there is none")
    commit: str | None = column("object id of the commit; null when there is none")
    path: str | None = column("file path inside the repository; null when there is none")
    license: str | None = column(
        "SPDX expression of the file's own header, else of the repository; null when neither is known"
    )
    evidence: PairEvidence = column("what the label rests on")
    split: str = column("`train` or `test`")


@record(table="synthetic", sort=("source", "idx"))
class SyntheticPair(PreferencePair):
    """A pair of which one version was made on purpose: a planted fault, or a rewrite to mislead a judge."""


@record(table="preferences", sort=("source", "idx"))
class ImportedPair(PreferencePair):
    """A pair of a published preference set, in the columns of our own."""


@record()
class ProblemTest:
    """One piece of a problem's suite."""

    kind: str = column("`check` (source of `def check(candidate)`), `assert`, `unittest`, `stdin` or `call`")
    code: Text | None = column("source of the test; null for `stdin` and `call`")
    stdin: Text | None = column("standard input; null unless kind is `stdin`")
    stdout: Text | None = column("expected standard output; null unless kind is `stdin`")
    args: Text | None = column("arguments of a call as a JSON list; null unless kind is `call`")
    expected: Text | None = column(
        "what the call returns, as JSON; null unless kind is `call`, and where the reference decides"
    )


@record(table="problems", sort=())
class Problem:
    """A programming problem as published, with its reference solution and suite."""

    id: str = column("hash of source, name, language, prompt, solution and tests")
    name: str = column("the problem's name in its source, such as HumanEval/7")
    prompt: Text = column("statement as shown to a model")
    language: str = column("programming language of the solution")
    entry_point: str | None = column("function that the suite calls; null for a program that reads its input")
    solution: Text = column("the whole reference program")
    references: list[Text] = column("other published solutions in this language, tried in order after it")
    tests: list[ProblemTest] = column("the suite")
    tolerance: float = column("difference up to which numbers that calls return are equal; 0 for exact")
    time_limit_s: float | None = column("seconds that a run may take; null when the source does not tell")
    memory_limit_mb: Int32 | None = column("MiB that a run may take; null when the source does not tell")
    source: str = column("file or dataset it was imported from")
    license: str | None = column("SPDX id of the problem set's licence; null when the source does not tell")
    difficulty: str | None = column("difficulty as its source tells it; null when not known")
    released: str | None = column("date on which it was published, YYYY-MM-DD; null when not known")
    url: str | None = column("where it was published; null when not known")


@record()
class FunctionSpan:
    """A function of a program: a step."""

    name: str = column("qualified name, such as `solve` or `Stack.push`")
    kind: str = column("`function`, `method`, `constructor` or `property`")
    start_byte: int = column("first byte of the definition, decorators included (UTF-8)")
    end_byte: int = column("one past its last byte")
    signature: str = column("the definition up to its body, as written, decorators left out")
    docstring: Text | None = column("docstring or doc comment as written, without its marks; null when none")
    calls: list[str] = column("functions of the same program that it calls, in order of first call")
    depth: Int32 = column("levels of its syntax tree")


@record(table="programs", sort=())
class Program:
    """A solution decomposed into functions."""

    id: str = column("hash of the problem's id and the code")
    problem_id: str = column("id of the problem")
    problem: str = column("name of the problem in its source")
    language: str = column("programming language")
    entry_point: str | None = column("function that the suite calls; null for a program that reads its input")
    code: Text = column("the whole program; it passes the problem's suite")
    functions: list[FunctionSpan] = column("its functions, in order of position; byte spans index `code`")
    skeleton: Text = column("`code` with each body replaced by one that does nothing, docstrings kept")
    decomposed_by: str = column("`as-written`, `extracted-1` (helpers cut out), or the model that rewrote it")
    prompt_version: str | None = column("template that the model was asked by; null without a model")
    suite_kind: str = column(
        "`split`: tests and program in sandboxes of their own; `unittest`: in one process, since values "
        "cannot travel; `calls` or `script`: compared outside; `mixed`: several of these"
    )


@record(table="tests", sort=())
class FunctionTest:
    """A unit test of one function: a call and the value that the reference gives."""

    id: str = column("hash of program, function and call")
    program_id: str = column("id of the program")
    function: str = column("qualified name of the function under test")
    call: Text = column("arguments in the sandbox's tagged encoding")
    expected: Text = column("value or error of the reference, in the same encoding")
    shown: Text = column("call and expected outcome as a person would write them, cut to a line")
    source: str = column(
        "`harvested` from the original suite, `mutated` or `generated` inputs, or the model that wrote it"
    )
    kills: list[Int32] = column("indices of the function's mutants (table `suites`) on which it fails")
    timeouts: list[Int32] = column("of `kills`, those that did not end in time")
    mutants: Int32 = column("mutants of the function that were tried")
    selected: bool = column("in the smallest greedy set with the same kills")


@record()
class MutantFate:
    """A fault that was put into a function of the reference, and what its tests made of it."""

    operator: str = column("mutation operator")
    detail: str = column("line and change, for a person")
    killed: bool = column("a test fails on it, by a timeout too")
    timeout: bool = column("it was killed by nothing but time")


@record()
class Count:
    """A reason and how often it was met."""

    reason: str = column("reason code")
    count: Int32 = column("how often")


@record(table="suites", sort=())
class FunctionSuite:
    """What is known of one function's unit tests: how many, how sharp, and what became of the others."""

    id: str = column("hash of program and function")
    program_id: str = column("id of the program")
    function: str = column("qualified name of the function")
    tests: Int32 = column("tests that were kept")
    selected: Int32 = column("of these, in the smallest greedy set with the same kills")
    mutants: list[MutantFate] = column(
        "the faults that tests were tried on, in order of `tests.kills`; the first does nothing"
    )
    mutation_score: float | None = column(
        "share of the mutants that are killed, the first left out; null without tests or mutants"
    )
    coverage: float | None = column(
        "share of the function's statements that kept tests run; null without tests"
    )
    dropped: list[Count] = column("calls that became no test, by reason")
    reason: str | None = column("why it has no test; null when it has one")


@record()
class Generator:
    """What made a candidate."""

    model: str = column("model name, or `reference`, `variant-1` or `mutation-1`")
    temperature: float | None = column("sampling temperature; null when not sampled")
    seed: int = column("seed of the draw")
    detail: str | None = column("for a mutation: operator and place; for a sample: its number")
    prompt_version: str | None = column("template that the model was asked by; null when not known")


@record()
class Piece:
    """A run of bytes that a completion and the program in it have in common."""

    program_byte: int = column("first byte in the program (UTF-8)")
    completion_byte: int = column("first byte in the completion (UTF-8)")
    bytes: int = column("length")


@record(table="candidates", sort=())
class Candidate:
    """A completion of a program's skeleton, not yet judged."""

    id: str = column("hash of program and completion, and of the model that wrote it")
    problem_id: str = column("id of the problem")
    program_id: str = column("id of the program whose skeleton was completed")
    completion: Text = column("the text as the model wrote it, prose and fences included")
    program: Text | None = column("the program found in `completion`; null where that is all of it")
    pieces: list[Piece] = column(
        "where parts of `program` stand in `completion`; empty where it is all of it"
    )
    fault: str | None = column(
        "what is wrong with the text at sight: `empty`, `prose`, `other_language`, `tests_only`, `unfilled` "
        "(the skeleton as it was), `broken` (`program` is what of it stands by itself); null when nothing is"
    )
    generator: Generator = column("what made it")


@record()
class Step:
    """The label of one function of a candidate."""

    name: str = column("qualified name of the function")
    start_byte: int = column("first byte of the function in `completion` (UTF-8)")
    end_byte: int = column("one past its last byte; equal to `start_byte` where the completion lacks it")
    label: Int8 | None = column("the label that counts: one of those below, as the recipe says")
    reference_label: Int8 | None = column(
        "1 all its tests pass beside the reference's other functions, 0 one fails, null no test or verdict"
    )
    suite_label: Int8 | None = column(
        "the same by the tests alone whose calls the suite makes (`harvested`); null without any or verdict"
    )
    own_label: Int8 | None = column("the same beside the candidate's own other functions")
    judge_label: Int8 | None = column("what a model said of it without running it; null when not asked")
    tests_run: Int32 = column("unit tests that gave a verdict beside the reference's functions")
    tests_passed: Int32 = column("of these, passed")
    reason: str = column(
        "`passed`, `failed`, `no_tests`, `missing`, `syntax_error`, `not_grafted`, or the sandbox's status"
    )
    own_reason: str = column("the same beside the candidate's own functions")
    first_failure: Text | None = column("first failing call: what was expected and what came; null when none")
    mutation_score: float | None = column("mutation score of its tests; null without tests")
    trust: str = column("`external`: values compared outside of the sandbox; `none` without a run")


@record(table="steps", sort=())
class StepLabeledCandidate:
    """A candidate with its outcome and one label a function."""

    id: str = column("id of the candidate")
    problem_id: str = column("id of the problem")
    program_id: str = column("id of the program whose skeleton was completed")
    prompt: Text = column("statement and skeleton as shown to a model")
    completion: Text = column("the text as the model wrote it; byte offsets of `steps` index it as UTF-8")
    program: Text | None = column("the program in it that was run; null where that is all of it")
    outcome: Int8 | None = column("1 passes the problem's suite, 0 fails it, null no verdict")
    outcome_reason: str = column("`passed`, the sandbox's status, or the candidate's fault")
    outcome_detail: Text | None = column("what failed first; null when nothing did")
    trust: str = column("of the outcome: `external`, `split` or `inproc` (which a program could forge)")
    steps: list[Step] = column("one entry a function of the reference program")
    conflict: str = column(
        "`o1_z0` passes though a step fails, `o0_allz1` fails though every labelled step passes, else `none`"
    )
    language: str = column("programming language")
    source: str = column("file or dataset of the problem")
    license: str | None = column("SPDX id of the problem set's licence; null when not known")
    generator: Generator = column("what made the candidate")
    isolation: str = column("backend and layers that ran it")
    limits: str = column("bounds of the suite's and of the steps' runs")
    split: str = column("`train` or `test`; all candidates of a problem are in one split")


@record()
class ToolCall:
    """A tool call of an assistant message."""

    id: str | None = column("call id; null when the source has none")
    name: str = column("tool name")
    arguments: Text = column("arguments as JSON text")


@record()
class Message:
    """One message of a trajectory."""

    role: str = column("`system`, `user`, `assistant` or `tool`")
    content: Text = column("text of the message; empty when there is none")
    name: str | None = column("tool name of a tool message; null otherwise")
    tool_call_id: str | None = column("the call that a tool message answers; null otherwise")
    tool_calls: list[ToolCall] = column("calls that an assistant message makes")


@record(table="trajectories", sort=("instance_id", "id"))
class Trajectory:
    """An agent's whole attempt at one task, with whether it resolved it."""

    id: str = column("hash of instance, messages and patch")
    instance_id: str = column("the task")
    messages: list[Message] = column("the conversation, in order")
    patch: Text | None = column("the final patch; null when the source has none")
    resolved: bool | None = column("whether the fail-to-pass tests pass after it; null when not known")
    policy: str | None = column("model that acted; null when not known")
    source: str = column("file or dataset it was imported from")
    split: str = column("`train` or `test`; all trajectories of an instance are in one split")


@record(table="scores")
class Score:
    """A model's scores of one pair, as the evaluation saw them."""

    id: str = column("`idx` of the pair")
    aspect: str = column("criterion, spelled out")
    language: str = column("programming language")
    chosen_score: float = column("score of the preferred version")
    rejected_score: float = column("score of the other version")


@record(sort=("instance_id", "id"))
class TrajectoryScore:
    """What a verifier says of one trajectory."""

    id: str = column("id of the trajectory")
    instance_id: str = column("the task")
    resolved: bool = column("whether the fail-to-pass tests pass after it")
    score: float = column(
        "log-odds that it is resolved, over the temperature that the verifier was trained at"
    )


@record(sort=())
class KtoExample:
    """A prompt, an answer, and whether the answer is wanted, as trainers of unpaired preferences read it.

    They read the first three columns; the others say what the label rests on."""

    prompt: Text = column("statement and program as shown to a model")
    completion: Text = column("the answer: a whole completion, or the text of one function")
    label: bool = column("whether the answer is right")
    id: str = column("hash of level, labels, prompt and completion")
    problem_id: str = column("id of the problem")
    program_id: str = column("id of the program whose skeleton was completed")
    candidate_id: str = column("id of the candidate that the answer is of; the first of several that gave it")
    function: str | None = column("qualified name of the function; null where the answer is a whole program")
    labels: str = column("which label it is: `outcome`, `counted`, `reference`, `own` or `judge`")
    reason: str = column("why it has this label")
    trust: str = column("`external`, `split`, `inproc` (which a program could forge), or `judge`")
    tests_run: Int32 | None = column("unit tests of the function that gave a verdict; null for other labels")
    mutation_score: float | None = column("mutation score of these tests; null where not known")
    generator: str = column("what made the candidate")
    language: str = column("programming language")
    source: str = column("file or dataset of the problem")
    license: str | None = column("SPDX id of the problem set's licence; null when not known")
    split: str = column("`train` or `test`")


@record(sort=())
class DpoExample:
    """A prompt with a right and a wrong answer, as trainers of preferences read it.

    They read the first three columns; the others say what the preference rests on."""

    prompt: Text = column("statement and program as shown to a model")
    chosen: Text = column("the right answer: a whole completion, or the text of one function")
    rejected: Text = column("the wrong one")
    id: str = column("hash of level, labels, prompt and both answers")
    problem_id: str = column("id of the problem")
    program_id: str = column("id of the program whose skeleton was completed")
    chosen_id: str | None = column("candidate that the right answer is of; null for the reference's own text")
    rejected_id: str = column("candidate that the wrong answer is of")
    function: str | None = column("qualified name of the function; null where answers are whole programs")
    labels: str = column("by which label: `outcome`, `counted`, `reference`, `own` or `judge`")
    reason: str = column("why the wrong answer is wrong")
    trust: str = column("of the wrong answer: `external`, `split`, `inproc` or `judge`")
    chosen_generator: str = column("what made the right answer")
    rejected_generator: str = column("what made the wrong answer")
    language: str = column("programming language")
    source: str = column("file or dataset of the problem")
    license: str | None = column("SPDX id of the problem set's licence; null when not known")
    split: str = column("`train` or `test`")


@record()
class Turn:
    """A message of an exported conversation."""

    role: str = column("`user` or `assistant`")
    content: Text = column("text of the message")


EXPORTS: dict[str, type[Any]] = {"kto": KtoExample, "dpo": DpoExample}
"""Record type of every export, by the name of the trainers that read it."""

TABLES: dict[str, type[Any]] = {
    table_of(cls): cls
    for cls in (
        Edit,
        RepositoryFacts,
        Verdict,
        Label,
        SplitAssignment,
        Excerpt,
        Evidence,
        Votes,
        Instruction,
        PreferencePair,
        SyntheticPair,
        ImportedPair,
        Problem,
        Program,
        FunctionTest,
        FunctionSuite,
        Candidate,
        StepLabeledCandidate,
        Trajectory,
        Score,
    )
}
"""Record type of every table of a run directory, by folder name."""

PAIR_TABLES = ("pairs", "synthetic", "preferences")
"""Tables of preference pairs, all with the same columns."""

SPLIT_TABLES = (*PAIR_TABLES, "steps", "trajectories")
"""Tables that are published: one subfolder a split."""
