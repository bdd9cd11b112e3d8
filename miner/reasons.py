"""Why a row was dropped: every reason code of the miner's stages with a sentence for a person.

Reports and documentation print these; a code that is not here is a defect.
"""

from __future__ import annotations

REPOSITORIES = {
    "unusable_repository": "what was given is no repository that can be read, or the same as one before",
    "unreadable_history": "git cannot read the repository's history to its end",
}

MINE = {
    "merge": "the commit has several parents; what it brought is looked at commit by commit",
    "root_commit": "the first commit of a history has no version before it",
    "no_files": "the commit changes no file",
    "several_files": "the commit changes more than one file",
    "not_in_place": "the file was added, deleted, renamed, or only its mode or type changed",
    "gitlink": "the change moves a submodule to another commit",
    "symlink": "the change is to a symbolic link",
    "not_a_source_file": "the file is not a source file of a wanted language",
    "shared_commit": "a repository given earlier has the same commit, as forks do; it is mined from there",
    "path_too_long": "the file's path is longer than any file system takes",
    "path_not_utf8": "the file's path is not UTF-8",
    "lock_file": "a package manager wrote the file to keep what it resolved",
    "vendored": "the file is other people's code, kept in a folder such as node_modules",
    "generated": "a program wrote the file",
    "minified": "the file is minified",
    "message_too_short": "the commit message is too short to say anything",
    "message_too_long": "the commit message is too long, such as a squashed log",
    "low_signal_message": "the commit message says nothing about the change",
    "bad_date": "the commit has no usable date",
    "too_large": "the file is too large",
    "missing_object": "the file's content is not in the repository",
    "binary": "the content has NUL bytes",
    "not_utf8": "the content is not UTF-8",
    "empty_side": "the file is empty before or after",
    "unchanged": "both versions have the same content",
    "unreadable_commit": "git cannot read the commit or its files",
}

SELECT = {
    "line_ends_only": "only line ends changed",
    "whitespace_only": "only whitespace that means nothing changed",
    "format_only": "only the layout of the code changed",
    "comment_only": "only comments changed",
    "docstring_only": "only docstrings, or comments as well, changed",
    "message_not_english": "the message is in none of the wanted languages",
    "too_small": "the file is too small",
    "too_large": "the file is too large",
    "too_few_tokens": "the file has too few tokens",
    "too_many_tokens": "the file has too many tokens",
    "too_many_changed_lines": "too many lines changed",
    "too_many_hunks": "too many places changed",
    "shallow_syntax": "a version holds hardly any code",
    "does_not_parse": "the old version parses and the new one does not",
    "conflict_markers": "the new version holds the markers of a merge that failed",
    "secret": "a version holds what looks like a credential",
    "personal_data": "the changed lines hold an e-mail address of a person",
    "bot": "the author is a known bot",
    "reverted": "a later commit reverts it",
    "ai_assisted": "the message names an assistant",
    "not_merged": "nothing shows that it was reviewed",
    "license_not_allowed": "the licence of the file or repository is not among those wanted",
    "few_stars": "the repository has too few stars",
    "few_contributors": "the repository has too few contributors",
    "few_issues": "the repository has too few issues",
}

MARKS = {
    "line_ends_only": SELECT["line_ends_only"],
    "whitespace_only": SELECT["whitespace_only"],
    "format_only": "only the layout changed: the same tokens but for whitespace, commas, quotes and the like",
    "comment_only": SELECT["comment_only"],
    "docstring_only": SELECT["docstring_only"],
    "import_only": "only imports changed",
    "rename_only": "only names changed, each into one other in the whole file",
    "moved_lines": "the lines added are the lines removed, elsewhere or in another order",
    "test_file": "the file's path is that of tests",
    "personal_data": SELECT["personal_data"],
    "syntax_errors": "the grammar finds an error in the new version",
    "not_parsed": "the file could not be parsed, so that rules of syntax did not apply",
    "stars_unknown": "the repository's stars are not known",
    "contributors_unknown": "the repository's contributors are not known",
    "issues_unknown": "the repository's issues are not known",
}
"""What `select` notes about an edit, kept or dropped."""

DEDUP = {
    "exact_duplicate": "another edit has the same two versions",
    "same_patch": "it is a copy of another commit, such as a cherry-pick: the same patch to the same path",
    "near_duplicate": "another edit made almost the same change to almost the same file",
}

DECONTAMINATE = {
    "contaminated": "the message or a version holds the text of a benchmark",
}

SPLIT = {
    "between_splits": "it was committed when neither train nor test is taken from",
    "other_split_time": "its repository or file is in one split, its time in the other",
    "leaks": "it was meant for test, but train has its patch, its file, its text or nearly the same change",
}

CUT = {
    "not_parsed": "a version cannot be parsed: it is too large, no text, or made to be slow",
}

IMPORT = {
    "line_too_long": "the line or file is longer than the limit",
    "bad_json": "the line or file is not a JSON object",
    "bad_field": "a field is missing, of another type, or not what it should be",
    "no_entry_point": "the solution does not define the entry point",
    "bad_program": "the solution or its suite is not Python that parses",
    "duplicate": "an earlier row of the file is the same one",
}

PROBLEMS = IMPORT | {
    "bad_payload": "packed tests are not one packed text and nothing else, so they were not unpacked",
    "unpacks_too_large": "packed tests are longer, once unpacked, than a row may be",
    "no_reference": "no solution is published with the problem, so there is nothing to take apart",
    "python_2": "every solution that is read is Python 2",
    "language_not_wanted": "no solution is in a language that is read and wanted",
    "no_tests": "the row has no test that can be kept",
    "reads_files": "the program reads or writes files of given names in place of its input and output",
}

PREFERENCES = {code: IMPORT[code] for code in ("line_too_long", "bad_json", "bad_field")} | {
    "duplicate": "an earlier row, of this file or one given before it, has the same texts and aspect",
    "unnamed_class": "language or aspect is a number, and nothing says what it stands for",
    "empty_prompt": "nothing was asked",
    "empty_answer": "an answer is empty",
    "same_answers": "both answers are the same but for blanks around them",
    "too_long": "the prompt or an answer is longer than the limit",
    "different_prompts": "what stands before the two answers is not the same",
    "no_counterpart": "fewer than two answers of the prompt have a score",
    "tie": "both answers are rated the same",
    "small_margin": "the ratings of both answers differ by less than the limit",
    "contradiction": "the rejected answer is rated higher than the chosen one",
}

REASONS: dict[str, dict[str, str]] = {
    "repositories": REPOSITORIES,
    "mine": MINE,
    "select": SELECT,
    "dedup": DEDUP,
    "decontaminate": DECONTAMINATE,
    "split": SPLIT,
    "cut": CUT,
    "problems": PROBLEMS,
    "preferences": PREFERENCES,
    "trajectories": IMPORT,
}
"""Stage -> reason code -> sentence."""
