"""Who creates a key? Many try at the same instant; the verdict must be: one, and its bytes are there."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Self

from tests.contract.places import Place

from indextables.storage import PutAnswer, Store

WAIT_SECONDS = 600.0


def verdict(store: Store, keys: list[str], answers: dict[tuple[int, str], PutAnswer]) -> list[str]:
    """What is wrong with the outcome of a race: an empty list if nothing is. Each racer wrote its own number."""
    faults = []
    for key in keys:
        winners = [racer for (racer, raced), answer in answers.items() if raced == key and answer is PutAnswer.CREATED]
        if len(winners) != 1:
            faults.append(f"{key}: {len(winners)} racers were told that they created it")
        elif store.get(key) != body(winners[0], key):
            faults.append(f"{key}: racer {winners[0]} won, but the bytes are {store.get(key)[:40]!r}")
    faults += [f"{count} answers were {kind}" for kind, count in _unclear(answers).items()]
    return faults


def body(racer: int, key: str) -> bytes:
    return f"{racer} {key} ".encode() * 50


def race_threads(
    open_store: Callable[[int], Store], keys: list[str], racers: int = 16
) -> dict[tuple[int, str], PutAnswer]:
    barrier = threading.Barrier(racers)
    answers: dict[tuple[int, str], PutAnswer] = {}

    def run(racer: int) -> None:
        store = open_store(racer)
        for key in keys:
            barrier.wait(WAIT_SECONDS)
            answers[racer, key] = store.put_if_absent(key, body(racer, key))

    threads = [threading.Thread(target=run, args=(racer,)) for racer in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class Racers:
    """Processes, started by spawn, that race for keys when told to."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        # A started process lets go of its arguments, and the barrier must live until they have all arrived.
        self._barrier = context.Barrier(count)
        self._pipes: list[Connection] = []
        self._processes = []
        for racer in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(racer, theirs, self._barrier), daemon=True)
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.send(None)
        for process in self._processes:
            process.join(10)
        for pipe in self._pipes:
            pipe.close()

    def race(self, place: Place, keys: list[str]) -> dict[tuple[int, str], PutAnswer]:
        for pipe in self._pipes:
            pipe.send((place, keys))
        answers: dict[tuple[int, str], PutAnswer] = {}
        for racer, pipe in enumerate(self._pipes):
            if not pipe.poll(WAIT_SECONDS):
                raise TimeoutError(f"racer {racer} does not answer")
            answers |= {(racer, key): PutAnswer(value) for key, value in pipe.recv()}
        return answers


def _serve(racer: int, pipe: Connection, barrier: Barrier) -> None:
    while (work := pipe.recv()) is not None:
        place, keys = work
        store = place.open(door=racer)
        answers = []
        for key in keys:
            barrier.wait(WAIT_SECONDS)
            answers.append((key, store.put_if_absent(key, body(racer, key)).value))
        pipe.send(answers)


def _unclear(answers: dict[tuple[int, str], PutAnswer]) -> Counter[str]:
    return Counter(answer.value for answer in answers.values() if answer is PutAnswer.UNKNOWN)
