// Device memory and pinned host memory.
//
// Each device has a range of addresses that programs see and cannot touch (no access), and the same memory at other addresses, which
// only the emulator uses. Addresses are never given twice, so what became of each can be told; each block ends at a page that is
// nobody's. Fresh and freed memory is filled with 0xff: NaN as any float, -1 as any integer.
#ifndef TALLY_EMULATOR_CORE_MEMORY_H
#define TALLY_EMULATOR_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulator/core/state.h"

enum { EMU_POISON = 0xff };

typedef enum emu_block_state { EMU_BLOCK_LIVE, EMU_BLOCK_FREED, EMU_BLOCK_RESERVED } emu_block_state;

typedef struct emu_block {
    uint64_t start, size;           // as asked for
    uint64_t page_start, page_size; // what it occupies, without its guard page
    uint64_t charged;               // of the device's memory
    emu_block_state state;
    int device;
    uint64_t id;
    bool mapped;      // by aclrtMapMem, into a reserved range
    const char *call; // that made it
} emu_block;

bool emu_is_device_address(const void *p); // in any device's range
int emu_device_of(const void *p);          // -1: none
// The block an address lies in, live or freed; NULL: in none.
emu_block *emu_block_at(uint64_t address);
// 0 when [address, address + size) is in a live block of a device that context_device may use; what: for the message.
int emu_range_need(uint64_t address, uint64_t size, int context_device, const char *what);
void *emu_reach(uint64_t address); // the emulator's own address of the same byte; of a live block only

int emu_memory_open(int device);   // reserves the ranges
void emu_memory_close(int device); // frees every block of it
uint64_t emu_memory_total(void);   // bytes of one device
uint64_t emu_memory_charge(uint64_t size);
void emu_memory_forget(void);

typedef struct emu_pinned {
    void *start;
    size_t size;
    bool registered; // aclrtHostRegister: the program's own memory
} emu_pinned;
const emu_pinned *emu_pinned_at(const void *p); // NULL: pageable
void emu_pinned_forget(void);

#endif
