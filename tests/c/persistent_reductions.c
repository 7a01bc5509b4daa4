/* reductions_check with its collectives made persistent ones. */
#define PERSISTENT
#include "reductions_check.c"
#include "../aids/nonblocking.c"
