#include "cmd/commands.h"
#include "cmd/common.h"
int cmd_bench(const options *o) {
    (void)o;
    return fail("not yet");
}
