/* hwheel for C and Cython: a wheel of your own, with entries in your own structs, callbacks of C, and no GIL.
 *
 * A wheel holds entries until you bring its clock to their deadlines. It has no thread, reads no clock, and allocates
 * nothing for an entry: an hwheel_entry is a part of whatever it is a timeout of, as in an intrusive list.
 *
 *     static const hwheel_api *hw;                  // in your module's init, with the GIL:
 *     hw = hwheel_import();                         // NULL: an ImportError is set
 *
 *     hwheel_wheel *wheel = hw->create(1, 0, now);
 *     hwheel_entry_init(&connection->idle, on_idle, NULL);
 *     hw->add(wheel, &connection->idle, now + 30000);
 *     hw->move(wheel, &connection->idle, now + 30000);              // it said something
 *     sleep_until(hw->next(wheel));
 *     hw->advance(wheel, now, 0);                   // calls on_idle(wheel, &connection->idle)
 *
 * Time. All times are those of one clock of yours, which should not go back, as int64_t that are not negative, in
 * whatever unit it counts: milliseconds, say. A tick is how exact a wheel is, in that unit.
 *
 * Promises. Each entry that is added is called once by an advance, or it was cancelled or cleared: exactly one of
 * these. No entry is called by an advance to a time before its deadline. Entries of one tick are called in the order in
 * which they were added or last moved. Add, move and cancel are O(1).
 *
 * Threads. There is no lock: a wheel and its entries belong to one thread at a time, or to whoever holds a lock of
 * yours. Different wheels have nothing to do with each other. The GIL is neither needed nor given up, so callbacks are
 * called with it if advance was. Memory comes from PyMem_RawMalloc; only under tracemalloc does that ask for the GIL.
 *
 * Callbacks. An entry is not pending any more when it is called: it may be added again, and its memory may be freed. A
 * callback may add, move and cancel anything, also what is due at the same time, and ask for count and next; advance,
 * clear and destroy of the same wheel are refused while one of its callbacks runs (HWHEEL_BUSY). What a callback adds
 * for its own tick or before is called by the next advance, not by the one that is under way; for a later tick up to
 * that advance's time, by this one, in its turn. None is called by add itself.
 *
 * Memory of an entry is yours, and has to stay where it is while it is pending.
 *
 * fork. A wheel is plain memory, which the child has its own copy of, with all that is pending. Do not touch there what
 * another thread may have been at work on when the process was forked.
 */
#ifndef HWHEEL_H
#define HWHEEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HWHEEL_API_VERSION 1
#define HWHEEL_CAPSULE "hwheel_core._core.C_API"
#define HWHEEL_NEVER INT64_MAX

enum {
    HWHEEL_OK = 0,
    HWHEEL_NO_MEMORY = -1,      /* nothing has changed; the same call may succeed later */
    HWHEEL_BAD_TIME = -2,       /* negative, or beyond 64 bits once it is rounded up to a tick; nothing has changed */
    HWHEEL_PENDING = -3,        /* add: it is pending already, in whatever wheel; nothing has changed */
    HWHEEL_NOT_PENDING = -4,    /* move: there is nothing to move */
    HWHEEL_BUSY = -5            /* a callback of this wheel is running */
};

typedef struct hwheel_wheel hwheel_wheel;
typedef struct hwheel_entry hwheel_entry;
typedef void (*hwheel_callback)(hwheel_wheel *wheel, hwheel_entry *entry);

struct hwheel_entry {
    hwheel_entry *prev_, *next_;        /* up to place_ it is the wheel's, and zero before the first add */
    int64_t expiration_;
    int32_t hint_, place_;
    hwheel_callback callback;           /* yours, also while it is pending; NULL: nothing is called */
    void *data;                         /* yours; nobody else looks at it */
};

/* Before the first add, unless its memory was zeroed: never while it is pending. */
static inline void hwheel_entry_init(hwheel_entry *entry, hwheel_callback callback, void *data)
{
    entry->prev_ = entry->next_ = 0;
    entry->expiration_ = 0;
    entry->hint_ = entry->place_ = 0;
    entry->callback = callback;
    entry->data = data;
}

/* Whether it has been added, and neither called nor cancelled since. */
static inline int hwheel_is_pending(const hwheel_entry *entry) { return entry->next_ != 0; }

/* What hwheel_import() gives. It may grow at its end; what stands here stays as it is in all of one version. */
typedef struct hwheel_api {
    uint32_t version;   /* HWHEEL_API_VERSION */
    uint32_t size;      /* sizeof(hwheel_api) */

    /* An empty wheel whose clock stands at `now`. tick: at least 1. wheel_size: buckets to a level, at least 2, at most
     * 1048576; 0: 512. NULL: no memory, or an argument that is none of these. */
    hwheel_wheel *(*create)(int64_t tick, int32_t wheel_size, int64_t now);

    /* Frees the wheel. What is still pending is not looked at, since its memory may be gone: `clear` before, unless the
     * entries are never used again. HWHEEL_OK or HWHEEL_BUSY. */
    int (*destroy)(hwheel_wheel *wheel);

    /* Allocates now what later calls might have to: no add and no move to at most `delay` after the time of the last
     * advance is HWHEEL_NO_MEMORY from then on. HWHEEL_OK, HWHEEL_NO_MEMORY or HWHEEL_BAD_TIME. */
    int (*reserve)(hwheel_wheel *wheel, int64_t delay);

    /* HWHEEL_OK, HWHEEL_NO_MEMORY, HWHEEL_BAD_TIME or HWHEEL_PENDING. */
    int (*add)(hwheel_wheel *wheel, hwheel_entry *entry, int64_t deadline);

    /* To another deadline, behind whatever was added for it before. HWHEEL_OK, HWHEEL_NO_MEMORY, HWHEEL_BAD_TIME or
     * HWHEEL_NOT_PENDING; with all of these but the first it stays as it was. The wheel has to be the entry's. */
    int (*move)(hwheel_wheel *wheel, hwheel_entry *entry, int64_t deadline);

    /* 1: this call is what keeps it from being called. 0: it is not pending. The wheel has to be the entry's. */
    int (*cancel)(hwheel_wheel *wheel, hwheel_entry *entry);

    /* Brings the clock to `now` and calls all that is due, in order. limit: at most so many entries are called or moved
     * to finer buckets, and then `next` says that there is more to do at once; 0: no limit. A time before that of an
     * earlier advance does nothing. How many were called, or HWHEEL_BAD_TIME or HWHEEL_BUSY. */
    int64_t (*advance)(hwheel_wheel *wheel, int64_t now, int32_t limit);

    /* When to call advance next: never after the first deadline, rounded up to a tick; it may be before, because entries
     * far off move to finer buckets on the way. HWHEEL_NEVER: nothing is pending. */
    int64_t (*next)(hwheel_wheel *wheel);

    /* How many are pending. */
    int64_t (*count)(const hwheel_wheel *wheel);

    /* The time of the last advance. */
    int64_t (*now)(const hwheel_wheel *wheel);

    /* Takes out all that is pending, in the order in which it would have been called, and calls `each` with it instead of
     * its own callback; NULL: calls nothing. What is added meanwhile stays. How many, or HWHEEL_BUSY. */
    int64_t (*clear)(hwheel_wheel *wheel, hwheel_callback each);

    /* For tests: goes through every link and count. NULL: all is well; else what is not, such as memory of an entry that
     * was used for something else while it was pending. */
    const char *(*check)(const hwheel_wheel *wheel);
} hwheel_api;

#ifdef Py_PYTHON_H
/* The table, which lives as long as the process. NULL: an ImportError is set: hwheel is not installed, or it is of
 * another version than this file. Needs Python.h before this file, and the GIL. */
static inline const hwheel_api *hwheel_import(void)
{
    const hwheel_api *api = (const hwheel_api *)PyCapsule_Import(HWHEEL_CAPSULE, 0);
    if (api == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_SetString(PyExc_ImportError, "the hwheel that is installed has no C API: a newer one is needed");
        return NULL;
    }
    if (api->version != HWHEEL_API_VERSION) {
        PyErr_Format(PyExc_ImportError, "compiled for version %d of hwheel's C API, and the hwheel that is installed has "
                     "version %d: compile it again", HWHEEL_API_VERSION, (int)api->version);
        return NULL;
    }
    if (api->size < sizeof(hwheel_api)) {
        PyErr_Format(PyExc_ImportError, "compiled for more of hwheel's C API (%d bytes) than the hwheel that is installed "
                     "has (%d): a newer one is needed", (int)sizeof(hwheel_api), (int)api->size);
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
