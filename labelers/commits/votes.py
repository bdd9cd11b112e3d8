"""Votes of models on proposals: several judges, both orders, every criterion, a review, one decision.

In: `Proposal`s and clients of models. Out: one row of `votes` for each proposal, in order. `requests` gives
what would be asked.
Wrong: an answer that cannot be used costs one sample, counted as an error. `ModelFault` and `BudgetSpent` of
any judge end it for all: the others begin nothing more, and what they have under way is waited for and kept.
"""

from __future__ import annotations

import concurrent.futures
import itertools
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from labelers.commits.config import VoteConfig
from labelers.commits.criteria import Criterion
from labelers.commits.proposals import Proposal
from labelers.commits.voting.asking import questions, requests_about
from labelers.commits.voting.counting import votes_of
from labelers.llm.calls import Reply, Request
from schemas.errors import AssayError
from schemas.records import Votes

if TYPE_CHECKING:
    from labelers.llm.client import Client


def requests(
    proposals: Sequence[Proposal], criteria: Sequence[Criterion], config: VoteConfig, seed: int
) -> Iterator[Request]:
    """What one judge is asked about proposals, in order, repairs left out."""
    for proposal in proposals:
        yield from requests_about(proposal, criteria, config, seed)


def vote(
    clients: Sequence[Client],
    proposals: Sequence[Proposal],
    criteria: Sequence[Criterion],
    config: VoteConfig,
    seed: int,
    counts: Counter[str],
) -> Iterator[Votes]:
    """The votes on each proposal, in order.

    Args:
        clients: the judges, each under the name of its model.
        counts: decisions and numbers of votes are added here.

    Raises:
        AssayError: two judges are the same model, whose answers would be the same.
        ModelFault, BudgetSpent: as for `Client.ask`; the missing answers of all proposals are told before
            the last row.
    """
    names = [client.config.model for client in clients]
    if not names:
        raise AssayError("there is no judge to vote")
    if doubled := sorted(name for name, times in Counter(names).items() if times > 1):
        raise AssayError(f"two judges are the model {doubled[0]!r}; name each model once")
    if not proposals:
        return
    streams = [_replies(client, requests(proposals, criteria, config, seed)) for client in clients]
    try:
        yield from _rows(names, _begun(clients, streams), proposals, criteria, config, counts)
    except AssayError as fault:
        _stop(clients, fault)
        raise
    finally:
        for stream in streams:
            stream.close()


def _replies(client: Client, asked: Iterator[Request]) -> Generator[Reply, None, None]:
    yield from client.ask(asked)


def _begun(clients: Sequence[Client], streams: Sequence[Iterator[Reply]]) -> list[Iterator[Reply]]:
    """The streams with their first replies there: a stream begins when it is drawn from, and the judges are
    to begin together."""
    with concurrent.futures.ThreadPoolExecutor(len(streams)) as pool:
        firsts = [pool.submit(next, stream) for stream in streams]
        for done in concurrent.futures.as_completed(firsts):
            if isinstance(fault := done.exception(), AssayError):
                _stop(clients, fault)
    return [itertools.chain((first.result(),), stream) for first, stream in zip(firsts, streams, strict=True)]


def _stop(clients: Sequence[Client], fault: AssayError) -> None:
    for client in clients:
        client.stop(fault)


def _rows(
    names: Sequence[str],
    streams: Sequence[Iterator[Reply]],
    proposals: Sequence[Proposal],
    criteria: Sequence[Criterion],
    config: VoteConfig,
    counts: Counter[str],
) -> Iterator[Votes]:
    many = len(questions(criteria, config))
    for number, proposal in enumerate(proposals, 1):
        # One judge after the other: meanwhile each answers as many questions ahead as its client allows.
        answers = [
            (name, list(itertools.islice(stream, many))) for name, stream in zip(names, streams, strict=True)
        ]
        row = votes_of(proposal, criteria, config, answers)
        if number == len(proposals):
            # A client tells at its end what got no answer.
            for stream in streams:
                next(stream, None)
        counts[row.decision] += 1
        counts["votes"] += sum(one.new + one.old + one.tie for one in row.counts)
        counts["votes_without_answer"] += sum(one.error for one in row.counts)
        counts["reviews_without_answer"] += sum(one.strength is None for one in row.reviews)
        counts["trade_offs"] += bool(row.worse)
        yield row
