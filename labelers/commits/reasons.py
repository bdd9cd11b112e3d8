"""Why the stages of commits' labels drop a row: stage, reason code, sentence."""

_PROPOSED = {
    "no_criterion": "no criterion reached the score that a label needs",
    "low_confidence": "the labeler was less sure of the criterion than the recipe asks",
    "too_long": "neither the whole files nor an excerpt are short enough",
    "broken_excerpt": "no excerpt that is short enough parses as well as the whole files",
    "several_pieces": "the edit has several pieces, and none of them has the edit's label by itself",
    "several_purposes": "the edit seems to have more than one purpose",
}
_DECIDED = {
    "not_judged": "no judge was asked about it: `vote` looked at fewer edits",
    "judged_opposed": "the judges prefer the old version under the criterion",
    "judged_tied": "the judges see no difference under the criterion",
    "judged_divided": "the judges do not agree, or change their minds with the order",
    "judged_weak": "the reviews say that the change improves the criterion too little",
    "judged_unspecific": "the reviews say that too little of the change is about the criterion",
    "judged_several_purposes": "the reviews see more than one purpose",
    "judged_no_purpose": "the reviews see no purpose",
    "judged_no_answer": "the judges gave no usable answer",
    "vetoed": "the measures forbid a pair, whatever the label",
    "evidence_disagrees": "what was measured speaks against the criterion",
    "trade_off": "another criterion gets worse",
}

REASONS: dict[str, dict[str, str]] = {
    "label": {},
    "evidence": dict(_PROPOSED),
    "vote": dict(_PROPOSED),
    "instruct": {
        **_PROPOSED,
        **_DECIDED,
        "no_instruction": "no text of the model passed the checks; the pair gets a template",
    },
    "build": {
        "no_split": "the edit is in neither split: `split` dropped it, or looked at fewer edits",
        **_PROPOSED,
        **_DECIDED,
        "same_text": "both versions are the same text",
        "same_when_cut": "both versions are the same up to `max_tokens`, where a reader may cut them",
        "no_instruction": "no instruction passed the checks, and the recipe wants no template",
    },
}
