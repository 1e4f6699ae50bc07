"""That nothing is slept through, out of order, left behind or there twice, in every state of a timer with two inboxes.

Two threads add and cancel, through the inboxes or through the timer's lock; two sleep, a reaper and a caller of
advance_clock(), who also comes and goes; one closes. A step is what happens under one hold of the timer's lock or of an
inbox's, or a reading of the clock; time goes on between any two. Only what goes from inbox to inbox is more than one
step: who empties them takes lock after lock, and who lies down or closes opens one after the other, with adds and
cancels at the others in between. The last of these locks, the move into the wheel, and what the timer's lock was taken
for, are one step, because none of it looks at the inboxes that are not held.

Tasks come and go without end, but only so many are there at once; of readings of the clock only matters which is
earlier. A thread may find any inbox locked or full, because others may be at it, and go on to the next one or to the
timer's lock.

In every state:
    somebody wakes: while those who are there sleep, and no wake-up is on its way, nothing in an inbox or in the wheel
    falls due before one of them wakes up by himself;
    order: when a task comes into the wheel, no inbox has another of its tick whose add returned before its own began;
    once: what is pending is in one inbox or in the wheel, and what was cancelled in neither; who wants to cancel it
    under the timer's lock finds it in the wheel; and the counts are right;
    and once a timer is closed, its inboxes are empty.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

AWAY = -1  # a sleeper that is not there; whoever is up and looks holds the lock
FOR_EVER = 99
NONE = -1  # INT64_MIN in the core: nobody has to be woken

OPEN, CLOSING, CLOSED = range(3)


class Rules(NamedTuple):
    """What is proved, and wrong variants, for which the search has to find why."""

    last: int = 2  # the latest time
    tasks: int = 2  # at once
    cancels: int = 1  # at once; 0: nothing is cancelled at all
    later_only: bool = True  # an inbox takes what falls due when the sleepers wake up by themselves, or later
    latest_counts: bool = True  # of two that sleep the one that sleeps longer decides what that is
    empties_after_opening: bool = True  # who lies down looks once more at what has come meanwhile
    looks_at_mail_again: bool = True  # who empties holds the locks of all that there is something in
    add_empties: bool = True  # what is added through the lock comes behind what is in the inboxes
    merges: bool = True  # of two inboxes that goes first whose add has read the clock earlier
    clock_is_fine: bool = True  # an add that began after another had returned has read a later time
    close_shuts: bool = True
    cancel_looks_again: bool = True  # where the task is, under the inbox's lock


class Task(NamedTuple):
    """One that is about to be added, or pending."""

    time: int
    behind: int = 0  # bits: of its time those in an inbox whose add had returned before this one's began


class Letter(NamedTuple):
    """A task in an inbox."""

    task: int
    reading: int  # of the clock


class Inbox(NamedTuple):
    """The Inbox of the core."""

    start: int  # from_ms
    letters: tuple[Letter, ...] = ()
    pending: int = 0
    added: int = 0  # the inbox's bit in Timer.mail: whether it is more than 0
    cancelled: int = 0
    latest: int = 0  # last_ns


class Work(NamedTuple):
    """What a thread is about."""

    what: str  # "add", "cancel", "close", or "sleep", whose task is the number of the sleeper
    task: int = -1  # -1: another has cancelled it, or it has expired
    at: int = 0  # of an add the reading of the clock, of a cancel the inbox in which it has seen the task


class Hold(NamedTuple):
    """The timer's lock is held, and inboxes are gone through."""

    work: Work
    opening: int = -1  # the inbox to be opened next; -1: they are emptied
    held: int = 0  # bits
    more: int = 0
    is_over: bool = False  # the work is done once they are empty


class Timer(NamedTuple):
    """A state."""

    now: int = 0
    tasks: tuple[Task, ...] = ()
    # The first sleeper sleeps for a bucket that a cancel has emptied.
    inboxes: tuple[Inbox, ...] = (Inbox(1), Inbox(1))
    wheel: frozenset[int] = frozenset()
    threads: tuple[Work, ...] = ()
    hold: Hold | None = None
    sleepers: tuple[int, int] = (1, AWAY)  # the times until which they sleep
    until: int = 1  # Timer.reaper_until_ms
    woken: bool = False  # the waker is set
    phase: int = OPEN
    pending: int = 0  # Timer.pending
    added: int = 0  # how many more have been added than Timer.added says
    cancelled: int = 0


class Content(NamedTuple):
    """The part of a state that is the same with many different sleepers."""

    tasks: tuple[Task, ...]
    inboxes: tuple[Inbox, ...]
    wheel: frozenset[int]
    threads: tuple[Work, ...]
    hold: Hold | None
    added: int
    cancelled: int


def steps_from(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Everything that may happen next."""
    check(timer)
    for step, after in anything(timer, rules):
        yield step, normal(after)


def check(timer: Timer) -> None:
    asleep = awaited(timer)
    placed = [*timer.wheel, *(letter.task for inbox in timer.inboxes for letter in inbox.letters)]
    unplaced = {work.task for work in at_work(timer) if work.what == "add"}
    assert sorted([*placed, *unplaced]) == list(range(len(timer.tasks))), "a task is in no place, in two, or no more"
    if asleep and not timer.woken:
        for number in placed:
            time = timer.tasks[number].time
            assert min(asleep) <= time, f"nobody wakes for what falls due at {time}: they sleep until {asleep}"
    if timer.phase == CLOSED:
        assert not any(inbox.letters for inbox in timer.inboxes), "something is in an inbox after the close"
    assert timer.pending == len(timer.wheel), "the timer miscounts what is pending"
    assert all(inbox.pending == len(inbox.letters) for inbox in timer.inboxes), "an inbox miscounts what is pending"
    assert timer.added == sum(inbox.added for inbox in timer.inboxes), "what was added is miscounted"
    assert timer.cancelled == sum(inbox.cancelled for inbox in timer.inboxes), "what was cancelled is miscounted"


def awaited(timer: Timer) -> list[int]:
    """Until when they sleep, if all who are there do; nobody counts on one who is up and still to look."""
    if timer.hold is not None and timer.hold.work.what == "sleep":
        return []
    return [sleeps for sleeps in timer.sleepers if sleeps != AWAY]


def at_work(timer: Timer | Content) -> tuple[Work, ...]:
    return timer.threads if timer.hold is None else (*timer.threads, timer.hold.work)


def anything(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    if timer.now < rules.last:
        yield f"it is {timer.now + 1}", timer._replace(now=timer.now + 1)
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
        return  # the rest is tools/proof/wake_up.py's
    if timer.phase == OPEN:
        yield from lock(timer, Work("close"), rules)
    for number in range(2):  # who sleeps may wake up for no reason, too: a signal came
        yield from lock(timer, Work("sleep", number), rules)


# --- adds and cancels, up to the timer's lock ----------------------------------------------------------------------


def begin(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """An add reads the clock, or a cancel looks where the task is."""
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
    """inbox_add and inbox_cancel, where they succeed."""
    for number, inbox in enumerate(timer.inboxes):
        if timer.hold is not None and timer.hold.held >> number & 1:
            continue
        if work.what == "add":
            time = timer.tasks[work.task].time
            if inbox.start <= time or not (rules.later_only or inbox.start == FOR_EVER):
                latest = max(inbox.latest, work.at)
                letters = (*inbox.letters, Letter(work.task, latest))
                fuller = inbox._replace(
                    letters=letters, pending=inbox.pending + 1, added=inbox.added + 1, latest=latest
                )
                after = with_inbox(timer, number, fuller)._replace(added=timer.added + 1)
                yield f"task {work.task} for {time} is put into inbox {number}", after
        elif work.at == number and work.task >= 0:
            letters = tuple(letter for letter in inbox.letters if letter.task != work.task)
            if letters != inbox.letters or not rules.cancel_looks_again:
                emptier = inbox._replace(letters=letters, pending=inbox.pending - 1, cancelled=inbox.cancelled + 1)
                after = with_inbox(timer, number, emptier)._replace(cancelled=timer.cancelled + 1)
                yield f"task {work.task} is cancelled in inbox {number}", forget(after, work.task)


def with_inbox(timer: Timer, number: int, inbox: Inbox) -> Timer:
    return timer._replace(inboxes=(*timer.inboxes[:number], inbox, *timer.inboxes[number + 1 :]))


# --- under the timer's lock ----------------------------------------------------------------------------------------


def lock(timer: Timer, work: Work, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Takes the timer's lock, and looks whether there is mail (lock_entered)."""
    more = mail(timer) if rules.add_empties or work.what != "add" else 0
    if more:
        yield f"{name(work)} takes the lock", timer._replace(hold=Hold(work, more=more))
    else:
        yield from do(timer, work, rules)


def name(work: Work) -> str:
    return f"sleeper {work.task}" if work.what == "sleep" else f"who is to {work.what}"


def mail(timer: Timer) -> int:
    return sum((inbox.added > 0) << number for number, inbox in enumerate(timer.inboxes))


def go_on(timer: Timer, hold: Hold, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """inboxes_open_locked and inboxes_empty_locked, from one inbox to the next."""
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
        if not more and rules.looks_at_mail_again and mail(timer) & ~held:
            held, more = 0, mail(timer)  # gives all back, and takes them anew, in one order
        hold = hold._replace(held=held, more=more)
        step = f"{name(hold.work)} locks inbox {lowest.bit_length() - 1}"
    if hold.more:
        yield step, timer._replace(hold=hold)
        return
    timer = emptied(timer, hold.held, rules)._replace(hold=None)
    if hold.is_over:
        yield f"{step}, and goes", timer._replace(phase=CLOSED) if hold.work.what == "close" else timer
        return
    for what, after in do(timer, hold.work, rules):
        yield f"{step}; {what}", after


def opens_from(timer: Timer, work: Work, rules: Rules) -> int:
    if timer.phase != OPEN:
        return FOR_EVER
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
    """timer_insert_locked, but for the count."""
    assert not timer.tasks[task].behind, f"task {task} comes before one whose add had returned when its own began"
    tasks = tuple(each._replace(behind=each.behind & ~(1 << task)) for each in timer.tasks)
    timer = timer._replace(tasks=tasks, wheel=timer.wheel | {task})
    if tasks[task].time < timer.until:
        return timer._replace(until=NONE, woken=True)
    return timer


def do(timer: Timer, work: Work, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """What the lock was taken for."""
    if work.what == "add":
        if timer.phase == OPEN:
            after = inserted(timer, work.task)
            yield f"task {work.task} is added through the lock", after._replace(pending=after.pending + 1)
        else:
            yield f"task {work.task} is refused", forget(timer, work.task)
    elif work.what == "cancel":
        if work.task >= 0:
            assert work.task in timer.wheel, f"task {work.task} is pending, and not in the wheel"
            after = timer._replace(wheel=timer.wheel - {work.task}, pending=timer.pending - 1)
            yield f"task {work.task} is cancelled in the wheel", forget(after, work.task)
        else:
            yield "a cancel comes too late", timer
    elif work.what == "close":
        opening = Hold(work, opening=0) if rules.close_shuts else None
        yield "it is closed", timer._replace(phase=CLOSING if rules.close_shuts else CLOSED, hold=opening)
    else:
        yield from look(timer, work.task, rules)


def look(timer: Timer, number: int, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """timer_end_sleep_locked, and a turn of timer_reap_locked: takes what is due, and lies down."""
    timer = sleeping(timer, number, AWAY)
    if timer.sleepers == (AWAY, AWAY):
        timer = timer._replace(until=NONE, woken=False)
    if number == 1:
        yield "sleeper 1 goes away", timer
    for task in sorted(timer.wheel, reverse=True):
        if timer.tasks[task].time <= timer.now:
            timer = forget(timer._replace(wheel=timer.wheel - {task}, pending=timer.pending - 1), task)
    following = min((timer.tasks[task].time for task in timer.wheel), default=FOR_EVER)
    # Or for a bucket that cancels have emptied: timer_sleep_until_locked.
    for until in {*range(timer.now + 1, min(following, rules.last + 1)), following}:
        after = sleeping(timer, number, until)._replace(until=max(timer.until, until))
        yield f"sleeper {number} lies down until {until}", after._replace(hold=Hold(Work("sleep", number), opening=0))


def sleeping(timer: Timer, number: int, until: int) -> Timer:
    return timer._replace(sleepers=(until, timer.sleepers[1]) if number == 0 else (timer.sleepers[0], until))


# --- states that are the same --------------------------------------------------------------------------------------


def forget(timer: Timer, gone: int) -> Timer:
    """A task is over. Those that came later move up."""

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
    """The same state, with what makes no difference any more left out."""
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
    """In the counts, and of times that are over."""
    added, cancelled = content.added, content.cancelled
    earliest = earliest_add(content, now)
    inboxes = []
    for inbox in content.inboxes:
        over = max(min(inbox.cancelled, inbox.added - 1), 0)  # the last one stays until the inbox is emptied
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
    """With threads, tasks and readings in one order."""
    work = at_work(timer)
    adds = [each for each in work if each.what == "add"]
    # Only an add under way can have an earlier reading than an inbox's latest.
    late = min((each.at for each in adds), default=FOR_EVER)
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
