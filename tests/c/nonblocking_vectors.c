/* vectors_check with its collectives made non-blocking ones. */
#include "vectors_check.c"
#include "../aids/nonblocking.c"
