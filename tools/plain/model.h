/* The model that the core is compared with: each timer is in one of four states and has an order. It has no wheel, no bucket,
 * and no list, only an array of timers that is searched from end to end. It is a separate file so that libFuzzer does not
 * instrument it. */
#ifndef HWHEEL_FUZZ_MODEL_H
#define HWHEEL_FUZZ_MODEL_H

#include <stdint.h>

enum {
    TASKS = 48,
    SLOTS = 5,    /* of batches */
    LONGEST = 24, /* timers of a batch */
    TIMERS = TASKS + SLOTS * LONGEST
};

enum { NOWHERE, WAITING, READY, HELD }; /* READY: expired; HELD: expired, and a thread has begun to take its batch */

typedef struct {
    int where;
    int64_t own_ms;   /* the begin of the tick of its deadline */
    int64_t comes_ms; /* that, or the wheel's clock at the add, if that is later */
    int64_t order;    /* WAITING: among timers of one comes_ms; otherwise among all expired timers */
} Expected;

typedef struct {
    Expected timers[TIMERS];
    int64_t tick_ms;
    int never_early;
    int64_t first, last; /* the next order before all others, and after them */
    int64_t added, expired, cancelled, returned, pending, resting;
} Model;

/* Prints the difference and aborts. */
void fail(const char *what, int64_t found, int64_t expected);

void model_begin(Model *self, int64_t tick_ms, int never_early);

/* Computes the tick of a delay, postponed by at most `slack_ms`. False: beyond 64 bits. */
int model_tick(const Model *self, int64_t now_ms, int64_t now_ns, int64_t delay_ms, int64_t delay_ns, int64_t slack_ms,
               int64_t *own_ms);

void model_wait(Model *self, int timer, int64_t own_ms, int64_t clock_ms);
void model_is_due(Model *self, int timer, int64_t own_ms, int64_t clock_ms); /* it expires at once */
void model_leave(Model *self, int timer);
void model_put_back(Model *self, int timer); /* a task that was handed out */
void model_hold(Model *self, int timer);

/* The held timers of a batch are ready again, before all others. */
void model_let_go(Model *self, int slot);

/* All timers until a time become ready, in order. Return their number. */
int model_advance(Model *self, int64_t until_ms);

/* The next `count` timers become ready; none of them expires after `latest_ms`. */
void model_advance_some(Model *self, int64_t count, int64_t latest_ms);


int model_next(const Model *self);                           /* the first ready timer; -1: none */
int model_of_slot(const Model *self, int slot, int *timers); /* the ready and held timers of a batch, in order; returns their number */
int model_pending_of(const Model *self, int slot);
int64_t model_count(const Model *self, int where);
int64_t model_earliest(const Model *self); /* the earliest expiration; INT64_MAX: none */

#endif
