"""The scenarios: the operations of each thread. world.pxi implements them.

Threads are separated by `|`. The first part prepares the timer. Tasks have numbers from 0 to 7; those from 4 on belong
to a group. Delays are in milliseconds.

    add TASK DELAY        cancel TASK       move TASK DELAY
    batch B COUNT DELAY   extend B COUNT DELAY   shift B DELAY (moves its timers)   drop B (cancels them)
    disband (cancels the group)   look (checks the invariants and measures the buckets)   pass MS (the time)
    reap, execute (the threads of a timer)   sleep MS (waits as advance_clock() does)   take (dispatches one)
    close   drain   fork (goes on in the parent or in the child)   other (creates and frees another timer)
    keep (takes and drops a reference)
    To prepare: worker (with an executor's own thread), inboxes MEETINGS, limit PENDING
"""

SCENARIOS = {
    "tasks": " | reap | add 0 2, cancel 0, add 1 1, move 1 3 | add 2 1, cancel 1, pass 2, move 2 4",
    "levels": " | reap | add 0 9, add 1 30, move 0 2, cancel 1 | add 2 40, pass 9, add 3 2, move 2 1",
    "limit": "limit 2 | reap | add 0 1, add 1 1, cancel 0, add 0 2 | add 2 1, batch 0 2 1, drop 0, add 3 1",
    "batch": " | reap | batch 0 5 1, extend 0 2 2, shift 0 3, drop 0 | add 0 1, cancel 0, pass 1, look",
    "batches": " | reap | batch 0 5 9, shift 0 1, batch 1 3 2, drop 1 | add 0 9, extend 0 3 1, pass 2, drop 0",
    "batch grows": " | reap | batch 0 2 9, extend 0 6 2 | pass 1, shift 0 3, drop 0",
    "executor": "worker | reap | execute | add 0 2, batch 0 5 1, drop 0 | add 1 1, cancel 1, pass 1, extend 0 2 4",
    "sleepers": " | reap | sleep 2, sleep 1 | sleep 3, cancel 1 | add 0 2, add 1 1, move 0 1, cancel 0",
    "callers": " | sleep 5, sleep 5, take, take | sleep 3, sleep 9, take, take | add 0 4, move 0 2, batch 0 3 2",
    "group": " | reap | add 4 1, add 5 2, add 6 3, disband | add 7 1, cancel 4, move 5 9, add 6 3",
    "close": " | reap | add 0 2, add 4 1, batch 0 5 2, close | add 1 1, cancel 4, move 1 2, add 6 3",
    "close beside a batch": " | reap | batch 0 5 2, batch 1 5 1, add 1 1 | add 0 2, cancel 0, close",
    "drain": " | reap | add 0 2, add 4 100, add 5 2, drain | add 1 1, cancel 4, move 1 2, add 6 3",
    "executor drains": "worker | reap | execute | add 0 2, batch 0 5 2, drain | add 1 1, cancel 0, move 1 2, add 6 3",
    "fork": " | reap | add 4 1, fork, add 5 2, cancel 4 | add 0 1, batch 0 5 2, drop 0 | other",
    "executor forks": "worker | reap | execute | add 0 1, fork, add 1 2, cancel 0 | batch 0 5 1, shift 0 2, look",
    "inboxes": "inboxes 0 | reap | add 0 2, cancel 0, add 1 1, move 1 3 | add 2 1, cancel 1, pass 2, move 2 4",
    "inboxes of three": "inboxes 0 | reap | add 0 4, add 1 1, cancel 0 | add 2 4, add 3 2, cancel 3 | add 4 3, look",
    "inboxes in order": "inboxes 0, add 3 1, add 4 9 | reap | add 0 4 | add 2 4, add 1 4 | look",
    "inboxes and time": "inboxes 0, add 4 9 | reap | add 0 1, add 1 3, add 2 1 | pass 1, pass 2",
    "inboxes and sleepers": "inboxes 0 | reap | sleep 2, sleep 1 | add 0 3, add 1 1, add 2 4 | add 3 3, cancel 0",
    "meetings": "inboxes 1 | reap | add 0 2, cancel 0, add 1 1, move 1 3 | add 2 1, cancel 1, pass 2, add 3 4",
    "inboxes close": "inboxes 0 | reap | add 0 2, add 1 3, cancel 0, close | add 2 2, add 3 1, cancel 2, keep",
    "inboxes fork": "inboxes 0 | reap | add 0 1, fork, add 1 2, cancel 0 | add 2 1, cancel 2, add 3 2 | keep, add 4 1",
}
