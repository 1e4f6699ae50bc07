/* hwheel, by its C API. */
#include <Python.h>
#include <stdint.h>
#include <time.h>
#include "hwheel.h"

static const hwheel_api *hw;
static hwheel_wheel *wheel;

typedef struct {
    hwheel_entry entry;
    int64_t deadline;
} node;

static void fired(node *one);
static void on_due(hwheel_wheel *of, hwheel_entry *entry) { fired((node *)entry); }
static int engine_begin(void) { return (wheel = hw->create(1, 0, 0)) != NULL; }
static void engine_make(node *one) { hwheel_entry_init(&one->entry, on_due, NULL); }
static void engine_add(node *one) { hw->add(wheel, &one->entry, one->deadline); }
static void engine_move(node *one) { hw->move(wheel, &one->entry, one->deadline); }
static void engine_cancel(node *one) { hw->cancel(wheel, &one->entry); }
static void engine_expire(int64_t now) { hw->advance(wheel, now, 0); }
static void engine_end(void) { hw->destroy(wheel); }

#include "life.h"

PyMODINIT_FUNC PyInit_life_hwheel(void)
{
    hw = hwheel_import();
    return hw == NULL ? NULL : PyModule_Create(&module);
}
