# An elastic pool of threads: it grows while jobs block, and stays small while they do not.
#
# Exceptions from outside (PyThreadState_SetAsyncExc). CPython raises one only while a thread runs Python code. The loop of a
# worker is compiled, so an exception strikes inside a job or in worker_rest, which reports it. The thread that starts another
# one runs Python code of the standard library, and so does the new thread before it reaches the loop. So before a thread is
# started, its job is in the queue and a check is scheduled, and the new thread counts itself.

IDLE_NAME = "idle timer thread"
INITIAL_THREADS = 4             # the pool grows to this size without checks
IDLE_TIMEOUT_S = 10.0           # after which an idle thread ends

cdef enum:
    CHECK_INTERVAL_MS = 10      # between two checks of a queue
    QUICK_JOB_MS = 1            # if jobs take less than this on average, more threads would only wait for the GIL
    MAX_STRIKES = 100           # exceptions from outside, one after another, that worker_rest takes


def report_uncaught(error, thread):
    """Pass an exception to ``threading.excepthook`` as one of ``thread``. Never raise."""
    try:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
    except BaseException as another:    # a thread does the same if its excepthook fails
        try:
            sys.excepthook(type(another), another, another.__traceback__)
        except BaseException:
            pass


# --- the pool ----------------------------------------------------------------------------------------------------


cdef int64_t pool_size_locked(ThreadPool self) except -1:
    return self.running + len(self.starting)


cdef Worker pool_queue(ThreadPool self, object job, bint* grow_out, bint* schedule_out):
    """Give the job to an idle worker, which the caller wakes, or else add it to the queue and return None."""
    cdef Worker worker = None
    relock_acquire(&self.lock, self)
    try:
        if self.idle:
            worker = self.idle.popitem()[0]
            worker.job = job
            self.taken += 1
        else:
            self.queue.append(job)
            grow_out[0] = pool_size_locked(self) < self.initial
            schedule_out[0] = not hw_peek(&self.check_scheduled)
            if schedule_out[0]:
                hw_poke(&self.check_scheduled, True)
                self.taken_at_check = self.taken
    finally:
        relock_release(&self.lock)
    return worker


cdef bint pool_take_back(ThreadPool self, object job) except -1:
    """Remove a job from the queue. Return False if there are threads, which will take the job or have taken it."""
    cdef bint removed = False
    relock_acquire(&self.lock, self)
    try:
        if pool_size_locked(self) == 0 and job in self.queue:
            self.queue.remove(job)
            removed = True
    finally:
        relock_release(&self.lock)
    return removed


cdef bint pool_schedule_check(ThreadPool self) except False:
    try:
        self.call_later(CHECK_INTERVAL_MS / 1000.0, self.check)
    except:
        hw_poke(&self.check_scheduled, False)       # so that the next job tries again
        raise
    return True


cdef bint pool_start_thread(ThreadPool self) except False:
    cdef Worker worker = Worker.__new__(Worker)
    worker.pool = self
    worker.wake = threading.Lock()
    worker.wake.acquire()
    worker.thread = threading.Thread(target=worker, name=IDLE_NAME, daemon=self.daemon)
    relock_acquire(&self.lock, self)
    try:
        self.starting.add(worker)
    finally:
        relock_release(&self.lock)
    try:
        worker.thread.start()
    except:
        pool_forget(self, worker)                   # if the thread has begun all the same, it counts itself
        raise
    return True


cdef bint pool_forget(ThreadPool self, Worker worker) except False:
    relock_acquire(&self.lock, self)
    try:
        self.starting.discard(worker)
    finally:
        relock_release(&self.lock)
    return True


cdef bint pool_forget_ended(ThreadPool self) except False:
    """Forget the threads that an exception from outside has ended before they reached the loop."""
    cdef Worker worker
    cdef list starting
    relock_acquire(&self.lock, self)
    try:
        starting = list(self.starting)
    finally:
        relock_release(&self.lock)
    for worker in starting:
        if worker.thread.ident is not None and not worker.thread.is_alive():
            pool_forget(self, worker)
    return True


cdef bint pool_grow(ThreadPool self, int64_t count) except False:
    """Start threads, without the lock. If the system refuses one, the next check tries again."""
    for _ in range(count):
        try:
            pool_start_thread(self)
        except (RuntimeError, MemoryError):
            pass
    return True


@cython.final
cdef class ThreadPool:
    """An elastic pool. ``submit(job)`` calls ``job()`` in a thread.

    A job gets an idle thread if there is one. Otherwise it joins the queue. After each CHECK_INTERVAL_MS in which the
    jobs of the queue were slow, the pool grows by up to a quarter. So a thousand quick jobs share four threads, and a
    thousand jobs that block get a thousand threads within some tenths of a second. A thread ends after its idle timeout.

    Args:
        daemon: Create daemon threads. False: the interpreter's exit waits for the threads; see ``leave()``.
        call_later: ``call_later(seconds, callback)``, which schedules the checks.
        on_forked: Called at the end of a thread whose job has forked, in the child.
        minimum: The number of threads that stay, however long they are idle.
        initial: The size up to which the pool grows without checks.
        idle_timeout: Seconds after which an idle thread ends.
    """

    def __init__(self, *, daemon, call_later, on_forked, minimum=0, initial=INITIAL_THREADS, idle_timeout=IDLE_TIMEOUT_S):
        self.daemon = daemon
        self.call_later = call_later
        self.on_forked = on_forked
        self.minimum = minimum
        self.initial = initial
        self.idle_timeout_s = idle_timeout
        self.idle = {}
        self.starting = set()
        self.queue = collections.deque()

    def __dealloc__(self):
        relock_free(&self.lock)

    def __len__(self):
        cdef int64_t size
        relock_acquire(&self.lock, self)
        try:
            size = pool_size_locked(self)
        finally:
            relock_release(&self.lock)
        return size

    @property
    def idle_count(self):
        """The number of threads that wait for a job."""
        return len(self.idle)

    @property
    def queue_length(self):
        """The number of jobs that wait for a thread."""
        return len(self.queue)

    def submit(self, job):
        """Run the job in a thread, now or as soon as one is free. If this raises, the job does not run. Thread-safe."""
        cdef bint grow = False
        cdef bint schedule = False
        cdef object failure = None
        cdef Worker worker = pool_queue(self, job, &grow, &schedule)
        if worker is not None:
            worker.wake.release()       # without the lock, because the lock of a test may switch threads here
            return
        try:
            if schedule:
                pool_schedule_check(self)
        except BaseException as error:
            failure = error
        try:
            if grow:
                pool_grow(self, 1)
        except BaseException as error:
            report_uncaught(error, None)
        if failure is not None and pool_take_back(self, job):       # otherwise a thread takes the job when it is free
            raise failure

    def check(self):
        """Grow the pool if the queue moves too slowly."""
        cdef int64_t taken, size
        cdef int64_t grow_by = 0
        cdef bint schedule = False
        relock_acquire(&self.lock, self)
        try:
            taken = self.taken - self.taken_at_check
            self.taken_at_check = self.taken
            size = pool_size_locked(self)
            if taken * QUICK_JOB_MS < max(1, size) * CHECK_INTERVAL_MS:
                grow_by = min(len(self.queue), max(1, size // 4))
            schedule = bool(self.queue)
            hw_poke(&self.check_scheduled, schedule)
        finally:
            relock_release(&self.lock)
        try:
            if schedule:
                pool_schedule_check(self)
        finally:
            pool_grow(self, grow_by)
            pool_forget_ended(self)

    def fill(self):
        """Start threads up to the minimum."""
        pool_grow(self, self.minimum - len(self))

    def leave(self):
        """From now on, end each thread as soon as it has no job. The pool still accepts jobs."""
        cdef dict idle = {}
        cdef Worker worker
        relock_acquire(&self.lock, self)
        try:
            self.leaving = True
            self.running -= len(self.idle)
            idle, self.idle = self.idle, idle
        finally:
            relock_release(&self.lock)
        for worker in idle:
            worker.wake.release()       # without a job

    def abandon(self):
        """In the child of a fork: mark the pool as the parent's. If one of its threads has forked, it ends after its job."""
        hw_poke(&self.forked, True)


# --- its threads -------------------------------------------------------------------------------------------------


cdef bint worker_begin(Worker self) except False:
    """Count the thread."""
    cdef ThreadPool pool = self.pool
    relock_acquire(&pool.lock, pool)
    try:
        pool.starting.discard(self)
        pool.running += 1
    finally:
        relock_release(&pool.lock)
    return True


cdef bint worker_end_idle(Worker self) except -1:
    """End the thread after its idle timeout. Return False if it has just received a job, or stays."""
    cdef ThreadPool pool = self.pool
    cdef bint ends = False
    relock_acquire(&pool.lock, pool)
    try:
        ends = self in pool.idle and pool_size_locked(pool) > pool.minimum
        if ends:
            del pool.idle[self]
            pool.running -= 1
    finally:
        relock_release(&pool.lock)
    return ends


cdef bint worker_next_job(Worker self) except -1:
    """Wait for a job, and set `job`. Return False if the thread must end; it is then no longer counted."""
    cdef ThreadPool pool = self.pool
    cdef bint ends = False
    cdef bint woken = False
    relock_acquire(&pool.lock, pool)
    try:
        if pool.queue:
            self.job = pool.queue.popleft()
            pool.taken += 1
            return True
        if pool.leaving:
            pool.running -= 1
            return False
        pool.idle[self] = None
    finally:
        relock_release(&pool.lock)
    try:
        woken = self.wake.acquire(True, pool.idle_timeout_s)
        ends = not woken and worker_end_idle(self)
    except BaseException:
        pass                            # out of memory: this thread stays
    if ends:
        return False
    if not woken:
        self.wake.acquire()             # a job has just arrived, or this thread stays
    return self.job is not None         # None: after leave()


cdef void worker_rest(Worker self, bint rename) noexcept:
    """Run some Python code between two jobs. An exception from outside that came too late for a job strikes here.

    Other threads get the GIL here, which compiled jobs do not release.
    """
    cdef int strikes = 0
    while strikes < MAX_STRIKES:
        try:
            if rename:
                self.thread.name = IDLE_NAME
            else:
                let_others_run()
            strikes = MAX_STRIKES
        except BaseException as error:
            strikes += 1
            report_uncaught(error, self.thread)


cdef bint worker_turn(Worker self) noexcept:
    """Wait for a job and run it. Return False if the thread must end. No error ends it, because the pool counts on it."""
    cdef object job
    try:
        if not worker_next_job(self):
            return False
        job, self.job = self.job, None
        worker_rest(self, False)
        job()
    except BaseException as error:
        report_uncaught(error, self.thread)
    worker_rest(self, True)
    return True


@cython.final
cdef class Worker:
    """A thread of a pool: the target of its threading.Thread."""

    def __call__(self):
        cdef ThreadPool pool = self.pool
        if pool is None:
            raise TypeError("only a ThreadPool creates its workers")
        worker_begin(self)
        while worker_turn(self):
            if hw_peek(&pool.forked):
                pool.on_forked()
                return
