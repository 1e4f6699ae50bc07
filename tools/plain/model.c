#include "model.h"
#include <string.h>

void model_begin(Model *self, int64_t tick_ms, int never_early)
{
    memset(self, 0, sizeof *self);
    self->tick_ms = tick_ms;
    self->never_early = never_early;
}

/* Returns the tick from the first to the last that is divisible by the highest power of two. */
static int64_t most_even(int64_t first, int64_t last)
{
    for (int shift = 62; shift > 0; shift--)
        if (last >> shift << shift >= first)
            return last >> shift << shift;
    return last;
}

int model_tick(const Model *self, int64_t now_ms, int64_t now_ns, int64_t delay_ms, int64_t delay_ns, int64_t slack_ms,
               int64_t *own_ms)
{
    const __int128 ns_per_ms = 1000000, last_ms = INT64_MAX;
    const __int128 tick_ns = self->tick_ms * ns_per_ms;
    __int128 deadline_ns = (now_ms + (__int128)delay_ms) * ns_per_ms + now_ns + delay_ns;
    __int128 deadline_ms = (deadline_ns + (self->never_early ? ns_per_ms - 1 : 0)) / ns_per_ms;
    __int128 tick;
    if (delay_ms < 0 || (delay_ms == 0 && delay_ns == 0)) {
        *own_ms = now_ms - now_ms % self->tick_ms;
        return 1;
    }
    if (deadline_ms + (self->never_early ? self->tick_ms - 1 : 0) > last_ms)
        return 0;
    tick = self->never_early ? (deadline_ns + tick_ns - 1) / tick_ns : deadline_ms / self->tick_ms;
    if (slack_ms > 0 && deadline_ms > now_ms) {
        int64_t first = (int64_t)((deadline_ms + self->tick_ms - 1) / self->tick_ms);
        __int128 latest_ms = (deadline_ns + slack_ms * ns_per_ms) / ns_per_ms;
        if (latest_ms > last_ms)
            return 0;
        if (first < latest_ms / self->tick_ms)
            tick = most_even(first, (int64_t)(latest_ms / self->tick_ms));
    }
    *own_ms = (int64_t)(tick * self->tick_ms);
    return 1;
}

static int comes_before(const Expected *a, const Expected *b)
{
    return a->comes_ms != b->comes_ms ? a->comes_ms < b->comes_ms : a->order < b->order;
}

/* Returns the waiting timers until a time, in order. */
static int waiting_until(Model *self, int64_t until_ms, Expected **found)
{
    int count = 0;
    for (Expected *timer = self->timers; timer < self->timers + TIMERS; timer++) {
        if (timer->where == WAITING && timer->comes_ms <= until_ms) {
            int at = count++;
            for (; at > 0 && comes_before(timer, found[at - 1]); at--)
                found[at] = found[at - 1];
            found[at] = timer;
        }
    }
    return count;
}

static void make_ready(Model *self, Expected *timer)
{
    timer->where = READY;
    timer->order = ++self->last;
}

void model_wait(Model *self, int timer, int64_t own_ms, int64_t clock_ms)
{
    if (self->timers[timer].where != NOWHERE)
        fail("state of a timer before an add", self->timers[timer].where, NOWHERE);
    self->timers[timer] = (Expected){WAITING, own_ms, own_ms > clock_ms ? own_ms : clock_ms, ++self->last};
}

void model_is_due(Model *self, int timer, int64_t own_ms, int64_t clock_ms)
{
    model_wait(self, timer, own_ms, clock_ms);
    if (model_advance(self, self->timers[timer].comes_ms) != 1)
        fail("an added timer is ready before an earlier one", timer, -1);
}

void model_leave(Model *self, int timer) { self->timers[timer].where = NOWHERE; }

void model_put_back(Model *self, int timer)
{
    self->timers[timer].where = READY;
    self->timers[timer].order = --self->first;
}

void model_hold(Model *self, int timer)
{
    if (self->timers[timer].where != READY)
        fail("state of a timer that is taken", self->timers[timer].where, READY);
    self->timers[timer].where = HELD;
}

void model_let_go(Model *self, int slot)
{
    int timers[LONGEST];
    for (int i = model_of_slot(self, slot, timers) - 1; i >= 0; i--)
        if (self->timers[timers[i]].where == HELD)
            model_put_back(self, timers[i]);
}

int model_advance(Model *self, int64_t until_ms)
{
    Expected *found[TIMERS];
    int count = waiting_until(self, until_ms, found);
    for (int i = 0; i < count; i++)
        make_ready(self, found[i]);
    return count;
}

void model_advance_some(Model *self, int64_t count, int64_t latest_ms)
{
    Expected *found[TIMERS];
    int most = waiting_until(self, latest_ms, found);
    if (count < 0 || count > most)
        fail("number of timers that became ready", count, most);
    for (int i = 0; i < count; i++)
        make_ready(self, found[i]);
}

int model_next(const Model *self)
{
    int next = -1;
    for (int i = 0; i < TIMERS; i++)
        if (self->timers[i].where == READY && (next < 0 || self->timers[i].order < self->timers[next].order))
            next = i;
    return next;
}

int model_of_slot(const Model *self, int slot, int *timers)
{
    int count = 0;
    for (int i = TASKS + slot * LONGEST; i < TASKS + (slot + 1) * LONGEST; i++) {
        if (self->timers[i].where == READY || self->timers[i].where == HELD) {
            int at = count++;
            for (; at > 0 && self->timers[i].order < self->timers[timers[at - 1]].order; at--)
                timers[at] = timers[at - 1];
            timers[at] = i;
        }
    }
    return count;
}

int model_pending_of(const Model *self, int slot)
{
    int count = 0;
    for (int i = TASKS + slot * LONGEST; i < TASKS + (slot + 1) * LONGEST; i++)
        count += self->timers[i].where != NOWHERE;
    return count;
}

int64_t model_count(const Model *self, int where)
{
    int64_t count = 0;
    for (int i = 0; i < TIMERS; i++)
        count += self->timers[i].where == where;
    return count;
}

int64_t model_earliest(const Model *self)
{
    int64_t earliest_ms = INT64_MAX;
    for (int i = 0; i < TIMERS; i++)
        if (self->timers[i].where == WAITING && self->timers[i].comes_ms < earliest_ms)
            earliest_ms = self->timers[i].comes_ms;
    return earliest_ms;
}
