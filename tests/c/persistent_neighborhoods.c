/* neighborhoods with its collectives made persistent ones. */
#define PERSISTENT
#include "neighborhoods.c"
#include "../aids/nonblocking.c"
