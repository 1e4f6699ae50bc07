/* Which mutant of the wheel runs, and which statements have run: included once, by the module with all mutants in it. */
#include <stdio.h>
#include <stdlib.h>

#define HW_MUTANTS 4096

/* 0: none. serve.py sets it; a program that a test starts reads it from its environment. */
int hw_mutant;

/* By the number of a statement's first mutant: whether the statement has been reached. */
char hw_reached[HW_MUTANTS];

/* Whether none of these mutants of one statement is chosen. */
static inline int hw_unchanged(int first, int last)
{
    hw_reached[first] = 1;
    return hw_mutant < first || hw_mutant > last;
}

__attribute__((constructor)) static void hw_mutant_begin(void)
{
    const char *said = getenv("HWHEEL_MUTANT");
    hw_mutant = said ? atoi(said) : 0;
}

/* Of a program that a test starts the test wants to know, too, what it has reached. */
__attribute__((destructor)) static void hw_mutant_end(void)
{
    const char *path = getenv("HWHEEL_REACHED");
    FILE *file = path ? fopen(path, "ab") : NULL;
    if (file != NULL) {
        fwrite(hw_reached, 1, sizeof(hw_reached), file);
        fclose(file);
    }
}
