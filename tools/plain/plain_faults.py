"""Faults to plant into a copy of the core, so that tests can see that the driver finds them."""

from plain_build import Change

# {fault: (old text, new text)}. One program has all of them, because a build takes long; its argument FAULT
# activates the fault with that NUMBER, counted from 1.
FAULTS = {
    "loses batch entries in a cascade": (
        "            bucket_push(bucket, entry, self.removals)\n",
        "            bucket_push(bucket, entry, self.removals)\n"
        "            if planted_fault == NUMBER and self.cascaded % 7 == 3:\n"
        "                entry_unlink(entry)\n",
    ),
    "reverses the order of a tick": (
        "            list_push(&self.due, entry)\n",
        "            if planted_fault == NUMBER:\n"
        "                list_append(&self.due, entry)\n"
        "            else:\n"
        "                list_push(&self.due, entry)\n",
    ),
    "expires a tick early": (
        "        if bucket is NULL or bucket.entries.expiration_ms > now_ms:\n",
        "        if planted_fault == NUMBER and now_ms < INT64_MAX:\n"
        "            now_ms += 1\n"
        "        if bucket is NULL or bucket.entries.expiration_ms > now_ms:\n",
    ),
    "hands out a task twice": (
        "    hw_poke(&task.state, TASK_EXPIRED)\n    self.expired += 1\n    timer_record_locked",
        "    if planted_fault == NUMBER and self.expired % 16 == 15:\n"
        "        hw_poke(&task.state, TASK_PENDING)\n"
        "        list_append(&self.ready, &task.entry)\n"
        "        return\n"
        "    hw_poke(&task.state, TASK_EXPIRED)\n    self.expired += 1\n    timer_record_locked",
    ),
    "loses the entry after the head of a run": (
        "    if following < self.due_end and not self.due[following].is_head:\n",
        "    if planted_fault != NUMBER and following < self.due_end and not self.due[following].is_head:\n",
    ),
    "ignores the cancel of an expired batch entry": (
        "        batch_leave_due(self, entry)\n        return True\n    if entry_is_linked(entry):\n        if self.",
        "        if planted_fault != NUMBER:\n"
        "            batch_leave_due(self, entry)\n"
        "        return True\n    if entry_is_linked(entry):\n        if self.",
    ),
    "counts a task twice that is put back": (
        "    self.expired -= 1\n    if task_flags(task) & TASK_ALARM",
        "    self.expired -= 1 if planted_fault != NUMBER else 0\n    if task_flags(task) & TASK_ALARM",
    ),
}


def planted() -> list[Change]:
    """Return the changes that plant all of FAULTS."""
    return [(old, new.replace("NUMBER", str(number))) for number, (old, new) in enumerate(FAULTS.values(), 1)]
