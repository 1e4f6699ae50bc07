/* ratas, the folder of whose timer-wheel.h is in the include path. It goes through every tick, and counts its delays from
 * the wheel's own time. */
#include <Python.h>
#include <cstdint>
#include <ctime>
#include <new>
#include "timer-wheel.h"

struct node;
static inline void fired(node *one);

struct node {
    void on_due() { fired(this); }
    alignas(8) unsigned char room[sizeof(MemberTimerEvent<node, &node::on_due>)];
    int64_t deadline;
    MemberTimerEvent<node, &node::on_due> *event() { return reinterpret_cast<MemberTimerEvent<node, &node::on_due> *>(room); }
};

static TimerWheel *wheel;

static bool engine_begin() { return (wheel = new (std::nothrow) TimerWheel()) != nullptr; }
static void engine_make(node *one) { new (one->room) MemberTimerEvent<node, &node::on_due>(one); }
static void engine_add(node *one) { wheel->schedule(one->event(), (Tick)one->deadline - wheel->now()); }
static void engine_move(node *one) { engine_add(one); }
static void engine_cancel(node *one) { one->event()->cancel(); }
static void engine_expire(int64_t now) { wheel->advance((Tick)now - wheel->now()); }
static void engine_end() { delete wheel; }

#include "life.h"

PyMODINIT_FUNC PyInit_life_ratas(void) { return PyModule_Create(&module); }
