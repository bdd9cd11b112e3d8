"""Why `label` and `build` drop a row: stage, reason code, sentence."""

REASONS: dict[str, dict[str, str]] = {
    "label": {},
    "build": {
        "no_criterion": "no criterion reached the score that a label needs",
        "low_confidence": "the labeler was less sure of the criterion than the recipe asks",
        "several_purposes": "the edit seems to have more than one purpose",
    },
}
