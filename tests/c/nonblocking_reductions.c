/* reductions_check with its collectives made non-blocking ones. */
#include "reductions_check.c"
#include "../aids/nonblocking.c"
