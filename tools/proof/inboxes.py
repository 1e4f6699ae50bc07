"""Proof over every state of a timer with two inboxes: no task is missed, out of order, left behind, or there twice.

Two threads add and cancel, through the inboxes or through the timer's lock. Two threads sleep: a reaper, and a caller
of advance_clock() that also arrives and leaves. One thread closes the timer. A step is everything under one hold of
the timer's lock or of an inbox's lock, or one reading of the clock. The time can change between any two steps. Only
work on several inboxes takes more than one step: emptying locks one inbox after the other, and going to sleep or
closing opens one after the other, while adds and cancels use the others. The last of these locks, the move into the
wheel, and the work that the timer's lock was taken for are one step, because they do not use inboxes that are not held.

The number of tasks at a time is limited. The model only knows which of two readings of the clock is earlier. A thread
can find any inbox locked or full, because another thread may use it, and then tries the next inbox or the timer's lock.

Invariants of every state:
    wake-up: while all sleepers that are present sleep and none is being woken, no task in an inbox or in the wheel
    expires before one of them wakes up;
    order: when a task moves into the wheel, no inbox has a task of the same tick whose add returned before the add of
    this one began;
    once: a pending task is in one inbox or in the wheel, a canceled one in neither; a cancel under the timer's lock
    finds its task in the wheel; and the counters are right;
    and the inboxes of a closed timer are empty.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

AWAY = -1  # a sleeper that is not present; one that is awake holds the lock
FOREVER = 99
NONE = -1  # INT64_MIN in the core: no thread sleeps

OPEN, CLOSING, CLOSED = range(3)


class Rules(NamedTuple):
    """The bounds, and switches for wrong variants, which the search must find."""

    last: int = 2  # the latest time
    tasks: int = 2  # at once
    cancels: int = 1  # at once; 0: no cancels
    later_only: bool = True  # an inbox takes only tasks that expire after the sleepers wake up
    latest_counts: bool = True  # that time is the longer of two sleeps
    empties_after_opening: bool = True  # a thread checks the inboxes again before it sleeps
    checks_mail_again: bool = True  # emptying holds the locks of all inboxes that are not empty
    add_empties: bool = True  # an add through the lock empties the inboxes first
    merges: bool = True  # tasks of two inboxes move in the order of their readings of the clock
    clock_is_fine: bool = True  # an add that began after another had returned read a later time
    close_shuts: bool = True
    cancel_checks_again: bool = True  # that the task is in the inbox, under the inbox's lock


class Task(NamedTuple):
    """A task that is being added, or pending."""

    time: int
    behind: int = 0  # bits: tasks of its time in inboxes whose add had returned before this one's began


class Letter(NamedTuple):
    """A task in an inbox."""

    task: int
    reading: int  # of the clock


class Inbox(NamedTuple):
    """The core's Inbox."""

    start: int  # from_ms
    letters: tuple[Letter, ...] = ()
    pending: int = 0
    added: int = 0  # the inbox's bit in Timer.mail says whether this is more than 0
    cancelled: int = 0
    latest: int = 0  # last_ns


class Work(NamedTuple):
    """The next work of a thread."""

    what: str  # "add", "cancel", "close", or "sleep", which has the number of the sleeper as its task
    task: int = -1  # -1: it was canceled by another thread, or has expired
    at: int = 0  # an add's reading of the clock, or the inbox in which a cancel saw the task


class Hold(NamedTuple):
    """The timer's lock is held while the inboxes are opened or emptied."""

    work: Work
    opening: int = -1  # the next inbox to open; -1: the inboxes are being emptied
    held: int = 0  # bits
    more: int = 0
    is_over: bool = False  # the work is done when they are empty


class Timer(NamedTuple):
    """One state."""

    now: int = 0
    tasks: tuple[Task, ...] = ()
    # The first sleeper waits for a bucket that a cancel has emptied.
    inboxes: tuple[Inbox, ...] = (Inbox(1), Inbox(1))
    wheel: frozenset[int] = frozenset()
    threads: tuple[Work, ...] = ()
    hold: Hold | None = None
    sleepers: tuple[int, int] = (1, AWAY)  # the times until which they sleep
    until: int = 1  # Timer.reaper_until_ms
    woken: bool = False  # the waker is set
    phase: int = OPEN
    pending: int = 0  # Timer.pending
    added: int = 0  # the number of adds that Timer.added does not count yet
    cancelled: int = 0


class Content(NamedTuple):
    """The part of a state that does not depend on the sleepers."""

    tasks: tuple[Task, ...]
    inboxes: tuple[Inbox, ...]
    wheel: frozenset[int]
    threads: tuple[Work, ...]
    hold: Hold | None
    added: int
    cancelled: int


def steps_from(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Yield every step that can happen next."""
    check(timer)
    for step, after in anything(timer, rules):
        yield step, normal(after)


def check(timer: Timer) -> None:
    asleep = awaited(timer)
    placed = [*timer.wheel, *(letter.task for inbox in timer.inboxes for letter in inbox.letters)]
    unplaced = {work.task for work in at_work(timer) if work.what == "add"}
    assert sorted([*placed, *unplaced]) == list(range(len(timer.tasks))), "a task is in no place or in two"
    if asleep and not timer.woken:
        for number in placed:
            time = timer.tasks[number].time
            assert min(asleep) <= time, f"no thread wakes for the task at {time}: they sleep until {asleep}"
    if timer.phase == CLOSED:
        assert not any(inbox.letters for inbox in timer.inboxes), "a task is in an inbox after the close"
    assert timer.pending == len(timer.wheel), "the timer's count of pending tasks is wrong"
    assert all(inbox.pending == len(inbox.letters) for inbox in timer.inboxes), "the count of an inbox is wrong"
    assert timer.added == sum(inbox.added for inbox in timer.inboxes), "the count of adds is wrong"
    assert timer.cancelled == sum(inbox.cancelled for inbox in timer.inboxes), "the count of cancels is wrong"


def awaited(timer: Timer) -> list[int]:
    """Return until when the sleepers that are present sleep; nothing if one is awake and about to check."""
    if timer.hold is not None and timer.hold.work.what == "sleep":
        return []
    return [sleeps for sleeps in timer.sleepers if sleeps != AWAY]


def at_work(timer: Timer | Content) -> tuple[Work, ...]:
    return timer.threads if timer.hold is None else (*timer.threads, timer.hold.work)


def anything(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    if timer.now < rules.last:
        yield f"the time is {timer.now + 1}", timer._replace(now=timer.now + 1)
    busy = len(timer.threads) + (timer.hold is not None and timer.hold.work.what in ("add", "cancel"))
    if busy < 2:
        yield from begin(timer, rules)
    for number, work in enumerate(timer.threads):
        rest = timer._replace(threads=timer.threads[:number] + timer.threads[number + 1 :])
        yield from at_inbox(rest, work, rules)
        if timer.hold is None:
            yield from lock(rest, work, rules)
    if timer.hold is not None:
        yield from go_on(timer, timer.hold, rules)
        return
    if timer.phase == CLOSED:
        return  # wake_up.py covers the rest
    if timer.phase == OPEN:
        yield from lock(timer, Work("close"), rules)
    for number in range(2):  # a signal can end a sleep
        yield from lock(timer, Work("sleep", number), rules)


# --- adds and cancels, up to the timer's lock ----------------------------------------------------------------------


def begin(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """An add reads the clock, or a cancel looks up its task."""
    if len(timer.tasks) < rules.tasks and timer.phase != CLOSED:
        readings = [work.at for work in at_work(timer) if work.what == "add"]
        readings += [letter.reading for inbox in timer.inboxes for letter in inbox.letters]
        readings += [inbox.latest for inbox in timer.inboxes]
        for time in range(timer.now + 1, rules.last + 1):
            behind = 0
            for inbox in timer.inboxes:
                for letter in inbox.letters:
                    behind |= (timer.tasks[letter.task].time == time) << letter.task
            for reading in {max(readings) + 1, max(readings) + rules.clock_is_fine}:
                work = Work("add", len(timer.tasks), reading)
                after = timer._replace(tasks=(*timer.tasks, Task(time, behind)), threads=(*timer.threads, work))
                yield f"an add for {time} reads the clock: {reading}", after
    if sum(work.what == "cancel" for work in at_work(timer)) == rules.cancels:
        return
    for number, inbox in enumerate(timer.inboxes):
        for letter in inbox.letters:
            work = Work("cancel", letter.task, number)
            yield f"a cancel sees task {letter.task} in inbox {number}", timer._replace(threads=(*timer.threads, work))
    if timer.hold is None:
        for task in timer.wheel:
            yield from lock(timer, Work("cancel", task), rules)


def at_inbox(timer: Timer, work: Work, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """inbox_add and inbox_cancel, if they succeed."""
    for number, inbox in enumerate(timer.inboxes):
        if timer.hold is not None and timer.hold.held >> number & 1:
            continue
        if work.what == "add":
            time = timer.tasks[work.task].time
            if inbox.start <= time or not (rules.later_only or inbox.start == FOREVER):
                latest = max(inbox.latest, work.at)
                letters = (*inbox.letters, Letter(work.task, latest))
                fuller = inbox._replace(
                    letters=letters, pending=inbox.pending + 1, added=inbox.added + 1, latest=latest
                )
                after = with_inbox(timer, number, fuller)._replace(added=timer.added + 1)
                yield f"task {work.task} for {time} is put into inbox {number}", after
        elif work.at == number and work.task >= 0:
            letters = tuple(letter for letter in inbox.letters if letter.task != work.task)
            if letters != inbox.letters or not rules.cancel_checks_again:
                emptier = inbox._replace(letters=letters, pending=inbox.pending - 1, cancelled=inbox.cancelled + 1)
                after = with_inbox(timer, number, emptier)._replace(cancelled=timer.cancelled + 1)
                yield f"task {work.task} is cancelled in inbox {number}", forget(after, work.task)


def with_inbox(timer: Timer, number: int, inbox: Inbox) -> Timer:
    return timer._replace(inboxes=(*timer.inboxes[:number], inbox, *timer.inboxes[number + 1 :]))


# --- under the timer's lock ----------------------------------------------------------------------------------------


def lock(timer: Timer, work: Work, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Take the timer's lock and check for mail (lock_entered)."""
    more = mail(timer) if rules.add_empties or work.what != "add" else 0
    if more:
        yield f"{name(work)} takes the lock", timer._replace(hold=Hold(work, more=more))
    else:
        yield from do(timer, work, rules)


def name(work: Work) -> str:
    return f"sleeper {work.task}" if work.what == "sleep" else f"the thread that will {work.what}"


def mail(timer: Timer) -> int:
    return sum((inbox.added > 0) << number for number, inbox in enumerate(timer.inboxes))


def go_on(timer: Timer, hold: Hold, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """inboxes_open_locked and inboxes_drain_locked, one inbox per step."""
    if hold.opening >= 0:
        number = hold.opening
        start = opens_from(timer, hold.work, rules)
        timer = with_inbox(timer, number, timer.inboxes[number]._replace(start=start))
        step = f"{name(hold.work)} opens inbox {number} from {start}"
        if number + 1 < len(timer.inboxes):
            yield step, timer._replace(hold=hold._replace(opening=number + 1))
            return
        more = mail(timer) if rules.empties_after_opening or hold.work.what == "close" else 0
        hold = Hold(hold.work, more=more, is_over=True)
    else:
        lowest = hold.more & -hold.more
        held, more = hold.held | lowest, hold.more - lowest
        if not more and rules.checks_mail_again and mail(timer) & ~held:
            held, more = 0, mail(timer)  # release all and lock them again, in order
        hold = hold._replace(held=held, more=more)
        step = f"{name(hold.work)} locks inbox {lowest.bit_length() - 1}"
    if hold.more:
        yield step, timer._replace(hold=hold)
        return
    timer = emptied(timer, hold.held, rules)._replace(hold=None)
    if hold.is_over:
        yield f"{step} and is done", timer._replace(phase=CLOSED) if hold.work.what == "close" else timer
        return
    for what, after in do(timer, hold.work, rules):
        yield f"{step}; {what}", after


def opens_from(timer: Timer, work: Work, rules: Rules) -> int:
    if timer.phase != OPEN:
        return FOREVER
    return timer.until if rules.latest_counts else timer.sleepers[work.task]


def emptied(timer: Timer, held: int, rules: Rules) -> Timer:
    """inboxes_move_locked."""
    left = [list(inbox.letters) if held >> number & 1 else [] for number, inbox in enumerate(timer.inboxes)]
    while some := [letters for letters in left if letters]:
        first = min(some, key=lambda letters: letters[0].reading) if rules.merges else some[0]
        timer = inserted(timer, first.pop(0).task)
    for number, inbox in enumerate(timer.inboxes):
        if held >> number & 1:
            timer = timer._replace(
                pending=timer.pending + inbox.pending,
                added=timer.added - inbox.added,
                cancelled=timer.cancelled - inbox.cancelled,
            )
            timer = with_inbox(timer, number, Inbox(inbox.start, latest=inbox.latest))
    return timer


def inserted(timer: Timer, task: int) -> Timer:
    """timer_insert_locked, without the count."""
    assert not timer.tasks[task].behind, f"task {task} overtakes one whose add had returned before"
    tasks = tuple(each._replace(behind=each.behind & ~(1 << task)) for each in timer.tasks)
    timer = timer._replace(tasks=tasks, wheel=timer.wheel | {task})
    if tasks[task].time < timer.until:
        return timer._replace(until=NONE, woken=True)
    return timer


def do(timer: Timer, work: Work, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Do the work for which the lock was taken."""
    if work.what == "add":
        if timer.phase == OPEN:
            after = inserted(timer, work.task)
            yield f"task {work.task} is added through the lock", after._replace(pending=after.pending + 1)
        else:
            yield f"task {work.task} is refused", forget(timer, work.task)
    elif work.what == "cancel":
        if work.task >= 0:
            assert work.task in timer.wheel, f"task {work.task} is pending but not in the wheel"
            after = timer._replace(wheel=timer.wheel - {work.task}, pending=timer.pending - 1)
            yield f"task {work.task} is cancelled in the wheel", forget(after, work.task)
        else:
            yield "a cancel comes too late", timer
    elif work.what == "close":
        opening = Hold(work, opening=0) if rules.close_shuts else None
        yield "the timer is closed", timer._replace(phase=CLOSING if rules.close_shuts else CLOSED, hold=opening)
    else:
        yield from end_and_begin_sleep(timer, work.task, rules)


def end_and_begin_sleep(timer: Timer, number: int, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """timer_end_sleep_locked and a turn of timer_reap_locked: take the expired tasks, then sleep."""
    timer = sleeping(timer, number, AWAY)
    if timer.sleepers == (AWAY, AWAY):
        timer = timer._replace(until=NONE, woken=False)
    if number == 1:
        yield "sleeper 1 leaves", timer
    for task in sorted(timer.wheel, reverse=True):
        if timer.tasks[task].time <= timer.now:
            timer = forget(timer._replace(wheel=timer.wheel - {task}, pending=timer.pending - 1), task)
    following = min((timer.tasks[task].time for task in timer.wheel), default=FOREVER)
    # Or until a bucket that cancels have emptied: timer_sleep_until_locked.
    for until in {*range(timer.now + 1, min(following, rules.last + 1)), following}:
        after = sleeping(timer, number, until)._replace(until=max(timer.until, until))
        yield f"sleeper {number} sleeps until {until}", after._replace(hold=Hold(Work("sleep", number), opening=0))


def sleeping(timer: Timer, number: int, until: int) -> Timer:
    return timer._replace(sleepers=(until, timer.sleepers[1]) if number == 0 else (timer.sleepers[0], until))


# --- equal states --------------------------------------------------------------------------------------------------


def forget(timer: Timer, gone: int) -> Timer:
    """Remove a task and renumber the later ones."""

    def moved(number: int) -> int:
        return -1 if number == gone else number - (number > gone)

    def without(bits: int) -> int:
        return bits & (1 << gone) - 1 | bits >> gone + 1 << gone

    def moved_work(work: Work) -> Work:
        if work.what not in ("add", "cancel"):
            return work
        return work._replace(task=moved(work.task))

    tasks = [task._replace(behind=without(task.behind)) for task in timer.tasks]
    inboxes = [
        inbox._replace(letters=tuple(letter._replace(task=moved(letter.task)) for letter in inbox.letters))
        for inbox in timer.inboxes
    ]
    hold = timer.hold and timer.hold._replace(work=moved_work(timer.hold.work))
    return timer._replace(
        tasks=(*tasks[:gone], *tasks[gone + 1 :]),
        inboxes=tuple(inboxes),
        wheel=frozenset(map(moved, timer.wheel)),
        threads=tuple(map(moved_work, timer.threads)),
        hold=hold,
    )


def normal(timer: Timer) -> Timer:
    """Return the same state without differences that no longer matter."""
    content = Content(timer.tasks, timer.inboxes, timer.wheel, timer.threads, timer.hold, timer.added, timer.cancelled)
    timer = timer._replace(**renumbered(without_the_past(content, timer.now))._asdict())
    for number, sleeps in enumerate(timer.sleepers):
        wakes_up_now = sleeps <= timer.now or timer.woken
        if sleeps > 0 and wakes_up_now and not (timer.hold and timer.hold.work == Work("sleep", number)):
            timer = sleeping(timer, number, 0)
    times = [timer.tasks[letter.task].time for inbox in timer.inboxes for letter in inbox.letters]
    if 0 < timer.until <= min([*times, earliest_add(timer, timer.now)]):
        timer = timer._replace(until=0)
    return timer


def earliest_add(timer: Timer | Content, now: int) -> int:
    return min([now + 1, *(timer.tasks[work.task].time for work in at_work(timer) if work.what == "add")])


@cache
def without_the_past(content: Content, now: int) -> Content:
    """Drop counts and times that no longer matter."""
    added, cancelled = content.added, content.cancelled
    earliest = earliest_add(content, now)
    inboxes = []
    for inbox in content.inboxes:
        over = max(min(inbox.cancelled, inbox.added - 1), 0)  # one stays until the inbox is emptied
        added, cancelled = added - over, cancelled - over
        start = 0 if inbox.start <= earliest else inbox.start
        inboxes.append(inbox._replace(start=start, added=inbox.added - over, cancelled=inbox.cancelled - over))
    tasks = tuple(
        task._replace(time=0) if number in content.wheel and task.time <= now else task
        for number, task in enumerate(content.tasks)
    )
    return content._replace(tasks=tasks, inboxes=tuple(inboxes), added=added, cancelled=cancelled)


@cache
def renumbered(timer: Content) -> Content:
    """Return the content with threads, tasks, and readings in a defined order."""
    work = at_work(timer)
    adds = [each for each in work if each.what == "add"]
    # Only an add in progress can have an earlier reading than an inbox's latest.
    late = min((each.at for each in adds), default=FOREVER)
    counting = {each.at for each in adds}
    order = [each.task for each in adds]
    for inbox in timer.inboxes:
        order += [letter.task for letter in inbox.letters]
        counting |= {letter.reading for letter in inbox.letters}
        if inbox.latest > late:
            counting.add(inbox.latest)
    order += sorted(timer.wheel - {-1}, key=lambda task: timer.tasks[task].time)
    rank = {reading: number for number, reading in enumerate(sorted(counting), 1)}
    number = {task: number for number, task in enumerate(order)}
    number[-1] = -1

    def of(each: Work) -> Work:
        if each.what == "add":
            return Work("add", number[each.task], rank[each.at])
        if each.what == "cancel":
            return Work("cancel", number[each.task], each.at if each.task >= 0 else 0)
        return each

    inboxes = tuple(
        inbox._replace(
            letters=tuple(Letter(number[letter.task], rank[letter.reading]) for letter in inbox.letters),
            latest=rank[inbox.latest] if inbox.latest > late else 0,
        )
        for inbox in timer.inboxes
    )
    tasks = []
    for old in order:
        time, behind = timer.tasks[old]
        tasks.append(Task(time, sum(1 << number[other] for other in order if behind >> other & 1) if behind else 0))
    return timer._replace(
        tasks=tuple(tasks),
        inboxes=inboxes,
        wheel=frozenset(number[task] for task in timer.wheel),
        threads=tuple(sorted(map(of, timer.threads))),
        hold=timer.hold and timer.hold._replace(work=of(timer.hold.work)),
    )
