/* vectors_check with its collectives made persistent ones. */
#define PERSISTENT
#include "vectors_check.c"
#include "../aids/nonblocking.c"
