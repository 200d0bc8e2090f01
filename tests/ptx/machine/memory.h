/* What a thread reads and stores, checked: where memory is, what has been written, and who sees which store when.

   A store to global memory is held by its thread, then by its block, then in memory: a barrier brings it to the block, a
   fence to memory, and so does any chance. One to shared memory is held by its thread until a barrier or a fence. */
#pragma once
#include "launch.h"

namespace ptx {

enum class Scope : u8 { warp, block, device };

/* The space of an address: a generic one has its space in its highest byte, and loses it here. */
Space located(Space space, u64 &address);
u64 window_of(Space space);

void load(Thread &thread, const Instruction &by, Space space, u64 address, void *into, int bytes);
void store(Thread &thread, const Instruction &by, Space space, u64 address, const void *from, int bytes);

/* The place of a number that is read, changed and written at once; of global or shared memory. */
char *atomic_place(Thread &thread, Space space, u64 address, int bytes);

/* A thread has passed a fence, or meets others of its block: they see its stores, and with a device's scope everybody. */
void fence(Thread &thread, Scope scope);
/* Now and then a store that is held goes on. */
void let_go(Block &block);
void block_ended(Block &block);
void launch_ended(Launch &launch);

}  // namespace ptx
