/* Headers that the driver needs beside those of the core. */
#include "native.h"
#include "model.h"
