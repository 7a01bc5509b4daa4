/* collectives_check.c with a tool linked into the program. */
#define TOOL_ALL
#include "../aids/tool.c"
#include "collectives_check.c"
