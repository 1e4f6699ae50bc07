"""A signal handler forks while the main thread waits in a method: the child gets out, though who would wake it is not
there."""

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# A child that hangs is killed by its alarm. The handler forks once, after so many seconds.
FORKS = """
main = os.getpid()
pids = []

def fork_in(seconds):
    def handler(*_):
        pid = os.fork()
        pids.append(pid)
        if pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, 60)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)

def childs_end(code=0):
    # The child ends here; the parent insists that it does.
    if os.getpid() != main:
        sys.stdout.flush()
        os._exit(code)
    assert len(pids) == 1, pids
    assert os.waitstatus_to_exitcode(os.waitpid(pids.pop(), 0)[1]) == 0

"""


def test_while_a_close_waits_for_what_a_foreign_executor_runs(run_script):
    answer = run_script(
        FORKS
        + """
from concurrent.futures import ThreadPoolExecutor
inside, go_on, ran = threading.Event(), threading.Event(), []

def job():
    inside.set()
    go_on.wait(120)
    ran.append(1)

timer = SystemTimer(executor=ThreadPoolExecutor(1))
timer.call_later(0, job)
timer.call_later(0, ran.append, 2)
assert inside.wait(60)
threading.Timer(1, go_on.set).start()
fork_in(0.3)
not_run = timer.close(run_pending=True)
assert not_run == [] and ran == ([] if os.getpid() != main else [1, 2]), (not_run, ran)
childs_end()
"""
    )
    assert answer == (0, "", "")


@pytest.mark.parametrize("module", ["threading", "hwheel"])
def test_while_a_join_waits_for_a_timer(run_script, module):
    answer = run_script(
        FORKS
        + f"""
from {module} import Timer
timer = Timer(1, int)
timer.start()
fork_in(0.3)
timer.join()
assert not timer.is_alive()
if os.getpid() != main:
    own = Timer(0.01, int)
    own.start()
    own.join()
childs_end()
"""
    )
    assert answer == (0, "", "")


def test_while_a_join_that_is_just_beginning_looks_at_its_timer(run_script):
    answer = run_script(
        FORKS
        + """
from hwheel import Timer

looks, look = 0, Timer.is_alive

def is_alive(timer):
    global looks
    alive = look(timer)
    looks += 1
    if looks == at:
        signal.raise_signal(signal.SIGALRM)     # with the parent's answer in hand
    return alive

Timer.is_alive = is_alive
for at in 1, 2, 3:
    looks = 0
    timer = Timer(0.5, int)
    timer.start()
    fork_in(100)
    timer.join()
    if pids:
        childs_end()
    assert at == 3 or looks >= at
    timer.cancel()
"""
    )
    assert answer == (0, "", "")


def test_while_the_interpreters_end_waits_for_a_timer(run_script):
    answer = run_script(
        FORKS
        + """
from hwheel import Timer
faulthandler.cancel_dump_traceback_later()      # its thread would be waited for in the child
Timer(1, lambda: (print("fallen due", flush=True), childs_end())).start()
fork_in(0.4)
"""
    )
    assert answer == (0, "fallen due\n", "")


def test_while_a_timer_is_advanced_by_hand(run_script):
    answer = run_script(
        FORKS
        + """
timer = SystemTimer(reaper=False)
ran = []
timer.call_later(1, ran.append, 1)
fork_in(0.3)
timer.advance_clock(1500)
mine = 1
if os.getpid() != main:
    mine = 2
    timer.call_later(0, ran.append, 2)

def advanced():
    timer.advance_clock(10)
    return ran == [mine]

eventually(advanced)
timer.close()
childs_end()
"""
    )
    assert answer == (0, "", "")


# Forks at one moment after another of what starts threads; each child has to get through, and what it starts has to
# run.
STARTS = """
children = 0

def at_every_moment(use):
    global children
    deadlines = [0.00002 + step * 0.00001 for step in range(40)] * 2
    for deadline in deadlines:
        state = prepare()
        fork_in(deadline)
        use(state)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if os.getpid() != main:
            signal.alarm(60)
        check(state)
        if pids:
            children += 1
            childs_end()
    assert children > 20, "hardly any came in time"

"""


@pytest.mark.parametrize("executor", ["None", "'inline'"])
def test_while_a_first_add_starts_threads(run_script, executor):
    answer = run_script(
        FORKS
        + STARTS
        + f"""
def prepare():
    return SystemTimer(executor={executor}), []

def use(state):
    timer, ran = state
    timer.call_later(0.05, ran.append, os.getpid())

def check(state):
    timer, ran = state
    if os.getpid() != main:         # if it was forked before the add, it is the child's
        timer.call_later(0.1, ran.append, "after")
        eventually(lambda: "after" in ran)
        assert ran in (["after"], [main, "after"], [os.getpid(), "after"]), ran
    timer.close()

at_every_moment(use)
"""
    )
    assert answer == (0, "", "")


def test_an_add_in_whose_middle_a_handler_forks_is_run_in_the_child(run_script):
    # After the last look at the threads nothing forks before the task is added: so the child has it, or it never comes.
    answer = run_script(
        FORKS
        + """
class Forks(SystemTimer):
    def _start(self):
        super()._start()
        if not pids:
            signal.raise_signal(signal.SIGALRM)

fork_in(100)
for executor in None, "inline":
    timer = Forks(executor=executor)
    ran = []
    timer.call_later(0.01, ran.append, 1)
    eventually(lambda: ran == [1])
    timer.close()
    childs_end()
"""
    )
    assert answer == (0, "", "")


def test_while_the_first_timer_of_the_process_starts(run_script):
    answer = run_script(
        FORKS
        + """
from hwheel import Timer
fork_in(100)
starts = []

class Thread(threading.Thread):
    def start(self):
        starts.append(self.name)
        if len(starts) == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGALRM)
        super().start()

for at in range(1, 4):
    pid = os.fork()
    if pid == 0:
        main = os.getpid()
        sys.argv[1:] = [str(at)]
        threading.Thread = Thread
        ran = []
        timer = Timer(0.01, ran.append, [1])
        timer.start()
        timer.join()
        again = Timer(0.01, ran.append, [2])
        again.start()
        again.join()
        assert 2 in ran, (at, ran)
        if pids:
            childs_end()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, at
"""
    )
    assert answer == (0, "", "")
