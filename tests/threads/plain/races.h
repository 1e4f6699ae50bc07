/* What races.pxi wants of C beside what the core does: hw_atomic_add, which the core takes from native.h only without a GIL. */
#include "native.h"
