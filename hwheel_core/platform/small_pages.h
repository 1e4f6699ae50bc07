/* For systems that are not asked for huge pages, or have none that a program could ask for. */
#ifndef HWHEEL_SMALL_PAGES_H
#define HWHEEL_SMALL_PAGES_H

#include <stddef.h>

static inline void hw_advise_huge(void *block, size_t size) { (void)block, (void)size; }

static inline void *hw_huge_new(size_t size)
{
    (void)size;
    return NULL;
}

static inline void hw_huge_free(void *memory, size_t size) { (void)memory, (void)size; }

static inline void hw_huge_discard(void *memory, size_t size) { (void)memory, (void)size; }

#endif
