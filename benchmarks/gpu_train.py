"""What one CUDA GPU makes of training: whether its attention is exact, tokens a second beside the padded
computation of TRL's RewardTrainer, memory, and the time to save, resume and export.

    python benchmarks/gpu_train.py [--minutes 8] [--sizes 0.6b,1.7b,4b]
    python benchmarks/gpu_train.py --cpu --tiny      the same code in under a minute, to see that it runs

It needs torch, transformers, safetensors, pyarrow, numpy and pyyaml, no network and no installed package of
ours: the models have random weights and the shapes of Qwen3, pairs are random tokens whose lengths and common
beginnings are drawn as `bench_train.py` tells. What does not fit into the time or the memory is left out, and
a line says so.

The peer is the computation of TRL 1.16's RewardTrainer, through transformers: chosen and rejected sides
stacked and padded on the right, `AutoModelForSequenceClassification` with sdpa, float32 weights under
bfloat16 autocast, fused AdamW; the number of pairs in a micro-batch, and whether activations are computed
again, are those that were fastest. Where TRL is installed, its trainer takes steps with these too. Ours is
what `assay train` runs with `train.precision=bf16`: the same loss, sharded over one device, in passes of
`pass_tokens`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_common import CENTERING, Bench, Plan, config_of, out_of_memory, pairs_of, say, timed
from gpu_peer import peer
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, Qwen3Config

from trainers import attention, checkpoint, export, parallel
from trainers.config import TrainConfig
from trainers.data import TokenPair
from trainers.engine import Engine
from trainers.environment import quiet
from trainers.fit import Fit, optimizer_groups
from trainers.hardware import GIB, SHAPES, USABLE, Device, Shape, memory, operations
from trainers.kernels import KERNELS
from trainers.model import RewardModel
from trainers.objectives.bradley_terry import BradleyTerry, item_of
from trainers.packing import layout
from trainers.segments import Segments
from trainers.tokenizer import train_tokenizer
from trainers.world import Alone, World

TINY = Shape("tiny", 64, 2, 4, 2, 16, 128, 4096, True, 4096, normed_heads=True)


PLANS = {
    "0.6b": Plan(SHAPES["0.6b"], 64, 3, 16384, False, (4, 8, 16, 32), 60),
    "1.7b": Plan(SHAPES["1.7b"], 64, 2, 16384, False, (4, 8, 16), 90),
    "4b": Plan(SHAPES["4b"], 32, 2, 16384, True, (2, 4, 8), 150),
}
TINY_PLANS = {"tiny": Plan(TINY, 4, 1, 4096, False, (2, 4), 1)}


def reward_model(config: Qwen3Config, device: torch.device, *, how: str = "prefix") -> RewardModel:
    """A model of ours with random weights, equal ones each time, and a score head that is not zero."""
    torch.manual_seed(0)
    with torch.device(device):
        causal: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        weights = torch.randn(1, config.hidden_size) / config.hidden_size**0.5
        model = RewardModel(causal.base_model, causal.get_output_embeddings(), weights)
    model.fit_layout(how, 4096)
    return model


def bt(**other: Any) -> tuple[TrainConfig, BradleyTerry]:
    """Settings and objective: that of TRL where nothing else is told."""
    values = {
        "model": "random",
        "max_length": 4096,
        "batch_size": 4,
        "lm_weight": 0.0,
        "magnitude_weight": CENTERING,
        "precision": "bf16",
        "clip": 1.0,
    }
    config = TrainConfig.from_mapping({**values, **other}).resolved()
    return config, BradleyTerry(config)


# Exactness


def exactness(bench: Bench) -> None:
    """Kernels against torch's own in float32, and a whole model against its padded self."""
    say("\n== exactness of attention ==")
    for name in ("varlen", "flash"):
        for heads, key_heads in ((16, 8), (32, 8)) if not bench.tiny else ((4, 2),):
            kernel_exactness(bench, name, heads, key_heads)
    shape = TINY if bench.tiny else SHAPES["0.6b"]
    config = config_of(shape, 2 if bench.tiny else 8)
    pairs = pairs_of(2 if bench.tiny else 8)
    _, objective = bt(lm_weight=0.25)
    items = [item_of(pair, 1) for pair in pairs]

    def step(how: str, dtype: torch.dtype) -> tuple[float, Tensor, str]:
        model = reward_model(config, bench.device, how=how)
        model.trunk.to(dtype)
        engine = Engine(model, Alone(bench.device), objective, layout=how, pass_tokens=8192, pad_id=0)
        loss, _ = engine.accumulate(items, objective.totals(items), {})
        parts = [p.grad.flatten().float() for p in model.parameters() if p.grad is not None]
        return loss, torch.cat(parts), model.kernel

    wanted, exact, _ = step("padded", torch.float32)
    say(
        f"a step of {len(pairs)} pairs, {config.num_hidden_layers} layers; reference: padded, float32, "
        f"loss {wanted:.6f}"
    )
    for how, dtype in (
        ("packed", torch.float32),
        ("prefix", torch.float32),
        ("padded", torch.bfloat16),
        ("packed", torch.bfloat16),
        ("prefix", torch.bfloat16),
    ):
        loss, gradient, kernel = step(how, dtype)
        far = float((gradient - exact).norm() / exact.norm())
        say(
            f"  {how:6} {str(dtype).removeprefix('torch.'):8} by {kernel or 'sdpa':8}: loss off by "
            f"{abs(loss - wanted):.1e}, gradient by {far:.1e} of its length"
        )


def kernel_exactness(bench: Bench, name: str, heads: int, key_heads: int) -> None:
    """A kernel's results and gradients over random trees, and where it aligns queries."""
    kernel = KERNELS[name]
    size = 128
    told = f"kernel {name}, {heads} heads, {key_heads} key heads of {size}"
    if bench.device.type != kernel.device:
        say(f"{told}: left out, it needs {kernel.device}")
        return
    try:
        why = attention.check(kernel, heads, key_heads, size)
        say(f"{told}: {why or 'as segments, forward and backward'}; alignment {alignment(bench, name)}")
        row = layout([[pair.chosen, pair.rejected] for pair in pairs_of(8)])
        segments = Segments(row)
        draws = torch.Generator(bench.device).manual_seed(0)
        made = [
            torch.randn(1, n, len(row.ids), size, generator=draws, device=bench.device).bfloat16()
            for n in (heads, key_heads, key_heads)
        ]

        def results(used: Any, dtype: torch.dtype) -> tuple[Tensor, ...]:
            inputs = [x.to(dtype).requires_grad_() for x in made]
            output, _ = attention.segment_attention(
                nn.Identity(), *inputs, None, segments=segments, kernel=used
            )
            weights = torch.linspace(-1, 1, output.numel(), device=bench.device).view_as(output)
            return (output.detach(), *torch.autograd.grad((output.float() * weights).sum(), inputs))

        off = [
            float((got.float() - wanted).norm() / wanted.norm())
            for got, wanted in zip(results(kernel, torch.bfloat16), results(None, torch.float32), strict=True)
        ]
        half = [
            float((got.float() - wanted).norm() / wanted.norm())
            for got, wanted in zip(results(None, torch.bfloat16), results(None, torch.float32), strict=True)
        ]
        for way, found in ((name, off), ("segments", half)):
            shown = ", ".join(
                f"{what} {value:.1e}" for what, value in zip(("result", "dq", "dk", "dv"), found, strict=True)
            )
            say(f"  {len(row.ids):,} tokens of 8 pairs, {way} in bfloat16 off float32 by {shown}")
    except Exception as error:
        say(f"{told}: left out ({str(error).splitlines()[0][:150]})")


def alignment(bench: Bench, name: str) -> str:
    """Where a kernel puts 2 queries beside 6 keys: at their end, as it must, or at their beginning."""
    query = torch.zeros(2, 1, 64, device=bench.device, dtype=torch.bfloat16)
    value = (
        torch.arange(1.0, 7.0, device=bench.device).bfloat16()[:, None, None].expand(6, 1, 64).contiguous()
    )
    at = [torch.tensor([0, n], dtype=torch.int32, device=bench.device) for n in (2, 6)]
    found = KERNELS[name].call()(query, torch.zeros_like(value), value, *at, 2, 6, 1.0)[:, 0, 0].tolist()
    # Equal weights: the mean of 1 .. 5 and of 1 .. 6, or 1 and the mean of 1 and 2.
    return {(3.0, 3.5): "bottom right", (1.0, 1.5): "top left"}.get(tuple(found), f"unknown ({found})")


# Speed


def speed(bench: Bench, world: World, name: str, plan: Plan) -> None:
    """Ours, with TRL's loss and with Themis's, beside the peer."""
    pairs = pairs_of(plan.pairs)
    nominal = sum(pair.tokens for pair in pairs)
    unique = sum(pair.unique_tokens for pair in pairs)
    say(
        f"\n== {name}: {plan.shape.parameters / 1e9:.2f} B parameters, steps of {plan.pairs} pairs, "
        f"{nominal:,} tokens of sides, {unique:,} without what sides share =="
    )
    bench.start_peak()
    ours = 0.0
    for told, other in (("TRL's loss", {}), ("Themis's loss", {"lm_weight": 0.25})):
        config, objective = bt(
            **other, activation_checkpointing=plan.again, pass_tokens=plan.pass_tokens, batch_size=plan.pairs
        )
        kind = bench.kind or Device("this device", bench.room(), 1.0)
        needed = memory(config, plan.shape, 1, kind).total
        if needed > USABLE * bench.room():
            say(f"  ours, {told}: left out, it needs {needed / GIB:.0f} GiB")
            continue
        with out_of_memory(f"ours, {told}"):
            seconds = our_seconds(bench, world, plan, config, objective, pairs)
            ours = ours or seconds
            report(bench, f"ours, {told}", config, plan.shape, pairs, seconds, needed)
        bench.start_peak()
    with out_of_memory("peer"):
        peer(bench, plan, pairs, ours)
    bench.start_peak()


def our_seconds(
    bench: Bench,
    world: World,
    plan: Plan,
    config: TrainConfig,
    objective: BradleyTerry,
    pairs: Sequence[TokenPair],
) -> float:
    """Seconds of an optimizer step of ours: all of it, from pairs to new weights."""
    engine, optimizer = trainer_of(bench, world, plan.shape, config, objective)
    items = [item_of(pair, int(objective.needs_vocabulary)) for pair in pairs]

    def step() -> None:
        engine.accumulate(items, objective.totals(items), {})
        world.clip(engine.model, config.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return timed(bench, step, plan.steps)


def trainer_of(
    bench: Bench, world: World, shape: Shape, config: TrainConfig, objective: BradleyTerry
) -> tuple[Engine, torch.optim.Optimizer]:
    """A model of ours as the loop makes it, and its optimizer."""
    made = parallel.materialise(lambda: reward_model(config_of(shape), bench.device), world, config)
    engine = Engine(made, world, objective, layout=made.layout, pass_tokens=config.pass_tokens, pad_id=0)
    return engine, torch.optim.AdamW(
        optimizer_groups(made, config.weight_decay), lr=1e-6, fused=bench.device.type == "cuda" or None
    )


def report(
    bench: Bench,
    what: str,
    config: TrainConfig,
    shape: Shape,
    pairs: Sequence[TokenPair],
    seconds: float,
    needed: float,
) -> None:
    """A line on a step of ours, which was thought to need so many bytes."""
    row = layout([[pair.chosen, pair.rejected] for pair in pairs])
    unique = len(row.ids)
    # A token at position p sees p + 1 keys, as it does in the middle of a sequence of twice as many.
    length = 2 * float(row.positions.mean() + 1)
    predicted = sum(len(pair.chosen) - pair.prompt_length for pair in pairs) / unique
    cost = operations(config, shape, length, predicted)
    nominal = sum(pair.tokens for pair in pairs)
    used = f"{unique * cost.model / seconds / bench.peak:.1%} MFU" if bench.peak else "MFU not known here"
    say(
        f"  {what}: {nominal / seconds:,.0f} tokens/s, {unique / seconds:,.0f} unique, "
        f"{seconds:.2f} s a step, {unique * cost.model / seconds / 1e12:.1f} TFLOP/s, {used}, "
        f"peak memory {bench.peak_memory()}, {needed / GIB:.1f} GiB as computed"
    )


# Saving


def recovery(bench: Bench, world: World, shape: Shape) -> None:
    """Save, resume and export: their times, and whether a resumed run ends where the other one does."""
    say(f"\n== save, resume, export: {shape.parameters / 1e9:.2f} B parameters ==")
    items = [item_of(pair, 1) for pair in pairs_of(8 if bench.tiny else 32)]
    config, objective = bt(
        lm_weight=0.25,
        max_steps=4,
        save_every=2,
        batch_size=len(items) // 4,
        pass_tokens=8192,
        lr=1e-5,
        warmup_ratio=0.0,
    )
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "rm"
        out.with_name("rm.checkpoints").mkdir()

        def run(resume: str) -> tuple[Fit, dict[str, Tensor], float]:
            began = bench.now()
            engine, _ = trainer_of(bench, world, shape, config, objective)
            fit = Fit(
                config,
                engine.model,  # type: ignore[arg-type]
                engine,
                items,
                [],
                data="drawn",
                out_dir=out,
                progress=None,
                resume=resume,
            )
            loaded = bench.now() - began
            fit.run()
            return fit, parallel.full_state(engine.model) or {}, loaded

        was = torch.are_deterministic_algorithms_enabled()
        # Attention's gradient is summed in a fixed order only where torch is told to.
        torch.use_deterministic_algorithms(True, warn_only=True)
        fit, straight, _ = run("never")
        began = bench.now()
        saved = checkpoint.save(
            Path(temporary) / "again",
            fit.model,
            fit.optimizer,
            {"step": 4, "epoch": 0, "at": 0, "tokens": 0, "computed": 0, "best": None},
            identity={},
            world=world,
            keep_last=1,
        )
        size = sum(file.stat().st_size for file in saved.rglob("*") if file.is_file())
        say(f"save: {bench.now() - began:.1f} s for {size / GIB:.2f} GiB")
        del fit
        bench.start_peak()
        fit, resumed, loaded = run("auto")
        worst = max(float((straight[name] - resumed[name]).abs().max()) for name in straight)
        say(f"resume: {loaded:.1f} s to build the model and load step 2 of 4 into it")
        say(
            "the resumed run's weights are "
            + ("bit-equal to those of the run that went through" if worst == 0 else f"off by {worst:.1e}")
        )
        torch.use_deterministic_algorithms(was)
        began = bench.now()
        tokenizer = train_tokenizer(["x = 1\n"], 512)
        (Path(temporary) / "model").mkdir()
        export.export(fit.model, tokenizer, Path(temporary) / "model", "random", resumed, config)
        say(f"export: {bench.now() - began:.1f} s")
        found = fit.engine.infer(items[:2])
        far = export.check_parity(Path(temporary) / "model", items[:2], found, config.precision)
        say(f"the exported model, loaded by transformers, gives scores that are off by {far:.1e}")


def matmul(bench: Bench) -> None:
    """What products of the device's own library reach."""
    size = 256 if bench.tiny else 8192
    left, right = (torch.randn(size, size, device=bench.device).bfloat16() for _ in range(2))
    seconds = timed(bench, lambda: torch.mm(left, right) is None, 20)
    say(f"products of {size} x {size} in bfloat16: {2 * size**3 / seconds / 1e12:.1f} TFLOP/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=8, help="time that it may take")
    parser.add_argument("--sizes", default="", help="sizes to measure, such as 0.6b,4b")
    parser.add_argument("--cpu", action="store_true", help="use the CPU")
    parser.add_argument("--tiny", action="store_true", help="a tiny model instead of the sizes")
    parser.add_argument("--without-trl", action="store_true", help="do not run TRL's trainer, where it is")
    given = parser.parse_args()
    if not given.cpu and not torch.cuda.is_available():
        parser.exit(2, "gpu_train: there is no CUDA device; --cpu --tiny shows that the script runs\n")
    device = torch.device("cpu") if given.cpu else torch.device("cuda", torch.cuda.current_device())
    bench = Bench(device, given.minutes, given.tiny, not given.without_trl)
    plans = TINY_PLANS if given.tiny else PLANS
    chosen = [name for name in given.sizes.split(",") if name] or list(plans)
    if unknown := [name for name in chosen if name not in plans]:
        parser.error(f"--sizes: {unknown[0]} is none of {', '.join(plans)}")
    say(f"{bench.name}, torch {torch.__version__}, {given.minutes:g} minutes")
    with quiet():
        matmul(bench)
        exactness(bench)
        config, _ = bt()
        with parallel.joined(config) as world:
            for number, name in enumerate(chosen):
                if bench.affords(name, plans[name].seconds):
                    speed(bench, world, name, plans[name])
                if number == 0 and bench.affords("save, resume, export", 2 if given.tiny else 60):
                    recovery(bench, world, plans[name].shape)
    say(f"\n{60 * given.minutes - bench.left:.0f} s in all")


if __name__ == "__main__":
    main()
