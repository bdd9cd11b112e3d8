"""What a model card says of each objective: what the model is for, the formula, its measures, how to load it.

Data only: `trainers.card` puts it together with what a run's `run.json` holds.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of model.

    Attributes:
        title: of the card.
        pipeline: the Hub's name of what it does.
        tags: of the card, besides those of all.
        gives: what it gives, a sentence or two.
        intended: what it is meant for, and what not.
        use: code that loads it, in Python.
        serving: what is known of serving it.
    """

    title: str
    pipeline: str
    tags: tuple[str, ...]
    gives: str
    intended: str
    use: str
    serving: str


_CLASSIFIER = """import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder = "."  # this folder, or its id on the Hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
messages = [
    {"role": "user", "content": "Write a function that adds two numbers."},
    {"role": "assistant", "content": "def add(a, b):\\n    return a + b\\n"},
]
inputs = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)
with torch.inference_mode():
    print(model(**inputs).logits.item())"""

_POLICY = """import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder, or its id on the Hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
messages = [{"role": "user", "content": "Write a function that adds two numbers."}]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
)
with torch.inference_mode():
    answer = model.generate(**inputs, max_new_tokens=256, do_sample=False)
print(tokenizer.decode(answer[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))"""

_VERIFIER = """import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder
told = json.loads((Path(folder) / "verifier.json").read_text())
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
patch = "--- a/add.py\\n+++ b/add.py\\n@@ -1 +1 @@\\n-    return a - b\\n+    return a + b\\n"
messages = [
    {"role": "user", "content": "add(1, 2) gives -1. Fix it."},
    {"role": "assistant", "content": "The sign is wrong. I change it."},
    {"role": "user", "content": f"The final patch:\\n\\n```diff\\n{patch}```\\n\\n{told['question']}"},
]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True, **told["template"]
)
with torch.inference_mode():
    logits = model(**inputs).logits[0, -1].float()
log_odds = (logits[told["yes_id"]] - logits[told["no_id"]]) / told["temperature"]
print(torch.sigmoid(log_odds).item())"""

_NOT_RUN = "vLLM itself was not run on it."
_SERVED_CLASSIFIER = (
    "The files are what vLLM documents for reward models: `vllm serve FOLDER --runner pooling`, then the "
    f"task `classify`, which gives the score as it is since `problem_type` is `regression`. {_NOT_RUN}"
)
_SERVED_CAUSAL = (
    f"The files are those of any causal language model, which `vllm serve FOLDER` takes. {_NOT_RUN}"
)
_SERVED_VERIFIER = (
    "vLLM documents how it makes a classifier of two words of a causal language model: `vllm serve FOLDER "
    '--runner pooling --hf-overrides \'{"architectures": ["...ForSequenceClassification"], '
    '"classifier_from_token": ["NO", "YES"], "method": "from_2_way_softmax"}\'`, with the architecture\'s '
    "name and this model's words, the second for resolved; that is the probability at temperature 1. "
    f"{_NOT_RUN}"
)

_JUDGES = (
    "Meant for ranking answers to one prompt: best-of-k selection, filtering of training data, a reward "
    "signal. A score is no proof that code is right or safe; run tests where there are any. A policy that "
    "is trained against it will find what it overrates."
)
_REWARD = Kind(
    title="Code reward model",
    pipeline="text-classification",
    tags=("reward-model",),
    gives="It gives one score a conversation; a higher score is better, and only differences between "
    "answers to the same prompt mean something.",
    intended=_JUDGES,
    use=_CLASSIFIER,
    serving=_SERVED_CLASSIFIER,
)
_WRITES = Kind(
    title="Code policy",
    pipeline="text-generation",
    tags=("policy",),
    gives="It writes code in answer to a prompt.",
    intended="Meant for programming problems like those that it was trained on. What it writes is not "
    "checked: run it in a sandbox, with tests.",
    use=_POLICY,
    serving=_SERVED_CAUSAL,
)
_VERIFIES = Kind(
    title="Trajectory verifier",
    pipeline="text-generation",
    tags=("reward-model", "verifier"),
    gives="It reads an agent's whole attempt at a task, with the final patch, and gives the probability "
    "that the task is resolved, read from one token.",
    intended="Meant for picking the best of several attempts at a task, and as a reward. The probability "
    "is as well calibrated as the table below says on attempts like those that it was trained on; "
    "other policies, tools and tasks may shift it. It is no proof that a patch is right: run "
    "tests where there are any. A policy that is trained against it will find what it overrates.",
    use=_VERIFIER,
    serving=_SERVED_VERIFIER,
)

KINDS = {
    "bt": _REWARD,
    "pointwise": dataclasses.replace(
        _REWARD,
        gives="It gives one score a conversation, an estimate of the number named in the formula below.",
    ),
    "dpo": _WRITES,
    "kto": _WRITES,
    "step-kto": _WRITES,
    "yesno": _VERIFIES,
    "joint": _VERIFIES,
}

FORMULAS = {
    "bt": (
        "L = -log sigma(r_c - r_r - margin) + lm_weight * LM + magnitude_weight * magnitude, means over "
        "pairs of chosen and rejected rewards r; LM is the mean cross-entropy of the chosen answer's "
        "tokens (Themis, 2605.00754)"
    ),
    "pointwise": "L = the mean of `regression` between the score and the column `target`",
    "dpo": "L = -log sigma(beta * (r_c - r_r)), r = log pi(y|x) - log pi_ref(y|x) (DPO, 2305.18290)",
    "kto": (
        "L = mean of w - v, v = w * sigma(beta * (r - z0)) of a right and w * sigma(beta * (z0 - r)) of a "
        "wrong program, r = log pi(y|x) - log pi_ref(y|x), z0 the mean r of mismatched prompts and "
        "programs, at least 0 (KTO, 2402.01306)"
    ),
    "step-kto": (
        "L = KTO of programs + step_weight * KTO of their functions, whose r is summed over the function's "
        "tokens (Step-KTO, 2501.10799; STEP-KTODER, 2608.23632)"
    ),
    "yesno": (
        "L = -log p(answer) of the one token after the question (SWE-RM, 2512.21919); the probability is "
        "sigma((l_yes - l_no) / temperature)"
    ),
    "joint": (
        "L = rank_weight * ranking + class_weight * classification + brier_weight * Brier, of the log-odds "
        "d = (l_yes - l_no) / temperature: the mean of -log sigma(d_resolved - d_unresolved) inside a task, "
        "cross-entropy, and (sigma(d) - resolved)^2"
    ),
}

_CUTTING = ("min_completion", "long_prompt")
SETTINGS = {
    "bt": (
        *("lm_weight", "magnitude_weight", "magnitude", "margin", "label_smoothing", "soft_labels"),
        *("truncation", *_CUTTING),
    ),
    "pointwise": ("target", "regression", *_CUTTING),
    "dpo": ("beta", "label_smoothing", "truncation", *_CUTTING),
    "kto": (
        *("beta", "desirable_weight", "undesirable_weight", "together", "step_label", "conflicts"),
        *_CUTTING,
    ),
    "step-kto": (
        *("beta", "desirable_weight", "undesirable_weight", "step_weight", "step_label", "step_reference"),
        *("conflicts", "together", *_CUTTING),
    ),
    "yesno": ("yes_token", "no_token", "temperature", "positives", "policies", "together"),
    "joint": (
        *("yes_token", "no_token", "temperature", "positives", "policies", "together"),
        *("rank_weight", "class_weight", "brier_weight"),
    ),
}
"""Settings that mean something to an objective; those of none of them do to all."""

_RIGHT_ORDER = {
    "accuracy": "share of pairs in the right order, ties counted half",
    "accuracy_strict": "the same, ties counted wrong",
    "auc": "chance that a chosen side of any pair outscores a rejected one of any pair",
    "brier": "mean squared error of the predicted chance that the chosen side wins",
    "ece": "expected calibration error of that chance",
    "margin_mean": "mean difference of the two scores",
}
_PROBABILITY = {
    "auc": "chance that a resolved attempt outscores an unresolved one, of any task",
    "auc_instance": "the same inside one task, mean over tasks",
    "ece": "expected calibration error, 10 bins of equal width",
    "ece_adaptive": "the same, bins of equal counts",
    "brier": "mean squared error of the probability",
    "nll": "mean negative log-likelihood of the outcome",
    "accuracy": "share on the right side of 1/2",
    "rm_at_all": "share of tasks that the best-scored of all of a task's attempts resolves",
    "random": "the same of an attempt drawn at random",
    "oracle": "the same of the best attempt",
    "positive": "share of resolved attempts",
    "answered": "probability that the answer is one of the two words",
}
_TOLD_APART = {
    "auc": "chance that a right program's reward is above a wrong one's",
    "auc_within": "the same inside one task, mean over tasks",
    "accuracy": "share of programs whose reward has the sign of their outcome",
    "reward_margin": "mean reward of right programs less that of wrong ones",
    "step_auc": "chance that a right function's reward is above a wrong one's",
    "step_accuracy": "share of functions whose reward has the sign of their label",
}
MEASURES = {
    "bt": {"loss": "mean Bradley-Terry loss", **_RIGHT_ORDER},
    "dpo": {"loss": "mean loss", **_RIGHT_ORDER},
    "pointwise": {
        "loss": "mean loss",
        "mse": "mean squared error",
        "variance": "of the targets: the error of always saying their mean",
        "mae": "mean absolute error",
        "pearson": "correlation with the target",
        "spearman": "rank correlation with it",
    },
    "kto": _TOLD_APART,
    "step-kto": _TOLD_APART,
    "yesno": {"loss": "mean loss", **_PROBABILITY},
    "joint": {"loss": "mean loss", **_PROBABILITY},
}
"""Measures of held-out rows that a card shows, by their names in `run.json` -> what they are."""

COLUMNS = {
    "aspects": "criterion",
    "languages": "language",
    "licenses": "licence",
    "outcomes": "outcome",
    "policies": "policy",
    "sources": "source",
    "functions": "functions",
    "tasks": "tasks",
}
"""Counts of training rows in `run.json` that a card shows -> the head of their column."""

HIDDEN = {
    *("objective", "model", "pad_token", "dev_share", "eval_every", "save_every", "keep_last", "trackers"),
    *("threads", "layout", "pass_tokens", "activation_checkpointing", "attention", "offload", "compile"),
    "liger",
}
"""Settings that say where and how fast a run was made, not what was made, or that stand elsewhere."""
