/* collectives_check with its collectives made persistent ones. */
#define PERSISTENT
#include "collectives_check.c"
#include "../aids/nonblocking.c"
