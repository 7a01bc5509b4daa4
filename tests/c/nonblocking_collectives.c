/* collectives_check with its collectives made non-blocking ones. */
#include "collectives_check.c"
#include "../aids/nonblocking.c"
