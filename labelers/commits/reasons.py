"""Why `label` and `build` drop a row: stage, reason code, sentence."""

REASONS: dict[str, dict[str, str]] = {
    "label": {},
    "build": {
        "no_split": "the edit is in neither split: `split` dropped it, or looked at fewer edits",
        "no_criterion": "no criterion reached the score that a label needs",
        "low_confidence": "the labeler was less sure of the criterion than the recipe asks",
        "too_long": "neither the whole files nor an excerpt are short enough",
        "broken_excerpt": "no excerpt that is short enough parses as well as the whole files",
        "several_pieces": "the edit has several pieces, and none of them has the edit's label by itself",
        "several_purposes": "the edit seems to have more than one purpose",
    },
}
