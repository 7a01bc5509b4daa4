/* random_check with its collectives made persistent ones. */
#define PERSISTENT
#include "random_check.c"
#include "../aids/nonblocking.c"
