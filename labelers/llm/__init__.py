"""The model layer: one way to ask any language model, with a cache, an account and a budget.

    config = ModelConfig(backend="openai", model="qwen", base_url="http://localhost:8000/v1")
    with Client(config, run.root / "calls.sqlite") as client:
        for reply in client.ask(Request((Message("user", text),), sample=n) for n in range(4)):
            print(reply.error or reply.text)

`config` says who is asked, `calls` what is asked and answered, `client` asks, `store` keeps, `backends/`
answer, `structured` and `replies` read answers, `prices` counts money, `forecast` tells it before, `batch`
and `batch_*` ask for half the price, `fencing` keeps code in its place in a prompt.
"""

from typing import TYPE_CHECKING, Any

from labelers.llm.calls import Account, BatchWaiting, BudgetSpent, Message, ModelFault, Reply, Request
from labelers.llm.config import ModelConfig
from labelers.llm.fencing import fence, plain_turns

if TYPE_CHECKING:
    from labelers.llm.client import Client

__all__ = [
    "Account",
    "BatchWaiting",
    "BudgetSpent",
    "Client",
    "Message",
    "ModelConfig",
    "ModelFault",
    "Reply",
    "Request",
    "fence",
    "plain_turns",
]


def __getattr__(name: str) -> Any:
    # The command line reads configs at every start, and seldom asks a model.
    if name == "Client":
        from labelers.llm.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
