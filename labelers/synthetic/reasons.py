"""Why `synthesize` drops a program: reason code, sentence."""

REASONS: dict[str, str] = {
    "problem_missing": "the row's problem is not in the part beside it",
    "no_candidates": "no candidate of the program was labelled, so its split is not known",
    "no_passing": "no candidate passes the suite, as far as outcomes may be taken",
    "no_pair": "nothing that fails the suite was found or made",
}
