"""Tokenizers: one trained on the shards for a tiny model, or a pretrained one that is fit for pooling.

In: texts, or the folder or Hub id of a model. Out: a fast tokenizer with a chat template and a pad
token that differs from its end token. What goes wrong raises `AssayError`.

`train_tokenizer` downloads nothing, and the same texts give the same files, in any order and with any
number of threads: merges are counted over the multiset of words, and ties go by token id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from schemas.errors import AssayError

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""ChatML, as Qwen's models use it; contents go in unchanged."""

# Qwen2's pre-tokenizer: digits one by one, a run of spaces apart from the word it indents.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Merges settle after a few megabytes; more would only cost time.
CORPUS_CHARS = 32 << 20


def _bounded(texts: Iterable[str]) -> Iterator[str]:
    left = CORPUS_CHARS
    for text in texts:
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train byte-level BPE (Sennrich et al. 2016, on bytes) on `texts`.

    Args:
        texts: the corpus; what lies beyond `CORPUS_CHARS` characters is not looked at.
        vocab_size: most entries; fewer when the corpus has no more merges.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        _bounded(texts),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[PAD, START, END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="right",
    )


def load_tokenizer(source: str, pad_token: str = "") -> PreTrainedTokenizerFast:
    """The tokenizer of a local folder or Hub id, checked by `check_tokenizer`.

    Args:
        source: folder or Hub id; code that it may carry is never run.
        pad_token: an existing token to pad with instead of the tokenizer's own; empty keeps that.

    Raises:
        AssayError: it cannot be loaded or does not fit.
    """
    # Where recipes and runs write: the Hub is not asked for what an earlier stage has yet to make.
    local = source.startswith((".", "/", "~", "models/", "runs/")) or source.count("/") > 1
    if local and not Path(source).is_dir():
        raise AssayError(f"{source}: no such model folder; give one, or a Hub id such as owner/name")
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # whatever a damaged file makes transformers raise
        raise AssayError(f"{source}: no tokenizer can be loaded ({first_line(error)})") from None
    if pad_token:
        if pad_token not in tokenizer.get_vocab():
            raise AssayError(f"train.pad_token: {pad_token!r} is not a token of {source}; name one that is")
        tokenizer.pad_token = pad_token
    return check_tokenizer(tokenizer, source)


def check_tokenizer(tokenizer: Any, source: str) -> PreTrainedTokenizerFast:
    """The tokenizer, when a reward model can be trained and served with it.

    Raises:
        AssayError: it is not a fast one, has no chat template, or pads with its end token. The last
            matters since transformers and vLLM pool at the last token that is not padding: an end
            token that is also padding would never be pooled.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise AssayError(f"{source}: has no fast tokenizer (tokenizer.json); convert it first")
    if not tokenizer.chat_template:
        raise AssayError(f"{source}: its tokenizer has no chat template; use an instruction-tuned model")
    if tokenizer.pad_token_id is None or tokenizer.pad_token_id == tokenizer.eos_token_id:
        state = "is missing" if tokenizer.pad_token_id is None else "equals the end token"
        raise AssayError(
            f"{source}: the pad token {state}, so the pooled token would be the wrong one; "
            "set pad_token to a spare token of its vocabulary"
        )
    return tokenizer


def first_line(error: BaseException) -> str:
    """The first line of an error's message, for a message of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
