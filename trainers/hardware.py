"""What a training run needs, computed from an architecture's numbers and a `TrainConfig`: parameters, memory
of each device, operations a token, hours.

In: a `Shape` (`SHAPES` has those of well-known models, from their published configurations), a config, and
what is known of the data. Out: a `Forecast`, and a table of several. Nothing is loaded or downloaded.

Parameters are exact. Bytes are those that torch keeps with FSDP2 and blocks as transformers computes them,
without Liger's kernels, and what gradients take at once, at the most; the allocator's waste, the driver's
memory and NCCL's are what `USABLE` leaves. Operations follow PaLM (Chowdhery et al. 2022, 2204.02311,
appendix B), but count the keys that a token sees in a causal sequence. Hours rest on a share of the peak
that is told, not computed. What cannot be raises `AssayError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from schemas.errors import AssayError
from trainers.config import REFERENCED, TrainConfig

GIB = 1 << 30

USABLE = 0.92
"""Share of a device's memory that a run can fill."""

MFU = 0.35
"""Share of a device's peak that a run is taken to reach, where none is told."""

LOGITS_AT_ONCE = 1 << 28
"""As `trainers.model` has it."""

# Where tokens are shared, a gathered row has at most as many keys again for a pair.
_KEYS = 2


@dataclasses.dataclass(frozen=True)
class Device:
    """An accelerator: its name, memory as torch reports it in bytes, and peak of dense bfloat16 products
    in operations a second."""

    name: str
    memory: float
    peak: float


DEVICES = {
    "H100": Device("H100 80 GB", 79.1 * GIB, 989e12),
    "H200": Device("H200 141 GB", 139.8 * GIB, 989e12),
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """The numbers of a decoder such as Qwen3, Qwen2.5 or Llama, as its configuration has them.

    Attributes:
        model: Hub id.
        hidden: width of a token's state.
        layers: number of blocks.
        heads: query heads of a block.
        key_heads: key heads, and value heads.
        head_size: width of one.
        intermediate: width of the MLP, or of one expert.
        vocabulary: entries of the embedding.
        tied: whether the vocabulary head is the embedding.
        positions: longest sequence.
        normed_heads: whether queries and keys are normed (Qwen3).
        biased: whether queries, keys and values have biases (Qwen2.5).
        experts: experts of a block; 0 for one MLP.
        active: experts that a token goes through.
    """

    model: str
    hidden: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool
    positions: int
    normed_heads: bool = False
    biased: bool = False
    experts: int = 0
    active: int = 0

    @property
    def queries(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        """Width of all key heads."""
        return self.key_heads * self.head_size

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of a block's linear layers by name; experts are no layers of their own."""
        layers = {
            "q_proj": (self.hidden, self.queries),
            "k_proj": (self.hidden, self.keys),
            "v_proj": (self.hidden, self.keys),
            "o_proj": (self.queries, self.hidden),
        }
        if not self.experts:
            layers["gate_proj"] = layers["up_proj"] = (self.hidden, self.intermediate)
            layers["down_proj"] = (self.intermediate, self.hidden)
        return layers

    @property
    def block(self) -> int:
        """Parameters of a block."""
        count = sum(inputs * outputs for inputs, outputs in self.linear.values()) + 2 * self.hidden
        if self.experts:
            count += self.experts * (3 * self.hidden * self.intermediate + self.hidden)
        if self.normed_heads:
            count += 2 * self.head_size
        if self.biased:
            count += self.queries + 2 * self.keys
        return count

    @property
    def products(self) -> int:
        """Parameters of a block that a token is multiplied with."""
        count = sum(inputs * outputs for inputs, outputs in self.linear.values())
        if self.experts:
            count += self.active * 3 * self.hidden * self.intermediate + self.experts * self.hidden
        return count

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, and of a vocabulary head."""
        return self.vocabulary * self.hidden

    @property
    def trunk(self) -> int:
        """Parameters without heads."""
        return self.embedding + self.layers * self.block + self.hidden

    @property
    def parameters(self) -> int:
        """Parameters of the causal language model."""
        return self.trunk + (0 if self.tied else self.embedding)


def _qwen3(size: str, hidden: int, layers: int, heads: int, intermediate: int, tied: bool) -> Shape:
    return Shape(
        f"Qwen/Qwen3-{size}",
        hidden,
        layers,
        heads,
        8,
        128,
        intermediate,
        151936,
        tied,
        40960,
        normed_heads=True,
    )


SHAPES = {
    "0.6b": _qwen3("0.6B", 1024, 28, 16, 3072, True),
    "1.7b": _qwen3("1.7B", 2048, 28, 16, 6144, True),
    "4b": _qwen3("4B", 2560, 36, 32, 9728, True),
    "8b": _qwen3("8B", 4096, 36, 32, 12288, False),
    "14b": _qwen3("14B", 5120, 40, 40, 17408, False),
    "32b": _qwen3("32B", 5120, 64, 64, 25600, False),
    "30b-a3b": Shape(
        *("Qwen/Qwen3-30B-A3B-Instruct-2507", 2048, 48, 32, 4, 128, 768, 151936, False, 262144),
        normed_heads=True,
        experts=128,
        active=8,
    ),
    "coder-1.5b": Shape(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct", 1536, 28, 12, 2, 128, 8960, 151936, True, 32768, biased=True
    ),
    "coder-3b": Shape(
        "Qwen/Qwen2.5-Coder-3B-Instruct", 2048, 36, 16, 2, 128, 11008, 151936, True, 32768, biased=True
    ),
    "deepseek-coder-6.7b": Shape(
        "deepseek-ai/deepseek-coder-6.7b-instruct", 4096, 32, 32, 32, 128, 11008, 32256, False, 16384
    ),
}
"""Well-known models, by the names that recipes have."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one device.

    Attributes:
        weights: its part of the weights.
        gradients: its part of their gradients, or all of them where passes are summed before processes are.
        optimizer: its part of AdamW's two moments.
        gathered: blocks that are whole while they are computed, buffers that gather them and sum their
            gradients, and what is never in parts: embedding and heads in the passes' precision.
        activations: what a pass keeps for the backward pass, and what that takes at once.
        logits: logits of the tokens whose probability is read at once.
    """

    weights: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """All of them."""
        return float(sum(dataclasses.astuple(self)))


@dataclasses.dataclass(frozen=True)
class Operations:
    """Operations a unique token: of the model, forward and backward; of computing activations again; of
    passes without gradient, for reference models and mismatched pairs."""

    model: float
    again: float
    without_gradient: float


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What a run needs on some devices.

    Attributes:
        shape: the architecture.
        device: the kind of device.
        devices: how many.
        parameters: parameters that the run holds.
        trained: those that it changes.
        memory: of each device.
        host: bytes that the first process takes in the machine's memory while it loads and exports.
        operations: a token.
        tokens: unique tokens of the run.
        hours: time of the steps, at the share `mfu` of the peak.
        mfu: model operations as a share of the peak.
    """

    shape: Shape
    device: Device
    devices: int
    parameters: int
    trained: int
    memory: Memory
    host: float
    operations: Operations
    tokens: float
    hours: float
    mfu: float

    @property
    def fits(self) -> bool:
        """Whether each device has the memory."""
        return self.memory.total <= USABLE * self.device.memory


def reads_vocabulary(config: TrainConfig) -> bool:
    """Whether a run has a vocabulary head."""
    return config.objective != "pointwise" and (config.objective != "bt" or config.lm_weight > 0)


def held(config: TrainConfig, shape: Shape) -> tuple[int, int]:
    """Parameters that a run holds, and how many of them it trains.

    Raises:
        AssayError: a name in `lora_targets` is no linear layer of the shape.
    """
    count = shape.trunk
    if reads_vocabulary(config) and not shape.tied:
        count += shape.embedding
    score = shape.hidden if config.objective in ("bt", "pointwise") else 0
    if not config.lora_rank:
        return count + score, count + score
    names = config.lora_targets or tuple(shape.linear)
    for name in names:
        if name not in shape.linear:
            raise AssayError(
                f"train.lora_targets: {name!r} is no linear layer of {shape.model}; "
                f"it has {', '.join(shape.linear)}"
            )
    factors = shape.layers * sum(config.lora_rank * sum(shape.linear[name]) for name in names)
    return count + factors + score, factors + score


def kept(config: TrainConfig, shape: Shape) -> tuple[int, int]:
    """Bytes a token: those that a block keeps for its backward pass when its activations are not computed
    again, and those that the backward pass of a block needs beside them, at most.

    Norms keep their input in float32, and the normed state before and after its factors; products keep their
    inputs; attention its queries, keys, values and result.
    """
    wide = 2 if config.precision == "bf16" else 4
    norm = 4 + 2 * wide
    copies = _KEYS if config.layout in ("auto", "prefix") else 1
    size = 2 * norm * shape.hidden + 8
    size += 2 * wide * (shape.queries + copies * shape.keys) + 4 * shape.heads
    if shape.normed_heads:
        size += (4 + wide) * (shape.queries + shape.keys) + 4 * (shape.heads + shape.key_heads)
    middle = shape.intermediate * max(1, shape.active)
    size += 4 * wide * middle
    routed = shape.active * shape.hidden
    if shape.experts:
        size += 2 * wide * routed + 34 * shape.active + 4 * shape.experts
    working = wide * max(10 * shape.hidden, 5 * shape.queries, 3 * middle, 4 * routed)
    return size, working


def positions(config: TrainConfig) -> int:
    """Tokens of the largest pass: one example may have more than `pass_tokens`, when it shares nothing."""
    config = config.resolved()
    together = {"bt": 2, "dpo": 2, "joint": config.together}.get(config.objective, 1)
    return max(config.pass_tokens, together * config.max_length)


def memory(config: TrainConfig, shape: Shape, devices: int, device: Device) -> Memory:
    """Bytes of each of `devices` at the most."""
    config = config.resolved()
    count, trained = held(config, shape)
    half = config.precision == "bf16"
    wide = 2 if half else 4
    frozen = count - trained
    weights = (4 * trained + (2 if half else 4) * frozen) / devices
    gradients: float = 4 * trained / devices
    optimizer: float = 8 * trained / devices
    if config.offload:
        weights = gradients = optimizer = 0.0
    # As `trainers.parallel` does: small gradients are summed over passes before they are over processes.
    if devices > 1 and 8 * 4 * trained < device.memory:
        gradients += 4 * trained
    gathered = 0.0
    if half or devices > 1 or config.offload:
        tuned = 0 if config.lora_rank else 1
        # Two blocks whole and a buffer to gather one; gradients of one and a float32 buffer to sum them.
        gathered = (3 * wide + (wide + 4) * tuned) * shape.block
        heads = 2 if reads_vocabulary(config) and not shape.tied else 1
        gathered += wide * (1 + tuned) * heads * shape.embedding
    block_kept, working = kept(config, shape)
    inputs = wide * shape.hidden
    if config.activation_checkpointing:
        token = shape.layers * inputs + block_kept
    else:
        token = shape.layers * block_kept
    # The last norm, the states that are read, cosines and sines, ids.
    token += (4 + 2 * wide) * shape.hidden + inputs + 2 * wide * shape.head_size + 24 + working
    activations = float(token * positions(config))
    # Logits and their gradient, both also in float32.
    logits = (2 * wide + 8.0) * LOGITS_AT_ONCE if reads_vocabulary(config) else 0.0
    return Memory(weights, gradients, optimizer, gathered, activations, logits)


def operations(config: TrainConfig, shape: Shape, length: float, predicted: float) -> Operations:
    """Operations a unique token.

    Args:
        config: settings.
        shape: the architecture.
        length: tokens of the sequence that the average token is in.
        predicted: share of the tokens whose probability is read.
    """
    products = 2.0 * shape.layers * shape.products
    attention = 4.0 * shape.layers * shape.queries * length / 2
    head = 2.0 * shape.embedding * predicted if reads_vocabulary(config) else 0.0
    # A frozen weight has no gradient, but its input has.
    model = 3 * (products + attention + head)
    if config.lora_rank:
        # What is frozen has no gradient, but what goes into it has.
        model += 6 * held(config, shape)[1] - products - head
    again = head + (products + attention if config.activation_checkpointing else 0.0)
    passes = 0.0
    if config.objective in REFERENCED:
        # Once under the model before training.
        passes += 1 / max(1, config.resolved().epochs)
    if config.objective in ("kto", "step-kto"):
        # Mismatched pairs of each epoch, under the model before training and as it is.
        passes += 2
    return Operations(model, again, passes * (products + attention + head))


def forecast(
    config: TrainConfig,
    shape: Shape,
    tokens: float,
    *,
    device: Device = DEVICES["H100"],
    devices: int = 0,
    length: float = 0.0,
    predicted: float = 0.5,
    mfu: float = MFU,
) -> Forecast:
    """What a run needs.

    Args:
        config: settings.
        shape: the architecture.
        tokens: unique tokens of an epoch: what sequences share counts once.
        device: the kind of device.
        devices: how many; 0 takes the fewest that do (`fewest`).
        length: tokens of the sequence that the average token is in; 0 takes half of `max_length`.
        predicted: share of the tokens whose probability is read.
        mfu: share of the peak that model operations reach. What is computed again is on top of them.

    Raises:
        AssayError: sequences are longer than the model's positions, or no number of devices does.
    """
    config = config.resolved()
    if config.max_length > shape.positions:
        raise AssayError(
            f"train.max_length: {shape.model} reads at most {shape.positions} tokens, not {config.max_length}"
        )
    count, trained = held(config, shape)
    devices = devices or fewest(config, shape, device)
    cost = operations(config, shape, length or config.max_length / 2, predicted)
    all_tokens = tokens * config.epochs
    seconds = all_tokens * (cost.model + cost.without_gradient) / (devices * device.peak * mfu)
    # Weights in float32 and, for the export, once more in its precision.
    host = count * (6.0 if config.precision == "bf16" else 8.0)
    used = memory(config, shape, devices, device)
    return Forecast(shape, device, devices, count, trained, used, host, cost, all_tokens, seconds / 3600, mfu)


def fewest(config: TrainConfig, shape: Shape, device: Device) -> int:
    """The fewest devices on which a run fits: 1, 2, 4, or machines of 8.

    Raises:
        AssayError: what every device needs by itself is too much.
    """
    counts: tuple[int, ...] = (1, 2, 4, *range(8, 1025, 8))
    for devices in counts:
        if memory(config, shape, devices, device).total <= USABLE * device.memory:
            return devices
    raise AssayError(
        f"{shape.model}: a pass of {positions(config)} tokens does not fit on any number of "
        f"{device.name}; lower train.pass_tokens or train.max_length"
    )


def gib(size: float) -> str:
    """Bytes as GiB, for people."""
    return f"{size / GIB:.1f} GiB"


_COLUMNS = (
    *("run", "parameters", "devices", "memory of each", "weights, gradients, optimizer", "gathered"),
    *("activations", "operations a token", "hours"),
)


def table(forecasts: Sequence[tuple[str, Forecast]]) -> str:
    """Forecasts under their names, as a table in Markdown."""
    lines = [_COLUMNS, ("---",) * len(_COLUMNS)]
    for name, one in forecasts:
        used = one.memory
        lines.append(
            (
                name,
                f"{one.parameters / 1e9:.2f} B",
                f"{one.devices} x {one.device.name}",
                gib(used.total),
                gib(used.weights + used.gradients + used.optimizer),
                gib(used.gathered),
                gib(used.activations + used.logits),
                f"{one.operations.model / 1e9:.1f} G",
                f"{one.hours:.1f}",
            )
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
