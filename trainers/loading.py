"""Load a model of transformers with all of its weights, or say why not.

In: one of transformers' Auto classes and a folder or Hub id. Out: the model. transformers makes up weights
that a folder lacks and only warns of it, and what a damaged folder makes it raise is of any kind: both are
an `AssayError` of one line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.errors import AssayError
from trainers.tokenizer import first_line


def load(auto: Any, source: str, what: str, *, optional: Sequence[str] = (), **how: Any) -> Any:
    """A model with the weights of its folder.

    Args:
        auto: one of transformers' Auto classes.
        source: folder or Hub id; code that it may carry is never run.
        what: what it should be, for an error.
        optional: weights that need not be there.
        how: further arguments of `from_pretrained`.

    Raises:
        AssayError: it cannot be loaded, or weights are missing or of another shape.
    """
    how |= {"trust_remote_code": False, "use_safetensors": True, "output_loading_info": True}
    try:
        model, told = auto.from_pretrained(source, ignore_mismatched_sizes=True, **how)
    except Exception as error:  # whatever a damaged folder makes transformers raise
        raise AssayError(f"{source}: cannot be loaded as a {what} ({first_line(error)})") from None
    for kind, said in (("missing_keys", "lacks"), ("mismatched_keys", "has in another shape")):
        names = {key if isinstance(key, str) else str(key[0]) for key in told[kind]}
        if odd := sorted(names - set(optional)):
            more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            raise AssayError(
                f"{source}: cannot be loaded as a {what}: it {said} the weights {odd[0]}{more}; "
                "copy or export it again"
            )
    return model
