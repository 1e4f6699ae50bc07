"""TimerGroup compared with a dict of pending timers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hwheel import ManualTimer, TimerClosed
from invariants import check_invariants

GROUPS = 3
numbers = st.integers(0, 10_000)
delays_ms = st.sampled_from([0, 1, 2, 5, 19, 20, 21, 399, 400, 5000])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, GROUPS), delays_ms),  # group number GROUPS: no group
        st.tuples(st.just("every"), st.integers(0, GROUPS), st.integers(1, 60)),
        st.tuples(st.just("cancel task"), numbers),
        st.tuples(st.just("reschedule"), numbers, delays_ms),
        st.tuples(st.just("cancel"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("close"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("drop"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("advance"), st.sampled_from([0, 1, 3, 20, 50, 410])),
    ),
    max_size=60,
)


class Model:
    def __init__(self):
        self.now = 0
        self.deadlines = {}  # number of a pending task -> ms
        self.every = {}  # number -> interval
        self.group_of = {}  # number -> its group
        self.ran = []
        self.order = {}  # number -> sequence number
        self.placed = 0

    def place(self, number, delay_ms):
        self.deadlines[number] = self.now + delay_ms
        self.placed += 1
        self.order[number] = self.placed

    def members(self, group):
        return [number for number in self.deadlines if self.group_of.get(number) is group]

    def end(self, number):
        del self.deadlines[number]
        self.group_of.pop(number, None)
        self.every.pop(number, None)

    def advance(self, ms):
        target = self.now + ms
        while due := [n for n, deadline in self.deadlines.items() if deadline <= target]:
            number = min(due, key=lambda n: (self.deadlines[n], self.order[n]))
            self.now = max(self.now, self.deadlines[number])
            self.ran.append((number, self.now))
            if number in self.every:
                self.place(number, self.every[number])
            else:
                self.end(number)
        self.now = target


@settings(max_examples=150, deadline=None)
@given(steps)
def test_groups_agree_with_a_dict(script):
    timer, model, ran = ManualTimer(wheel_size=20), Model(), []
    groups = [timer.group() for _ in range(GROUPS)] + [None]
    tasks = []

    def run(number):
        ran.append((number, round(timer.time() * 1000)))

    for step, *rest in script:
        if step in ("add", "every"):
            group, number = groups[rest[0]], len(tasks)
            via = timer if group is None else group
            closed = group is not None and group.closed
            try:
                add = via.call_later if step == "add" else via.call_every
                tasks.append(add(rest[1] / 1000, run, number))
                assert not closed
            except TimerClosed:
                assert closed
                continue
            model.place(number, rest[1])
            if group is not None:
                model.group_of[number] = group
            if step == "every":
                model.every[number] = rest[1]
        elif step in ("cancel task", "reschedule"):
            if not tasks:
                continue
            number = rest[0] % len(tasks)
            pending = number in model.deadlines
            if step == "reschedule":
                assert tasks[number].reschedule(rest[1] / 1000) is pending
                if pending:
                    model.place(number, rest[1])
                    if number in model.every:  # the model has no grid
                        tasks[number].cancel()
                        model.end(number)
            else:
                assert tasks[number].cancel() is pending
                if pending:
                    model.end(number)
        elif step in ("cancel", "close"):
            members = model.members(groups[rest[0]])
            assert getattr(groups[rest[0]], step)() == len(members)
            for number in members:
                model.end(number)
        elif step == "drop":
            for number in model.members(groups[rest[0]]):
                del model.group_of[number]
            groups[rest[0]] = timer.group()
        else:
            model.advance(rest[0])
            timer.advance(rest[0] / 1000)
        assert ran == model.ran and len(timer) == len(model.deadlines)
        for group in groups[:GROUPS]:
            assert len(group) == len(model.members(group))
            check_invariants(group)
    assert all(task.pending == (number in model.deadlines) for number, task in enumerate(tasks))
    timer.close()
    assert all(len(group) == 0 for group in groups[:GROUPS])
