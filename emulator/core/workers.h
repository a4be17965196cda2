// The threads kernels compute on.
#ifndef TALLY_EMULATOR_CORE_WORKERS_H
#define TALLY_EMULATOR_CORE_WORKERS_H

void emu_workers_stop(void);

#endif
