"""Faults that a core can be built with, so that the kept inputs are seen to find them. All of them are in one program,
and its argument says which is awake, because a build takes half a minute."""

# {what the core does wrong: (file, what stands there, what stands there instead)}; each asks for its own number.
FAULTS = {
    "loses what cascades from a batch": (
        "wheel/wheel.pxi",
        "            bucket_push(bucket, entry, self.removals)\n",
        "            bucket_push(bucket, entry, self.removals)\n"
        "            if planted == NUMBER and self.cascaded % 7 == 3:\n"
        "                entry_unlink(entry)\n",
    ),
    "turns the order of a tick around": (
        "wheel/wheel.pxi",
        "            list_push(&self.due, entry)\n",
        "            if planted == NUMBER:\n"
        "                list_append(&self.due, entry)\n"
        "            else:\n"
        "                list_push(&self.due, entry)\n",
    ),
    "hurries by a tick": (
        "wheel/wheel.pxi",
        "        if bucket is NULL or bucket.entries.expiration_ms > now_ms:\n",
        "        if planted == NUMBER and now_ms < INT64_MAX:\n"
        "            now_ms += 1\n"
        "        if bucket is NULL or bucket.entries.expiration_ms > now_ms:\n",
    ),
    "takes a task twice": (
        "task/task.pxi",
        "            hw_poke(&task.state, TASK_EXPIRED)\n"
        "            self.expired += 1\n            timer_record_locked",
        "            if planted == NUMBER and self.expired % 16 == 15:\n"
        "                hw_poke(&task.state, TASK_PENDING)\n"
        "                list_append(&self.ready, &task.entry)\n"
        "                return entry\n"
        "            hw_poke(&task.state, TASK_EXPIRED)\n"
        "            self.expired += 1\n            timer_record_locked",
    ),
    "forgets what follows the head of a run": (
        "timer/ready.pxi",
        "    if following < self.due_end and not self.due[following].is_head:\n",
        "    if planted != NUMBER and following < self.due_end and not self.due[following].is_head:\n",
    ),
    "does not follow a clock that is set back": (
        "timer/set_back.pxi",
        "            timer_take_early_locked(self, now_ms, &pending)\n",
        "            if planted != NUMBER:\n"
        "                timer_take_early_locked(self, now_ms, &pending)\n"
        "            else:\n"
        "                now_ms = INT64_MAX\n",
    ),
    "is deaf to a cancel of a batch that fell due": (
        "batch/bulk.pxi",
        "        batch_leave_due(self, entry)\n        return True\n    if entry_is_linked(entry):\n        if self.",
        "        if planted != NUMBER:\n"
        "            batch_leave_due(self, entry)\n"
        "        return True\n    if entry_is_linked(entry):\n        if self.",
    ),
    "leaves no room for what falls due again": (
        "timer/ready.pxi",
        "    if batch_wants_room(self):          # a gap",
        "    if planted != NUMBER and batch_wants_room(self):          # a gap",
    ),
    "counts what is put back twice": (
        "task/task.pxi",
        "    self.expired -= 1\n    if task_flags(task) & TASK_ALARM",
        "    self.expired -= 1 if planted != NUMBER else 0\n    if task_flags(task) & TASK_ALARM",
    ),
}


def changes() -> list[tuple[str, str, str]]:
    """For build.build(): fault n of FAULTS, counted from 1, is there when the program's first argument says n."""
    places = enumerate(FAULTS.values(), 1)
    return [(file, old, new.replace("NUMBER", str(number))) for number, (file, old, new) in places]
