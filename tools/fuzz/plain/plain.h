/* What life.pxi wants of C beside what the core does. */
#include "native.h"
#include "model.h"
