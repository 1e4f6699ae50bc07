/* Functions of the scheduler for the world of a scenario (world.pxi). */
#include <stddef.h>
#include <stdint.h>

enum { START_MS = 1000 }; /* the time at which a schedule begins */

void fail(const char *what, int64_t found, int64_t expected);
int decide_child(void);
int decide_fault(void);
void thread_start(void (*run)(int64_t, int64_t, int64_t));
void thread_is_server(void);
void threads_end_others(void);
void wait_until_quiet(void);
int64_t step_number(void);
int64_t step_at_time(int64_t ms);
void clock_advance(int64_t ms);
int64_t clock_now_ms(void);
int64_t memory_live(void);
void ignore_races(void *place, size_t size); /* of a place that belongs to the model */
void ignore_reads(int begin); /* by the model, until ignore_reads(0) */
