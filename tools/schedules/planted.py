"""Concurrency faults to plant into a copy of the core: the search must find each."""

# {fault: (text of the core, replacement, ...)}. One program has all of them, and `planted_fault` activates the one with
# this NUMBER, counted from 1.
WITHOUT = "planted_fault != NUMBER"
WITH = "planted_fault == NUMBER"

FAULTS = {
    "a thread that waited for the lock does not empty the inboxes": (
        "            hw_poke(&timer.met, timer.met + 1)\n    lock_entered(timer)\n",
        f"            hw_poke(&timer.met, timer.met + 1)\n    if {WITHOUT}:\n        lock_entered(timer)\n",
    ),
    "the reaper reads the clock after it has emptied the inboxes": (
        "    clock_read(self.clock, now_out)\n    lock_entered(self)\n",
        f"    clock_read(self.clock, now_out)\n    if {WITHOUT}:\n        lock_entered(self)\n",
    ),
    "the executor is only woken for whole ticks": (
        "    if self.has_worker:\n        hw_cond_signal(&self.work)",
        f"    if self.has_worker and ({WITHOUT} or entry is due):\n        hw_cond_signal(&self.work)",
    ),
    "a woken thread does not wait for the other sleepers": (
        "    if self.woken:              # until",
        f"    if self.woken and {WITHOUT}:              # until",
    ),
    "the first sleeper to return clears the wake-up": (
        "    if self.sleepers == 0:\n        self.reaper_until_ms",
        f"    if self.sleepers == 0 or {WITH}:\n        self.reaper_until_ms",
    ),
    "an add does not wake the reaper": (
        "        if bucket_ms < self.reaper_until_ms:",
        f"        if {WITHOUT} and bucket_ms < self.reaper_until_ms:",
    ),
    "a move does not wake the reaper": (
        "    if bucket.entries.expiration_ms < self.reaper_until_ms:",
        f"    if {WITHOUT} and bucket.entries.expiration_ms < self.reaper_until_ms:",
    ),
    "an add of a batch does not wake the reaper": (
        "at, placement_delay_ms(at, delays, i)))\n    if wake_ms < timer.reaper_until_ms:",
        f"at, placement_delay_ms(at, delays, i)))\n    if {WITHOUT} and wake_ms < timer.reaper_until_ms:",
    ),
    "a move of a batch does not wake the reaper": (
        "            moved += 1\n    if wake_ms < timer.reaper_until_ms:",
        f"            moved += 1\n    if {WITHOUT} and wake_ms < timer.reaper_until_ms:",
    ),
    "a stop does not wake the reaper": (
        "    hw_cond_broadcast(&self.work)\n    timer_wake_reaper_locked(self)",
        f"    hw_cond_broadcast(&self.work)\n    if {WITHOUT}:\n        timer_wake_reaper_locked(self)",
    ),
    "a stop does not wake the executor": (
        "    hw_cond_broadcast(&self.work)\n",
        f"    if {WITHOUT}:\n        hw_cond_broadcast(&self.work)\n",
    ),
    "the executor does not check again after a wait": (
        "        hw_cond_wait(&self.work, &self.lock)\n",
        f"        hw_cond_wait(&self.work, &self.lock)\n        if {WITH}:\n            break\n",
    ),
    "a cancel does not check whether the task is still in the inbox": (
        "    found = task.entry.place == place ",
        f"    found = {WITH} or task.entry.place == place ",
    ),
    "an inbox takes a task that is due before the sleepers wake up": (
        "            fits = box.from_ms <= expiration_ms < box.until_ms",
        f"            fits = ({WITH} or box.from_ms <= expiration_ms) and expiration_ms < box.until_ms",
    ),
    "one inbox is emptied after the other": (
        "box.letters[box.moved].added_ns < first.letters[first.moved].added_ns):",
        f"{WITHOUT} and box.letters[box.moved].added_ns < first.letters[first.moved].added_ns):",
    ),
    "the inboxes of a closed timer stay open": (
        "        inboxes_open_locked(self)       # accept nothing",
        f"        if {WITHOUT}:\n            inboxes_open_locked(self)       # accept nothing",
    ),
    "the inboxes are not emptied before a sleep": (
        "        hw_mutex_unlock(&boxes[i].lock)\n    inboxes_drain_locked(timer)",
        f"        hw_mutex_unlock(&boxes[i].lock)\n    if {WITHOUT}:\n        inboxes_drain_locked(timer)",
    ),
    "an inbox does not announce its first letter": (
        "    if box.added == 1:",
        f"    if box.added == 1 and {WITHOUT}:",
    ),
    "an inbox that gets its first letter during the locking is emptied later": (
        "        wanted = hw_peek(&timer.mail)       #",
        f"        wanted = held if {WITH} else hw_peek(&timer.mail)       #",
    ),
    "the mail of all inboxes is forgotten": (
        "    hw_clear_bits(&timer.mail, held)",
        f"    hw_clear_bits(&timer.mail, held if {WITHOUT} else -1)",
    ),
    "two threads that create the inboxes replace each other's": (
        "    if not timer.inboxes:",
        f"    if {WITH} or not timer.inboxes:",
    ),
    "two threads that add a level both install theirs": (
        "    if self.wheel.level_count == level_count:",
        f"    if {WITH} or self.wheel.level_count == level_count:",
    ),
    "close() does not wait for adds of batches": (
        "    while self.adding:\n        lock_yield(self)\n    lock_release(self)",
        f"    while self.adding and {WITHOUT}:\n        lock_yield(self)\n    lock_release(self)",
    ),
    "a fork does not wait for adds of batches": (
        "        while timer.adding: ",
        f"        while timer.adding and {WITHOUT}: ",
    ),
    "a fork leaves out the inboxes": (
        "            inboxes_before_fork(timer)",
        f"            if {WITHOUT}:\n                inboxes_before_fork(timer)",
    ),
    "the child believes in the parent's reaper": (
        "        timer.roles[ROLE_REAPER] = timer",
        f"        if {WITHOUT}:\n            timer.roles[ROLE_REAPER] = timer",
    ),
    "a timer leaves the list of all timers without a lock": (
        "    global registry_first\n    hw_mutex_lock(&registry)\n    if timer.registry_prev is NULL:",
        f"    global registry_first\n    if {WITHOUT}:\n        hw_mutex_lock(&registry)\n"
        "    if timer.registry_prev is NULL:",
        "registry_prev = timer.registry_prev\n    hw_mutex_unlock(&registry)",
        f"registry_prev = timer.registry_prev\n    if {WITHOUT}:\n        hw_mutex_unlock(&registry)",
    ),
    "a change of a batch does not wait for its add": (
        "    while self.adding:\n        lock_yield(self.timer)",
        f"    while self.adding and {WITHOUT}:\n        lock_yield(self.timer)",
    ),
    "a reaper that ends is not replaced": (
        "        self.roles[role] = ROLE_FREE\n        hw_poke(&self.started, False)",
        f"        self.roles[role] = ROLE_FREE\n        if {WITHOUT}:\n            hw_poke(&self.started, False)",
    ),
    "a sleep is announced after the lock is released": (
        "    timer_begin_sleep_locked(self, next_ms)\n    lock_release(self)\n",
        f"    if {WITH}:\n        lock_release(self)\n        lock_wait(self)\n"
        "    timer_begin_sleep_locked(self, next_ms)\n    lock_release(self)\n",
    ),
    "a batch may end while it is being extended": (
        "    self.holders += 1\n    if self.is_listed:",
        f"    self.holders += {WITHOUT}\n    if self.is_listed:",
    ),
    "a stop takes no lock": (
        "    lock_wait(self)\n    if drain:\n        self.draining",
        f"    if {WITHOUT}:\n        lock_wait(self)\n    if drain:\n        self.draining",
        "wake_reaper_locked(self)\n    timer_close_waker_if_over_locked(self)\n    lock_release(self)",
        "wake_reaper_locked(self)\n    timer_close_waker_if_over_locked(self)\n"
        f"    if {WITHOUT}:\n        lock_release(self)",
    ),
}

# ThreadSanitizer finds these. Without it, they do no harm on the platform of the scheduler.
DATA_RACES = ("a timer leaves the list of all timers without a lock", "a stop takes no lock")


def planted() -> list[tuple[str, str]]:
    """Return the changes of the core that plant all of FAULTS."""
    changes: list[tuple[str, str]] = []
    for number, texts in enumerate(FAULTS.values(), 1):
        new = [text.replace("NUMBER", str(number)) for text in texts[1::2]]
        changes += zip(texts[::2], new, strict=True)
    return changes
