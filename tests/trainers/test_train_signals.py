"""The first signal is noted, the second does what it did before, and handlers are put back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from trainers.signals import stopping

CAUGHT = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture(params=CAUGHT, ids=lambda one: one.name)
def caught(request: pytest.FixtureRequest) -> Iterator[tuple[signal.Signals, list[int]]]:
    """A signal, and the list to which its own handler adds."""
    seen: list[int] = []
    before = signal.signal(request.param, lambda number, frame: seen.append(number))
    yield request.param, seen
    signal.signal(request.param, before)


def test_a_signal_is_noted_and_its_own_handler_waits(caught: tuple[signal.Signals, list[int]]) -> None:
    number, seen = caught
    with stopping() as stop:
        assert not stop.asked
        os.kill(os.getpid(), number)
        assert stop.asked
        assert not seen


def test_a_second_signal_does_what_it_did_before(caught: tuple[signal.Signals, list[int]]) -> None:
    number, seen = caught
    with stopping():
        for _ in range(3):
            os.kill(os.getpid(), number)
        assert seen == [number, number]


def test_a_signal_of_each_kind_is_noted(caught: tuple[signal.Signals, list[int]]) -> None:
    _, seen = caught
    with stopping() as stop:
        for number in CAUGHT:
            os.kill(os.getpid(), number)
        assert stop.asked
        assert not seen


@pytest.mark.parametrize("fails", [False, True])
def test_handlers_are_put_back(caught: tuple[signal.Signals, list[int]], fails: bool) -> None:
    number, seen = caught
    handlers = [signal.getsignal(one) for one in CAUGHT]
    try:
        with stopping():
            os.kill(os.getpid(), number)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert fails
    assert [signal.getsignal(one) for one in CAUGHT] == handlers
    os.kill(os.getpid(), number)
    assert seen == [number]


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stopping() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_of_the_main_thread_nothing_is_caught(caught: tuple[signal.Signals, list[int]]) -> None:
    handlers = [signal.getsignal(one) for one in CAUGHT]
    found: list[Any] = []

    def run() -> None:
        with stopping() as stop:
            found.extend([stop.asked, [signal.getsignal(one) for one in CAUGHT]])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False, handlers]


@pytest.mark.parametrize("number", CAUGHT, ids=lambda one: one.name)
def test_a_second_signal_ends_a_process_that_does_not_stop(number: signal.Signals) -> None:
    code = (
        "import time\nfrom trainers.signals import stopping\nwith stopping() as stop:\n"
        " print('ready', flush=True)\n"
        " while not stop.asked: time.sleep(0.01)\n"
        " print('asked', flush=True)\n"
        " time.sleep(600)"
    )
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    for word in (b"ready\n", b"asked\n"):
        assert running.stdout.readline() == word
        running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == -number
    assert (b"KeyboardInterrupt" in said) == (number == signal.SIGINT)
