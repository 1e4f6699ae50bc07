"""Each task of a timer that four threads use has exactly one outcome, and the counters are exact."""

import itertools
import time
from array import array
from collections import Counter
from functools import partial

from hwheel import TimerBatch, TimerTask
from invariants import check_invariants
from sampling import seeded_random
from threads import run_concurrently

THREADS = 4
ROUND_S = 2.0
FAR_OFF_MS = 3_600_000


class Ledger:
    """The outcome of each task, written by all threads. list.append() is atomic, so no lock hides a race."""

    def __init__(self):
        self.tokens = itertools.count()
        self.added = []
        self.ran = []
        self.cancelled = []


def some_delay_ms(dice):
    """Return a delay: usually short, to provoke races; sometimes 0; sometimes so long that close() returns the task."""
    kind = dice.random()
    if kind < 0.05:
        return 0
    return FAR_OFF_MS if kind < 0.15 else dice.randrange(1, 200)


def play(timer, ledger, shared, seed, end):
    """Add, cancel, and reschedule tasks of this thread and of the others until the time `end`."""
    dice = seeded_random(seed)
    while time.monotonic() < end:
        action = dice.random()
        if action < 0.5 or not shared:
            token = next(ledger.tokens)
            ledger.added.append(token)
            delay_ms = some_delay_ms(dice)
            if dice.random() < 0.5:
                task = timer.call_later(delay_ms / 1000, ledger.ran.append, token)
            else:
                task = timer.add(TimerTask(delay_ms, ledger.ran.append, token))
            shared[dice.randrange(4096)] = token, task
            continue
        try:
            token, task = shared[dice.choice(list(shared)) if len(shared) < 64 else dice.randrange(4096)]
        except (KeyError, RuntimeError):  # an empty slot, or another thread resized the dict
            continue
        if action >= 0.8:
            task.reschedule(some_delay_ms(dice) / 1000)
        elif task.cancel():
            ledger.cancelled.append(token)


def check_repeatedly(timer, end):
    while time.monotonic() < end:
        time.sleep(0.05)
        check_invariants(timer)


def play_round(timer, seconds, seed):
    ledger, shared, end = Ledger(), {}, time.monotonic() + seconds
    players = [partial(play, timer, ledger, shared, f"{seed}-{i}", end) for i in range(THREADS)]
    run_concurrently(*players, partial(check_repeatedly, timer, end))
    return ledger


def test_each_task_has_exactly_one_outcome(make_timer, executor, many_switches, soak_seconds):
    end = time.monotonic() + soak_seconds
    for number in itertools.count():
        timer = make_timer(executor=executor)
        ledger = play_round(timer, min(ROUND_S, soak_seconds), number)
        returned = timer.close()
        if hasattr(executor, "shutdown"):  # calls submitted before close() still run
            timers_left = timer.stats().expired
            while len(ledger.ran) < timers_left:
                time.sleep(0.01)
        returned_tokens = [task.args[0] for task in returned]

        fates = Counter(ledger.ran) + Counter(ledger.cancelled) + Counter(returned_tokens)
        wrong = {token: fates[token] for token in ledger.added if fates[token] != 1}
        assert wrong == {}, "these tasks had this many outcomes"
        assert len(fates) == len(ledger.added)
        assert ledger.ran and ledger.cancelled and returned, "the round did not produce all three outcomes"

        stats = timer.stats()
        assert stats.added == len(ledger.added)
        assert stats.expired == len(ledger.ran)
        assert stats.cancelled == len(ledger.cancelled)
        assert stats.pending == 0
        assert stats.added == stats.expired + stats.cancelled + len(returned)
        assert all(task.cancelled for task in returned)
        if time.monotonic() >= end:
            return


class BatchLedger:
    """The outcomes of the timers of one batch."""

    def __init__(self, length):
        self.length = length
        self.ran = []
        self.cancelled = 0
        self.batch = None

    def on_due(self, indices):
        self.ran.extend(indices)


def play_batches(timer, ledgers, seed, end):
    """Add batches, and cancel single indices, arrays of indices, and whole batches while they expire."""
    dice = seeded_random(seed)
    mine = []
    while time.monotonic() < end:
        length = dice.choice([1, 7, 100, 5000])
        ledger = BatchLedger(length)
        delays = array("q", [some_delay_ms(dice) if dice.random() < 0.5 else 20 for _ in range(length)])
        ledger.batch = timer.call_many(delays, ledger.on_due)
        ledgers.append(ledger)
        mine.append(ledger)
        for ledger in dice.sample(mine[-8:], min(4, len(mine))):
            how = dice.random()
            if how < 0.4:
                ledger.cancelled += ledger.batch.cancel([dice.randrange(ledger.length)])
            elif how < 0.8:
                some = array("q", [dice.randrange(ledger.length) for _ in range(ledger.length // 2)])
                ledger.cancelled += ledger.batch.cancel(some)
            else:
                ledger.cancelled += ledger.batch.cancel()
        time.sleep(dice.random() * 0.02)


def test_each_task_and_batch_index_has_exactly_one_outcome(make_timer, executor, many_switches, soak_seconds):
    reported = []
    timer = make_timer(executor=executor, on_error=lambda source, error: reported.append(error))
    ledger, ledgers, end = Ledger(), [], time.monotonic() + soak_seconds
    players = [partial(play_batches, timer, ledgers, i, end) for i in range(3)]
    run_concurrently(*players, partial(play, timer, ledger, {}, 3, end))
    returned = timer.close()
    if hasattr(executor, "shutdown"):
        executor.shutdown(wait=True)
    assert reported == []

    remaining = {id(one): list(one.indices()) for one in returned if isinstance(one, TimerBatch)}
    for one in ledgers:
        left = remaining.get(id(one.batch), [])
        assert len(set(one.ran)) == len(one.ran), "an index ran twice"
        assert not set(one.ran) & set(left), "an index ran and was returned"
        assert len(one.ran) + one.cancelled + len(left) == one.length
    task_tokens = [task.args[0] for task in returned if isinstance(task, TimerTask)]
    fates = Counter(ledger.ran) + Counter(ledger.cancelled) + Counter(task_tokens)
    assert fates == Counter(ledger.added)

    stats = timer.stats()
    assert stats.added == len(ledger.added) + sum(one.length for one in ledgers)
    assert stats.expired == len(ledger.ran) + sum(len(one.ran) for one in ledgers)
    assert stats.cancelled == len(ledger.cancelled) + sum(one.cancelled for one in ledgers)
    assert stats.added == stats.expired + stats.cancelled + len(task_tokens) + sum(map(len, remaining.values()))
