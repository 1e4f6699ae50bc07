/* hwheel for C and Cython: a timing wheel of your own, with entries in your structs, callbacks in C, and no GIL.
 *
 * A wheel holds entries until you advance its clock to their deadlines. It has no thread, reads no clock, and allocates
 * no memory per entry: an hwheel_entry is part of your own struct, as in an intrusive list.
 *
 *     static const hwheel_api *hw;                  // in your module's init, with the GIL:
 *     hw = hwheel_import();                         // NULL: an ImportError is set
 *
 *     hwheel_wheel *wheel = hw->create(1, 0, now);
 *     hwheel_entry_init(&connection->idle, on_idle, NULL);
 *     hw->add(wheel, &connection->idle, now + 30000);
 *     hw->move(wheel, &connection->idle, now + 30000);              // after each read
 *     sleep_until(hw->next(wheel));
 *     hw->advance(wheel, now, 0);                   // calls on_idle(wheel, &connection->idle)
 *
 * Time. All times are non-negative int64_t readings of one clock of yours, in any unit, such as milliseconds. The clock
 * should not go back. The tick is the resolution of a wheel in that unit.
 *
 * Guarantees. Each added entry ends in exactly one way: an advance calls it, or it is cancelled, or it is cleared. No
 * advance calls an entry before its deadline. Entries of one tick are called in the order in which they were added or last
 * moved. Add, move, and cancel are O(1).
 *
 * Threads. There is no lock: one thread at a time may use a wheel and its entries. Different wheels are independent. The
 * GIL is neither needed nor released, so callbacks run with it if advance was called with it. Memory comes from
 * PyMem_RawMalloc, which needs the GIL only under tracemalloc.
 *
 * Callbacks. An entry is no longer pending when it is called: the callback may add it again or free it. A callback may add,
 * move, and cancel any entry, and may call count and next. While a callback of a wheel runs, advance, clear, and destroy
 * of that wheel return HWHEEL_BUSY. An entry that a callback adds for its own tick or earlier is called by the next
 * advance. An entry that it adds for a later tick, up to the time of the current advance, is called by the current advance.
 * Adding an entry never calls it at once.
 *
 * The memory of an entry is yours, and must not move while the entry is pending.
 *
 * Fork. A wheel is plain memory, so the child has its own copy with all pending entries. In the child, do not touch a wheel
 * that another thread may have been using at the fork.
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
    HWHEEL_NO_MEMORY = -1,      /* out of memory; nothing has changed */
    HWHEEL_BAD_TIME = -2,       /* negative, or beyond 64 bits when rounded up to a tick; nothing has changed */
    HWHEEL_PENDING = -3,        /* add: the entry is pending, in this or another wheel; nothing has changed */
    HWHEEL_NOT_PENDING = -4,    /* move: the entry is not pending */
    HWHEEL_BUSY = -5            /* a callback of this wheel is running */
};

typedef struct hwheel_wheel hwheel_wheel;
typedef struct hwheel_entry hwheel_entry;
typedef void (*hwheel_callback)(hwheel_wheel *wheel, hwheel_entry *entry);

struct hwheel_entry {
    hwheel_entry *prev_, *next_;        /* fields up to place_ belong to the wheel; zero before the first add */
    int64_t expiration_;
    int32_t hint_, place_;
    hwheel_callback callback;           /* yours, also while the entry is pending; NULL: no call */
    void *data;                         /* yours; the wheel does not use it */
};

/* Initialize an entry before its first add, unless its memory is zeroed. Never call this for a pending entry. */
static inline void hwheel_entry_init(hwheel_entry *entry, hwheel_callback callback, void *data)
{
    entry->prev_ = entry->next_ = 0;
    entry->expiration_ = 0;
    entry->hint_ = entry->place_ = 0;
    entry->callback = callback;
    entry->data = data;
}

/* Return 1 if the entry was added, and neither called, cancelled, nor cleared since. */
static inline int hwheel_is_pending(const hwheel_entry *entry) { return entry->next_ != 0; }

/* The functions that hwheel_import() returns. Within one version, fields are only appended. */
typedef struct hwheel_api {
    uint32_t version;   /* HWHEEL_API_VERSION */
    uint32_t size;      /* sizeof(hwheel_api) */

    /* Create an empty wheel with its clock at `now`. tick: at least 1. wheel_size: buckets per level, 2 to 1048576, or 0
     * for 512. Return NULL if an argument is out of range or memory is exhausted. */
    hwheel_wheel *(*create)(int64_t tick, int32_t wheel_size, int64_t now);

    /* Free the wheel. It does not touch pending entries, whose memory may be freed already; call `clear` first if you will
     * use them again. Return HWHEEL_OK or HWHEEL_BUSY. */
    int (*destroy)(hwheel_wheel *wheel);

    /* Allocate memory in advance: afterwards, no add or move to at most `delay` after the last advance returns
     * HWHEEL_NO_MEMORY. Return HWHEEL_OK, HWHEEL_NO_MEMORY, or HWHEEL_BAD_TIME. */
    int (*reserve)(hwheel_wheel *wheel, int64_t delay);

    /* Add an entry. Return HWHEEL_OK, HWHEEL_NO_MEMORY, HWHEEL_BAD_TIME, or HWHEEL_PENDING. */
    int (*add)(hwheel_wheel *wheel, hwheel_entry *entry, int64_t deadline);

    /* Move a pending entry of this wheel to another deadline, behind all entries of that tick. Return HWHEEL_OK; or
     * HWHEEL_NO_MEMORY, HWHEEL_BAD_TIME, or HWHEEL_NOT_PENDING, and then nothing has changed. */
    int (*move)(hwheel_wheel *wheel, hwheel_entry *entry, int64_t deadline);

    /* Cancel an entry of this wheel. Return 1 if this call cancelled it, 0 if it is not pending. */
    int (*cancel)(hwheel_wheel *wheel, hwheel_entry *entry);

    /* Advance the clock to `now` and call all due entries in order. limit: the most entries to call or to move to finer
     * buckets; 0: no limit. If more are due after that, `next` returns the present time. A time before the last advance
     * has no effect. Return the number of calls, HWHEEL_BAD_TIME, or HWHEEL_BUSY. */
    int64_t (*advance)(hwheel_wheel *wheel, int64_t now, int32_t limit);

    /* Return the time for the next advance: at most the first deadline, rounded up to a tick. It can be earlier, because
     * entries of coarse buckets move to finer ones on the way. HWHEEL_NEVER: no entry is pending. */
    int64_t (*next)(hwheel_wheel *wheel);

    /* Return the number of pending entries. */
    int64_t (*count)(const hwheel_wheel *wheel);

    /* Return the time of the last advance. */
    int64_t (*now)(const hwheel_wheel *wheel);

    /* Remove all pending entries in their order, and call `each` for each of them instead of its own callback; NULL: no
     * calls. Entries added by `each` stay. Return the number of removed entries, or HWHEEL_BUSY. */
    int64_t (*clear)(hwheel_wheel *wheel, hwheel_callback each);

    /* For tests: check every link and counter. Return NULL, or a text that describes the fault, such as an entry whose
     * memory was overwritten while it was pending. */
    const char *(*check)(const hwheel_wheel *wheel);
} hwheel_api;

#ifdef Py_PYTHON_H
/* Return the table, which lives as long as the process. NULL: hwheel is missing or does not match this header, and an
 * ImportError is set. Requires Python.h before this header, and the GIL. */
static inline const hwheel_api *hwheel_import(void)
{
    const hwheel_api *api = (const hwheel_api *)PyCapsule_Import(HWHEEL_CAPSULE, 0);
    if (api == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_SetString(PyExc_ImportError, "the installed hwheel has no C API; install a newer one");
        return NULL;
    }
    if (api->version != HWHEEL_API_VERSION) {
        PyErr_Format(PyExc_ImportError, "this extension was compiled for version %d of hwheel's C API, but the installed hwheel "
                     "has version %d; compile it again", HWHEEL_API_VERSION, (int)api->version);
        return NULL;
    }
    if (api->size < sizeof(hwheel_api)) {
        PyErr_Format(PyExc_ImportError, "this extension needs more of hwheel's C API (%d bytes) than the installed hwheel has (%d); "
                     "install a newer one", (int)sizeof(hwheel_api), (int)api->size);
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
