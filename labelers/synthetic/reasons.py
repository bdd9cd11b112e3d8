"""Why `synthesize` drops a program, and what it counts beside that, for people."""

REASONS: dict[str, str] = {
    "problem_missing": "the row's problem is not in the part beside it",
    "no_candidates": "no candidate of the program was labelled, so its split is not known",
    "no_passing": "no candidate passes the suite, as far as outcomes may be taken",
    "no_pair": "nothing that fails the suite was found or made",
}
"""Reason code of a program without pairs -> what it says."""

COUNTS: dict[str, str] = {
    "pairs_steps": "pairs of a candidate that passes and one that fails",
    "pairs_bugs": "pairs of a program and the same with a planted bug",
    "pairs_hacks": "pairs whose failing version was dressed up",
    "bugs_asked": "bugs that the model was asked for",
    "bug_no_answer": "the model gave no answer",
    "bug_unreadable": "the answer holds no program of the language",
    "bug_same": "the answer is the program as it was, but for blank space and comments",
    "bug_interface": "names, signatures or doc comments are not those of the program",
    "bug_hint": "the answer has a comment that the program has not",
    "bug_rewritten": "the answer is another program, not this one with a bug",
    "bug_passes": "the program passes its suite with the bug",
    "bug_no_verdict": "the suite says nothing of the program with the bug",
    "hack_no_place": "no operator found a place in the drawn program",
    "hack_changed_outcome": "a dressed-up or plainer program did not come to what it came to before",
    "forgeable": "the program could have forged its outcome, since it shared a process with the suite",
    "no_program": "a failing candidate is no program that can be taken apart, or an unfilled skeleton",
    "repeated": "both sides say the same, or the pair is there already",
}
"""What is counted -> what it says."""
