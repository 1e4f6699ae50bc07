/* What must be: each timer in one of four places, and an order. There is no wheel in it, no bucket and no list, but a row of
 * timers that is looked through from end to end, so that it is too plain to be wrong. It is a file of its own because
 * libFuzzer is not to look at what it does. */
#ifndef HWHEEL_FUZZ_MODEL_H
#define HWHEEL_FUZZ_MODEL_H

#include <stdint.h>

enum {
    TASKS = 48,
    SLOTS = 5,    /* of batches */
    LONGEST = 24, /* timers of a batch */
    TIMERS = TASKS + SLOTS * LONGEST
};

enum { NOWHERE, WAITING, READY, HELD }; /* HELD: fell due, and a thread has begun to take its batch */

typedef struct {
    int where;
    int64_t own_ms;   /* the beginning of the tick that its time is in */
    int64_t comes_ms; /* that, or where the clock stood when it was added, if that is later */
    int64_t order;    /* WAITING: among those of one comes_ms; else among all that fell due */
} Expected;

typedef struct {
    Expected timers[TIMERS];
    int64_t tick_ms;
    int never_early;
    int64_t first, last; /* the next order in front of all others, and behind */
    int64_t added, expired, cancelled, returned, pending, resting;
} Model;

/* Says what is not as it should be, and ends the program. */
void fail(const char *what, int64_t is, int64_t should);

void model_begin(Model *self, int64_t tick_ms, int never_early);

/* The tick of what waits for a delay, put off by at most `slack_ms`. False: it is beyond 64 bits. */
int model_tick(const Model *self, int64_t now_ms, int64_t now_ns, int64_t delay_ms, int64_t delay_ns, int64_t slack_ms,
               int64_t *own_ms);

void model_wait(Model *self, int timer, int64_t own_ms, int64_t clock_ms);
void model_is_due(Model *self, int timer, int64_t own_ms, int64_t clock_ms); /* it is ready at once */
void model_leave(Model *self, int timer);
void model_put_back(Model *self, int timer); /* a task that was taken */
void model_hold(Model *self, int timer);

/* All that is held of a batch is ready again, before everything else. */
void model_let_go(Model *self, int slot);

/* All that waits until a time is ready, in order. Returns how many. */
int model_advance(Model *self, int64_t until_ms);

/* The next `count` that wait are ready; none of them comes after a time. */
void model_advance_some(Model *self, int64_t count, int64_t latest_ms);

/* The clock goes back to `now_ms`, after all that comes until `taken_ms` was made ready. */
void model_set_back(Model *self, int64_t now_ms, int64_t taken_ms);

int model_next(const Model *self);                           /* the first that is ready; -1: none */
int model_of_slot(const Model *self, int slot, int *timers); /* what is ready or held of a batch, in order; how many */
int model_pending_of(const Model *self, int slot);
int64_t model_count(const Model *self, int where);
int64_t model_earliest(const Model *self); /* when the first that waits comes; INT64_MAX: none waits */

#endif
