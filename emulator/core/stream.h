// Devices, contexts, streams as other files of the core see them.
#ifndef TALLY_EMULATOR_CORE_STREAM_H
#define TALLY_EMULATOR_CORE_STREAM_H

#include "emulator/core/state.h"

emu_stream *emu_stream_create(emu_context *c, uint32_t flags, bool is_default, int *code);
void emu_stream_drop_tasks(emu_stream *s); // forgets what is queued
void emu_stream_destroy(emu_stream *s);
void emu_streams_forget(void);
void emu_device_lose(int device);

#endif
