/* The plain half of the core with life.pxi behind it, for libFuzzer; with ALONE defined, a program of its own that tries
 * inputs:
 *
 *   plain PLANTED FILE...     PLANTED: which fault of planted.py the core has; 0: none
 *
 * Where the environment names a file in FUZZ_COUNTS, of two int64, inputs and operations are counted into it, so that they are
 * there whatever happens. */
#include "plain_core.c"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Without Python there is nobody else to give memory. */
void *PyMem_RawMalloc(size_t size) { return malloc(size); }
void *PyMem_RawCalloc(size_t count, size_t size) { return calloc(count, size); }
void *PyMem_RawRealloc(void *memory, size_t size) { return realloc(memory, size); }
void PyMem_RawFree(void *memory) { free(memory); }

static int64_t nowhere[2];
static int64_t *counted = nowhere; /* inputs, operations */

void fail(const char *what, int64_t is, int64_t should)
{
    fprintf(stderr, "%s: %" PRId64 ", and not %" PRId64 ", at operation %" PRId64 " of input %" PRId64 "\n", what, is, should,
            life_operations, counted[0] + 1);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    counted[1] += life_run(data, size);
    counted[0]++;
    return 0;
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *name = getenv("FUZZ_COUNTS");
    (void)count, (void)arguments;
    if (name != NULL) {
        int file = open(name, O_RDWR);
        void *shared = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (file < 0 || shared == MAP_FAILED) {
            perror(name);
            exit(1);
        }
        counted = shared;
    }
    return 0;
}

#ifdef ALONE
int main(int count, char **arguments)
{
    static uint8_t data[1 << 20];
    LLVMFuzzerInitialize(&count, &arguments);
    planted = count > 1 ? atoi(arguments[1]) : 0;
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        size_t size;
        if (file == NULL) {
            perror(arguments[i]);
            return 1;
        }
        size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%" PRId64 " inputs, %" PRId64 " operations\n", counted[0], counted[1]);
    return 0;
}
#endif
