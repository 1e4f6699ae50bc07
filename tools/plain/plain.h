/* Headers of the driver: the core's and the model's. */
#include "native.h"
#include "model.h"
