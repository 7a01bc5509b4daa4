/* neighborhoods with its collectives made non-blocking ones. */
#include "neighborhoods.c"
#include "../aids/nonblocking.c"
