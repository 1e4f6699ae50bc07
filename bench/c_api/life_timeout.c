/* timeout.c, whose folder is in the include path. Its update looks at all that is due at once, and does not keep order. */
#include <Python.h>
#include <stdint.h>
#include <time.h>
#include "timeout.c"

static struct timeouts *wheel;

typedef struct {
    struct timeout entry;
    int64_t deadline;
} node;

static void fired(node *one);
static int engine_begin(void)
{
    int error;
    return (wheel = timeouts_open(1000, &error)) != NULL;
}
static void on_due(void *one) { fired((node *)one); }
static void engine_make(node *one)
{
    timeout_init(&one->entry, TIMEOUT_ABS);
    one->entry.callback.fn = on_due;
    one->entry.callback.arg = one;
}
static void engine_add(node *one) { timeouts_add(wheel, &one->entry, (timeout_t)one->deadline); }
static void engine_move(node *one) { timeouts_add(wheel, &one->entry, (timeout_t)one->deadline); }
static void engine_cancel(node *one) { timeouts_del(wheel, &one->entry); }
static void engine_expire(int64_t now)
{
    struct timeout *due;
    timeouts_update(wheel, (timeout_t)now);
    while ((due = timeouts_get(wheel)) != NULL)
        ((void (*)(void *))due->callback.fn)(due->callback.arg);
}
static void engine_end(void) { timeouts_close(wheel); }

#include "life.h"

PyMODINIT_FUNC PyInit_life_timeout(void) { return PyModule_Create(&module); }
