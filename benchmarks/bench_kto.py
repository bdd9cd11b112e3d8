"""Tokens a second of a step of step-kto on one thread against TRL's KTOTrainer without precomputed reference.

    python benchmarks/bench_kto.py [--rounds 3] [--batches 2]

The peer is TRL itself (`pip install trl`): `KTOTrainer.compute_loss` and its backward pass on a batch of 8
completions that its own data preparation and collator made: four padded forward passes, of model and
reference, each on the completions and on mismatched ones, and one backward pass. Ours takes the same rows
through `trainers.objectives.kto` with the term of functions. Its step is one packed pass with gradient, and
one without, of the mismatched pairs; what the reference says was computed before, once for the completions
and once an epoch for the mismatched pairs. `all` counts that too, as if there were one epoch only.

Programs are made from nothing: two tasks of four candidates each, which share a prompt of about 300 tokens;
completions have a median of about 250 tokens and a standard deviation of the logarithm of their length of
0.6. That candidates of a policy begin alike is not counted on: they share nothing beyond the prompt.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import random
import tempfile
import warnings
from typing import Any

import torch
from common import best, cores
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from trainers.config import TrainConfig
from trainers.engine import Engine
from trainers.items import Item
from trainers.model import RewardModel
from trainers.objectives.kto import Kto
from trainers.programs import Function, Labelled
from trainers.tokenizer import train_tokenizer
from trainers.world import Alone

TASKS, CANDIDATES = 2, 4
LENGTH = 2048
WORDS = [f"{head}{tail}" for head in ("get", "set", "row", "sum", "max", "key") for tail in "abcdefghij"]


def text_of(draws: random.Random, words: int) -> str:
    """So many words, a token each, in lines."""
    return "\n".join(
        " ".join(draws.choice(WORDS) for _ in range(min(8, words - at))) for at in range(0, words, 8)
    )


def programs(seed: int) -> list[Labelled]:
    """A batch, with the lengths that the module tells."""
    draws = random.Random(seed)
    rows = []
    for task in range(TASKS):
        prompt = text_of(draws, round(min(900, draws.lognormvariate(5.7, 0.4))))
        for number in range(CANDIDATES):
            functions, completion = [], ""
            for name in range(3):
                body = f"def f{name}\n" + text_of(draws, round(min(500, draws.lognormvariate(4.4, 0.6))))
                functions.append(Function(len(completion), len(completion) + len(body), (number + name) % 2))
                completion += body + "\n\n"
            idx = f"{task}-{number}"
            rows.append(
                Labelled(idx, f"p{task}", prompt, completion, number % 2, tuple(functions), "Python", None)
            )
    return rows


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A model of four layers."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    made: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    return made


class Theirs:
    """TRL's trainer with one batch."""

    def __init__(
        self,
        rows: list[Labelled],
        tokenizer: PreTrainedTokenizerFast,
        model: Qwen3ForCausalLM,
        reference: Qwen3ForCausalLM,
        folder: str,
    ) -> None:
        import trl
        from datasets import Dataset, disable_progress_bars

        disable_progress_bars()
        self.trainer: Any = trl.KTOTrainer(
            model=copy.deepcopy(model),
            ref_model=copy.deepcopy(reference),
            args=trl.KTOConfig(
                output_dir=folder,
                per_device_train_batch_size=len(rows),
                train_sampling_strategy="sequential",
                max_length=LENGTH,
                report_to=[],
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
                disable_dropout=True,
            ),
            train_dataset=Dataset.from_list(
                [
                    {
                        "prompt": [{"role": "user", "content": row.prompt}],
                        "completion": [{"role": "assistant", "content": row.completion}],
                        "label": bool(row.outcome),
                    }
                    for row in rows
                ]
            ),
            processing_class=copy.deepcopy(tokenizer),
        )
        (self.batch,) = list(self.trainer.get_train_dataloader())
        self.trainer.model.train()

    def step(self) -> float:
        """Loss and gradient."""
        self.trainer.model.zero_grad(set_to_none=True)
        loss = self.trainer.compute_loss(self.trainer.model, self.batch)
        loss.backward()
        return float(loss.detach())


class Ours:
    """The same rows, their functions' labels used too."""

    def __init__(
        self,
        rows: list[Labelled],
        tokenizer: PreTrainedTokenizerFast,
        model: Qwen3ForCausalLM,
        reference: Qwen3ForCausalLM,
        step_weight: float,
    ) -> None:
        values = {"objective": "step-kto" if step_weight else "kto", "max_length": LENGTH}
        config = TrainConfig.from_mapping({**values, "step_weight": step_weight}).resolved()
        self.objective = Kto(config)
        self.items, account = self.objective.encode(rows, tokenizer, "train")
        if account.kept != len(rows) or account.noted.get("windowed"):
            raise AssertionError(account)
        self.companions = self.objective.companions(self.items, range(len(self.items)))
        self.model, self.before = self._engine(model, "prefix"), self._engine(reference, "prefix")
        self.items, self.companions = self.referred()

    def _engine(self, causal: Qwen3ForCausalLM, wanted: str) -> Engine:
        own: Any = copy.deepcopy(causal)
        model = RewardModel(own.base_model, own.get_output_embeddings(), scored=False)
        model.fit_layout(wanted, LENGTH)
        return Engine(model, Alone(), self.objective, layout=wanted, pass_tokens=1 << 20, pad_id=0)

    def referred(self) -> tuple[list[Item], list[Item]]:
        """What the reference says, which is computed once."""
        items, companions = (
            [
                dataclasses.replace(item, reference=one.logprobs)
                for item, one in zip(part, self.before.infer(part), strict=True)
            ]
            for part in (self.items, self.companions)
        )
        return items, companions

    def step(self) -> float:
        """Loss and gradient."""
        self.model.model.zero_grad(set_to_none=True)
        context = self.objective.context(self.companions, self.model.infer(self.companions))
        return self.model.accumulate(self.items, self.objective.totals(self.items), context)[0]

    def everything(self) -> None:
        """A step, with all that the reference says of it."""
        self.referred()
        self.step()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    # TRL sets an option of transformers that both of them rename.
    warnings.filterwarnings("ignore", category=FutureWarning)
    tokenizer = train_tokenizer([" ".join(WORDS) + "\n" + "def f0 f1 f2 user assistant\n"] * 4, 4096)
    model, reference = new_model(tokenizer, 0), new_model(tokenizer, 1)
    total: dict[str, float] = {}
    tokens = unique = padded = 0
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.batches):
            rows = programs(seed)
            theirs = Theirs(rows, tokenizer, model, reference, folder)
            ours = Ours(rows, tokenizer, model, reference, 1.0)
            plain = Ours(rows, tokenizer, model, reference, 0.0)
            ways = {"TRL": theirs.step, "step": ours.step, "all": ours.everything}
            # This also warms both up. The pairing of TRL is another one, so its KL differs a little.
            worst = max(worst, abs(theirs.step() - plain.step()))
            for way in ways.values():
                way()
            for name, seconds in best(ways, given.rounds).items():
                total[name] = total.get(name, 0.0) + seconds
            tokens += sum(item.tokens for item in ours.items)
            padded += len(rows) * max(item.length for item in ours.items)
            shared = sum(
                {item.share: len(item.sequences[0]) - item.predicted for item in ours.items}.values()
            )
            unique += sum(item.predicted for item in ours.items) + shared
    print(f"{cores()}, one thread, {given.batches} steps of 8 programs, best of {given.rounds} in turns")
    print(f"tokens: {padded:,} with padding, {tokens:,} of programs, {unique:,} with a prompt once a task")
    print(f"largest difference of the losses of plain KTO: {worst:.1e}")
    for name, seconds in total.items():
        print(f"{name:5} {tokens / seconds:8,.0f} tokens/s  {total['TRL'] / seconds:5.2f}x")


if __name__ == "__main__":
    main()
