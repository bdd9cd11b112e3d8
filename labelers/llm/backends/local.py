"""A causal language model on this machine, with transformers. torch is imported at the first call.

In: `Call`s, gathered into batches of like length. Out: `Answer`s. Wrong: `Failure`: for a prompt that is
longer than the model takes, and, for all calls, when the model cannot be loaded. Weights come from
safetensors only, and no code of a model is run.

Every sample has a generator of its own, seeded by seed and sample, so that what it draws does not depend on
the batch that it is in. (Sums of floating-point numbers may: at reduced precision two tokens that are as good
as equal can change places. Answers are cached, so a run stays as it is.)
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelers.llm.backends.base import Answer, Failure
from labelers.llm.calls import Call, ModelFault
from labelers.llm.config import ModelConfig
from schemas.errors import AssayError
from schemas.ids import rng

_BLOCK = 1 << 16
_BLOCKS = 64


def weights_identity(config: ModelConfig) -> str:
    """What tells a folder of weights from others of its name: names, sizes and samples of the bytes of its
    files, with the type that they are loaded as. For a Hub id, the type alone.

    Raises:
        AssayError: the folder cannot be read.
    """
    folder = Path(config.model)
    state = hashlib.blake2b(config.dtype.encode(), digest_size=16)
    if not folder.is_dir():
        return state.hexdigest()
    try:
        for path in sorted(folder.iterdir()):
            if not path.is_file() or path.suffix not in (".json", ".safetensors", ".jinja", ".txt", ".model"):
                continue
            size = path.stat().st_size
            state.update(f"{path.name}\0{size}\0".encode())
            with path.open("rb") as handle:
                for number in range(_BLOCKS):
                    handle.seek(max(0, (size - _BLOCK) * number // (_BLOCKS - 1)))
                    state.update(handle.read(_BLOCK))
                    if size <= _BLOCK:
                        break
    except OSError as error:
        raise ModelFault(f"{folder}: the model cannot be read ({error.strerror})") from None
    return state.hexdigest()


class LocalModel:
    """One model in memory, loaded at the first call; batches are made in a thread of their own."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._queue: list[tuple[Call, concurrent.futures.Future[Answer]]] = []
        self._wake = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    async def send(self, call: Call) -> Answer:
        """Have one call answered in the next batch that it fits in."""
        future: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        with self._wake:
            self._queue.append((call, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="local model", daemon=True)
                self._thread.start()
            self._wake.notify()
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """End the thread after the batch that it is at."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        try:
            self._serve(_Loaded(self._config))
        except AssayError as error:
            self._fail(Failure(str(error), fatal=True))
        except Exception as error:
            # Such as a chat template that refuses the messages: whoever waits must hear of it.
            self._fail(Failure(f"{self._config.model}: {_told(error)}", fatal=True))

    def _serve(self, loaded: _Loaded) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._queue or self._closed)
                # Others that are about to come share the batch.
                if not self._closed and len(self._queue) < self._config.concurrency:
                    self._wake.wait_for(
                        lambda: self._closed or len(self._queue) >= self._config.concurrency, timeout=0.05
                    )
                if self._closed:
                    return
                batch = self._batch(loaded)
            if batch:
                self._answer(loaded, batch)

    def _fail(self, failure: Failure) -> None:
        with self._wake:
            for _, future in self._queue:
                if future.set_running_or_notify_cancel():
                    future.set_exception(failure)
            self._queue.clear()
            self._thread = None

    def _batch(self, loaded: _Loaded) -> list[tuple[Call, list[int], concurrent.futures.Future[Answer]]]:
        """Take the calls that share parameters with the oldest and are nearest to it in length."""
        first = self._queue[0][0]
        alike = [
            (call, loaded.tokens(call), future)
            for call, future in self._queue
            if (call.max_tokens, call.stop) == (first.max_tokens, first.stop)
        ]
        length = len(alike[0][1])
        # Sorting is stable, so the oldest is in the batch.
        alike.sort(key=lambda one: abs(len(one[1]) - length))
        taken = alike[: self._config.concurrency]
        gone = {id(future) for _, _, future in taken}
        self._queue = [one for one in self._queue if id(one[1]) not in gone]
        return [one for one in taken if one[2].set_running_or_notify_cancel()]

    def _answer(
        self, loaded: _Loaded, batch: list[tuple[Call, list[int], concurrent.futures.Future[Answer]]]
    ) -> None:
        fitting = []
        for call, tokens, future in batch:
            if len(tokens) + call.max_tokens > loaded.longest:
                future.set_exception(
                    Failure(f"prompt of {len(tokens)} tokens and answer pass the model's {loaded.longest}")
                )
            else:
                fitting.append((call, tokens, future))
        if not fitting:
            return
        try:
            answers = loaded.generate([(call, tokens) for call, tokens, _ in fitting])
        except Exception as error:
            # Out of memory, or a model that transformers cannot run: the batch fails, not the process.
            for _, _, future in fitting:
                future.set_exception(Failure(_told(error)))
            return
        for (_, _, future), answer in zip(fitting, answers, strict=True):
            future.set_result(answer)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class _Loaded:
    """Weights and tokenizer."""

    def __init__(self, config: ModelConfig) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ModelFault(
                f"local models need {error.name}: install assay with its extra, `pip install 'assay[train]'`"
            ) from None
        self.torch: Any = torch
        library: Any = transformers
        device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype: Any = config.dtype if config.dtype == "auto" else getattr(torch, config.dtype)
        try:
            self.tokenizer: Any = library.AutoTokenizer.from_pretrained(config.model, trust_remote_code=False)
            self.model: Any = library.AutoModelForCausalLM.from_pretrained(
                config.model, trust_remote_code=False, use_safetensors=True, dtype=dtype
            )
            self.model = self.model.to(device).eval()
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
            raise ModelFault(
                f"{config.model}: the model cannot be loaded ({_told(error)}); check model"
            ) from None
        self.device = device
        self.served = config.model
        limits = (
            getattr(self.model.config, "max_position_embeddings", None),
            self.tokenizer.model_max_length,
        )
        self.longest = min((one for one in limits if isinstance(one, int) and one > 0), default=1 << 20)
        ends = self.model.generation_config.eos_token_id
        if ends is None:
            ends = self.tokenizer.eos_token_id
        self.ends: list[int] = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        pad = self.tokenizer.pad_token_id
        self.pad: int = pad if pad is not None else self.ends[0] if self.ends else 0

    def tokens(self, call: Call) -> list[int]:
        """A call's prompt as tokens: by the model's chat template, or as plain text where it has none."""
        if self.tokenizer.chat_template:
            text = self.tokenizer.apply_chat_template(
                call.message_rows(), tokenize=False, add_generation_prompt=True
            )
            found = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        else:
            found = self.tokenizer("\n\n".join(one.content for one in call.messages) + "\n\n")["input_ids"]
        return list(found)

    def generate(self, batch: Sequence[tuple[Call, list[int]]]) -> list[Answer]:
        """Answers of a batch whose calls share `max_tokens` and `stop`."""
        import transformers

        torch = self.torch
        width = max(len(tokens) for _, tokens in batch)
        ids = torch.full((len(batch), width), self.pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, (_, tokens) in enumerate(batch):
            # On the left, so that every answer begins right behind its prompt.
            ids[row, width - len(tokens) :] = torch.tensor(tokens)
            mask[row, width - len(tokens) :] = 1
        first = batch[0][0]
        settings: Any = transformers.GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            max_new_tokens=first.max_tokens,
            eos_token_id=self.ends or None,
            pad_token_id=self.pad,
            stop_strings=list(first.stop) or None,
        )
        draw = _draw_processor(torch, [call for call, _ in batch])
        with torch.inference_mode():
            made = self.model.generate(
                input_ids=ids.to(self.device),
                attention_mask=mask.to(self.device),
                generation_config=settings,
                logits_processor=transformers.LogitsProcessorList([draw]),
                tokenizer=self.tokenizer if first.stop else None,
            )
        return [
            self._read(call, tokens, row[width:].tolist())
            for (call, tokens), row in zip(batch, made, strict=True)
        ]

    def _read(self, call: Call, prompt: list[int], made: list[int]) -> Answer:
        end = next((at for at, token in enumerate(made) if token in self.ends), None)
        kept = made if end is None else made[:end]
        text = self.tokenizer.decode(kept, skip_special_tokens=True)
        cuts = [at for stop in call.stop if (at := text.find(stop)) >= 0]
        if cuts:
            text = text[: min(cuts)]
        finish = "stop" if end is not None or cuts else "length"
        spent = len(made) if end is None else end + 1
        return Answer(text, finish, self.served, len(prompt), spent)


def _draw_processor(torch: Any, calls: Sequence[Call]) -> Any:
    """A step of `generate` that draws each row's token with the row's own generator.

    Tokens are drawn by inverting the cumulative distribution at one uniform number a step. What is drawn
    becomes the only possible token, which the greedy search behind it then takes.
    """
    draws = [rng(call.seed, "local model", json.dumps([call.prompt_hash, call.sample])) for call in calls]

    def process(_: Any, scores: Any) -> Any:
        logits = scores.float()
        out = torch.full_like(scores, float("-inf"))
        for row, (call, draw) in enumerate(zip(calls, draws, strict=True)):
            out[row, _pick(torch, logits[row], call, draw.random())] = 0.0
        return out

    return process


def _pick(torch: Any, logits: Any, call: Call, uniform: float) -> int:
    if call.temperature == 0:
        return int(logits.argmax())
    probabilities, order = torch.softmax(logits / call.temperature, -1).sort(descending=True, stable=True)
    sums = probabilities.cumsum(-1)
    # The tokens whose predecessors stay below top_p: at least one.
    kept = max(1, int((sums - probabilities < call.top_p).sum()))
    at = int(torch.searchsorted(sums, uniform * float(sums[kept - 1]), right=True))
    return int(order[min(at, kept - 1)])
