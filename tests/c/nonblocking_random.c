/* random_check with its collectives made non-blocking ones. */
#include "random_check.c"
#include "../aids/nonblocking.c"
