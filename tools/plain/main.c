/* The command line of the plain half of the core:
 *
 *   plain inputs FAULT FILE...        compare the core with the model on these inputs
 *   plain random FAULT SEED COUNT     the same on COUNT random inputs
 *
 * FAULT is the number of a planted fault of plain_faults.py; 0 is none. Compiled with LIBFUZZER, it has libFuzzer's entry points
 * in place of main(). */
#include "plain_core.c"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *PyMem_RawMalloc(size_t size) { return malloc(size); }
void *PyMem_RawCalloc(size_t count, size_t size) { return calloc(count, size); }
void *PyMem_RawRealloc(void *memory, size_t size) { return realloc(memory, size); }
void PyMem_RawFree(void *memory) { free(memory); }

enum { LONGEST_INPUT = 2048 };

static int64_t inputs, operations;

void fail(const char *what, int64_t found, int64_t expected)
{
    fprintf(stderr, "%s: found %" PRId64 ", expected %" PRId64 ", at operation %" PRId64 " of input %" PRId64 "\n", what,
            found, expected, life_operations, inputs + 1);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    operations += life_run(data, size);
    inputs++;
    return 0;
}

static int run_files(int count, char **names)
{
    static uint8_t data[1 << 20];
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        size_t size;
        if (file == NULL) {
            perror(names[i]);
            return 1;
        }
        size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}

static uint64_t draw(uint64_t *chance, uint64_t below)
{
    *chance ^= *chance << 13;
    *chance ^= *chance >> 7;
    *chance ^= *chance << 17;
    return *chance % below;
}

static void run_random(uint64_t seed, int64_t count)
{
    static uint8_t data[LONGEST_INPUT];
    uint64_t random = seed * 0x9E3779B97F4A7C15u | 1;
    while (count-- > 0) {
        size_t size = draw(&random, LONGEST_INPUT);
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)draw(&random, 256);
        LLVMFuzzerTestOneInput(data, size);
    }
}

#ifndef LIBFUZZER
int main(int count, char **arguments)
{
    const char *mode = count > 3 ? arguments[1] : "";
    planted_fault = count > 3 ? atoi(arguments[2]) : 0;
    if (strcmp(mode, "inputs") == 0 && run_files(count - 3, arguments + 3) != 0)
        return 1;
    if (strcmp(mode, "random") == 0 && count > 4)
        run_random(strtoull(arguments[3], NULL, 10), atoll(arguments[4]));
    if (inputs == 0) {
        fprintf(stderr, "usage: plain inputs FAULT FILE... | random FAULT SEED COUNT\n");
        return 2;
    }
    printf("%" PRId64 " inputs, %" PRId64 " operations\n", inputs, operations);
    return 0;
}
#endif
