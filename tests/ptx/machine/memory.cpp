#include "memory.h"

#include <algorithm>

#include "findings.h"

namespace ptx {

namespace {

constexpr u8 READ_ONLY = 1, WRITTEN = 2;
constexpr size_t MOST_HELD_BY_THREAD = 16, MOST_HELD_BY_BLOCK = 4096;
constexpr int WINDOW_SHIFT = 56;
constexpr u64 SHARED_WINDOW = 0x7e, LOCAL_WINDOW = 0x7d, PARAM_WINDOW = 0x7c;

std::string bytes_at(int bytes, u64 address) { return text("%d bytes at 0x%llx", bytes, (unsigned long long)address); }

/* -- global memory */

/* Which argument of the kernel is an address in a region, in words. */
std::string named(const Launch &launch, const Region &region) {
  if (region.is_variable) return text("a variable of the module (%llu bytes)", (unsigned long long)region.bytes);
  const auto &parameters = launch.function->parameters;
  for (size_t k = 0; k < parameters.size(); k++) {
    u64 value = 0;
    if (parameters[k].bytes != sizeof value) continue;
    memcpy(&value, launch.parameters.data() + parameters[k].offset, sizeof value);
    if (value >= region.start && value < region.start + region.bytes)
      return text("the memory of argument %zu, %s (%llu bytes at 0x%llx)", k + 1, parameters[k].name.c_str(),
                  (unsigned long long)region.bytes, (unsigned long long)region.start);
  }
  return text("memory that no argument names (%llu bytes at 0x%llx)", (unsigned long long)region.bytes, (unsigned long long)region.start);
}

[[noreturn]] void refuse_outside(const Thread &thread, u64 address, int bytes, const char *doing) {
  const Launch &launch = *thread.block->launch;
  const Region *before = nullptr;
  for (const Region &region : launch.regions)
    if (region.start <= address) before = &region;
  std::string where = "before all memory";
  if (before != nullptr)
    where = text("%lld bytes after the end of ", (long long)(address - before->start - before->bytes)) + named(launch, *before);
  refuse(thread, text("%s %s, which is not memory of the kernel: ", doing, bytes_at(bytes, address).c_str()) + where);
}

Region &region_of(Thread &thread, u64 address, int bytes, const char *doing) {
  Block &block = *thread.block;
  std::vector<Region> &regions = block.launch->regions;
  const auto holds = [&](const Region &region) { return address >= region.start && address + u64(bytes) <= region.start + region.bytes; };
  if (block.last_region < regions.size() && holds(regions[block.last_region])) return regions[block.last_region];
  auto next = std::upper_bound(regions.begin(), regions.end(), address, [](u64 a, const Region &b) { return a < b.start; });
  if (next == regions.begin() || !holds(*(next - 1))) refuse_outside(thread, address, bytes, doing);
  block.last_region = size_t(next - regions.begin()) - 1;
  return regions[block.last_region];
}

/* ld.global.nc promises that the kernel does not write what it reads. */
void mark(Thread &thread, const Region &region, u64 address, int bytes, u8 as) {
  Launch &launch = *thread.block->launch;
  if (!launch.module->reads_through_constant_cache) return;
  std::vector<u8> &marks = launch.marks[size_t(&region - launch.regions.data())];
  if (marks.empty()) marks.resize(region.bytes);
  for (u64 k = address - region.start; k < address - region.start + u64(bytes); k++) {
    marks[k] |= as;
    if (marks[k] != (READ_ONLY | WRITTEN)) continue;
    const char *const words = as == WRITTEN ? "writes %s, which the kernel reads through ld.global.nc" : "reads %s through ld.global.nc, which the kernel writes";
    refuse(thread, text(words, bytes_at(bytes, address).c_str()) + ": " + named(launch, region));
  }
}

u64 granule_in(const Region &region, u64 granule) {
  u64 value = 0;
  for (u64 k = 0; k < 8; k++)
    if (granule + k >= region.start && granule + k < region.start + region.bytes) value |= u64(*(const u8 *)(granule + k)) << 8 * k;
  return value;
}

const Region *region_around(const Launch &launch, u64 granule) {
  for (u64 address : {granule, granule + 7}) {
    auto next = std::upper_bound(launch.regions.begin(), launch.regions.end(), address, [](u64 a, const Region &b) { return a < b.start; });
    if (next != launch.regions.begin() && address < (next - 1)->start + (next - 1)->bytes) return &*(next - 1);
  }
  return nullptr;
}

/* A value of memory is about to be replaced. */
void note_old(Launch &launch, Block *by, u64 granule) {
  if (launch.plan.old == 0) return;
  const Region *region = region_around(launch, granule);
  if (region == nullptr) return;
  launch.old_values.note(granule, granule_in(*region, granule));
  if (by != nullptr) by->seen[granule] = launch.old_values.now();
}

void to_memory(Launch &launch, Block *by, const Granule &granule) {
  note_old(launch, by, granule.address);
  for (u64 k = 0; k < 8; k++)
    if (granule.stored >> k & 1) *(u8 *)(granule.address + k) = u8(granule.value >> 8 * k);
}

void to_memory(Block &block) {
  for (const Granule &granule : block.held.take_all()) to_memory(*block.launch, &block, granule);
}

/* What memory has, or, of an address that others have stored to, may have had until now. */
void read_global(Thread &thread, const Region &region, u64 address, char *into, int bytes, bool is_strong) {
  Block &block = *thread.block;
  Launch &launch = *block.launch;
  memcpy(into, (const void *)address, size_t(bytes));
  if (launch.plan.old == 0 || region.is_variable) return;
  for (u64 granule = address & ~u64(7); granule < address + u64(bytes); granule += 8) {
    if (!launch.old_values.has(granule)) continue;
    u64 &seen = block.seen[granule];
    const OldValues::Value *old = nullptr;
    if (!is_strong && launch.percent(launch.plan.old))
      old = launch.old_values.find(granule, std::max(seen, block.synchronised), launch.chance);
    if (old == nullptr) {
      seen = launch.old_values.now();
      continue;
    }
    seen = std::max(seen, old->replaced - 1); /* the same one may be read again, and none before it */
    for (u64 k = 0; k < 8; k++)
      if (granule + k >= address && granule + k < address + u64(bytes)) into[granule + k - address] = char(old->value >> 8 * k);
  }
}

void load_global(Thread &thread, const Instruction &by, u64 address, char *into, int bytes) {
  Block &block = *thread.block;
  const Region &region = region_of(thread, address, bytes, "reads");
  if (block.launch->counts_sectors) block.sectors.touch(thread, address, bytes, false);
  if (by.through_constant_cache) mark(thread, region, address, bytes, READ_ONLY);
  read_global(thread, region, address, into, bytes, by.is_strong);
  if (!block.held.empty()) block.held.overlay(address, into, bytes);
  if (!thread.held_global.empty()) thread.held_global.overlay(address, into, bytes);
}

/* What the thread, and its block, have stored to some bytes before goes to memory. */
void settle_global(Thread &thread, u64 address, int bytes) {
  Block &block = *thread.block;
  for (const Granule &granule : thread.held_global.take(address, bytes)) block.held.put(granule);
  for (const Granule &granule : block.held.take(address, bytes)) to_memory(*block.launch, &block, granule);
}

void store_global(Thread &thread, const Instruction &by, u64 address, const void *from, int bytes) {
  Block &block = *thread.block;
  Launch &launch = *block.launch;
  const Region &region = region_of(thread, address, bytes, "writes");
  if (launch.counts_sectors) block.sectors.touch(thread, address, bytes, true);
  mark(thread, region, address, bytes, WRITTEN);
  if (!by.is_strong && launch.percent(launch.plan.held)) {
    thread.held_global.put(address, from, bytes);
    if (thread.held_global.size() > MOST_HELD_BY_THREAD) block.held.put(thread.held_global.take_any(launch.chance));
    while (block.held.size() > MOST_HELD_BY_BLOCK) to_memory(launch, &block, block.held.take_any(launch.chance));
    return;
  }
  settle_global(thread, address, bytes);
  for (u64 granule = address & ~u64(7); granule < address + u64(bytes); granule += 8) note_old(launch, &block, granule);
  memcpy((void *)address, from, size_t(bytes));
}

/* -- shared memory */

void check_shared(Thread &thread, u64 address, int bytes, bool reads) {
  Block &block = *thread.block;
  const char *doing = reads ? "reads" : "writes";
  if (address + u64(bytes) > block.shared.size() || address + u64(bytes) < address)
    refuse(thread, text("%s %s of shared memory, which has %zu", doing, bytes_at(bytes, address).c_str(), block.shared.size()));
  const u32 own = reads && !thread.held_shared.empty() ? thread.held_shared.holds(address, bytes) : 0;
  for (int k = 0; k < bytes; k++) {
    const Byte state = block.shared_state[address + u64(k)];
    if (state == Byte::between || (state == Byte::padding && !reads)) refuse(thread, text("%s %s of shared memory, beside its arrays", doing, bytes_at(bytes, address).c_str()));
    if (reads && state == Byte::unwritten && !(own >> k & 1))
      refuse(thread, text("reads %s of shared memory, which nobody has written, or not so that this thread must see it", bytes_at(bytes, address).c_str()));
  }
}

void to_shared(Block &block, u64 address, const void *from, int bytes) {
  memcpy(block.shared.data() + address, from, size_t(bytes));
  for (int k = 0; k < bytes; k++) block.shared_state[address + u64(k)] = Byte::written;
}

void to_shared(Block &block, const std::vector<Granule> &granules) {
  for (const Granule &granule : granules)
    for (u64 k = 0; k < 8; k++) {
      const u8 byte = u8(granule.value >> 8 * k);
      if (granule.stored >> k & 1) to_shared(block, granule.address + k, &byte, 1);
    }
}

void store_shared(Thread &thread, const Instruction &by, u64 address, const void *from, int bytes) {
  Block &block = *thread.block;
  check_shared(thread, address, bytes, false);
  if (!by.is_strong && block.launch->percent(block.launch->plan.held)) {
    thread.held_shared.put(address, from, bytes);
    if (thread.held_shared.size() > MOST_HELD_BY_THREAD) to_shared(block, {thread.held_shared.take_any(block.launch->chance)});
    return;
  }
  if (!thread.held_shared.empty()) to_shared(block, thread.held_shared.take(address, bytes));
  to_shared(block, address, from, bytes);
}

/* -- memory of a thread alone */

char *private_place(Thread &thread, Space space, u64 address, int bytes, const char *doing) {
  std::vector<char> &memory = space == Space::local ? thread.local : space == Space::param ? thread.parameters : thread.own_parameters;
  if (address + u64(bytes) > memory.size() || address + u64(bytes) < address)
    refuse(thread, text("%s %s of %s memory, which has %zu", doing, bytes_at(bytes, address).c_str(), space == Space::local ? "local" : "parameter", memory.size()));
  return memory.data() + address;
}

}  // namespace

u64 window_of(Space space) {
  switch (space) {
    case Space::shared: return SHARED_WINDOW << WINDOW_SHIFT;
    case Space::local: return LOCAL_WINDOW << WINDOW_SHIFT;
    case Space::param: return PARAM_WINDOW << WINDOW_SHIFT;
    default: return 0;
  }
}

Space located(Space space, u64 &address) {
  if (space == Space::shared) address = u32(address); /* a register of 64 bits may have anything above */
  if (space != Space::generic) return space;
  for (const Space one : {Space::shared, Space::local, Space::param}) {
    if (address >> WINDOW_SHIFT != window_of(one) >> WINDOW_SHIFT) continue;
    address -= window_of(one);
    return one;
  }
  return Space::global;
}

namespace {

void check_alignment(const Thread &thread, u64 address, int bytes, const char *doing) {
  if (address % u64(bytes) != 0) refuse(thread, text("%s %s, which is not aligned", doing, bytes_at(bytes, address).c_str()));
}

}  // namespace

void load(Thread &thread, const Instruction &by, Space space, u64 address, void *into, int bytes) {
  space = located(space, address);
  check_alignment(thread, address, bytes, "reads");
  if (space == Space::global) return load_global(thread, by, address, static_cast<char *>(into), bytes);
  if (space == Space::shared) {
    check_shared(thread, address, bytes, true);
    memcpy(into, thread.block->shared.data() + address, size_t(bytes));
    if (!thread.held_shared.empty()) thread.held_shared.overlay(address, into, bytes);
    return;
  }
  memcpy(into, private_place(thread, space, address, bytes, "reads"), size_t(bytes));
}

void store(Thread &thread, const Instruction &by, Space space, u64 address, const void *from, int bytes) {
  space = located(space, address);
  check_alignment(thread, address, bytes, "writes");
  if (space == Space::global) return store_global(thread, by, address, from, bytes);
  if (space == Space::shared) return store_shared(thread, by, address, from, bytes);
  memcpy(private_place(thread, space, address, bytes, "writes"), from, size_t(bytes));
}

char *atomic_place(Thread &thread, Space space, u64 address, int bytes) {
  Block &block = *thread.block;
  space = located(space, address);
  check_alignment(thread, address, bytes, "changes");
  if (space == Space::shared) {
    if (!thread.held_shared.empty()) to_shared(block, thread.held_shared.take(address, bytes));
    check_shared(thread, address, bytes, true);
    return block.shared.data() + address;
  }
  if (space != Space::global) refuse(thread, "an atomic operation in the memory of one thread");
  if (block.launch->counts_sectors) block.sectors.touch(thread, address, bytes, true);
  mark(thread, region_of(thread, address, bytes, "changes"), address, bytes, WRITTEN);
  settle_global(thread, address, bytes);
  note_old(*block.launch, &block, address & ~u64(7));
  return (char *)address;
}

void fence(Thread &thread, Scope scope) {
  Block &block = *thread.block;
  if (!thread.held_shared.empty()) to_shared(block, thread.held_shared.take_all());
  if (!thread.held_global.empty())
    for (const Granule &granule : thread.held_global.take_all()) block.held.put(granule);
  if (scope != Scope::device) return;
  to_memory(block);
  block.synchronised = block.launch->old_values.now();
}

void let_go(Block &block) {
  Launch &launch = *block.launch;
  if (launch.plan.held == 0 || !launch.thousandth(launch.plan.released)) return;
  Thread &thread = block.threads[launch.chance() % block.threads.size()];
  if (!thread.held_shared.empty()) to_shared(block, {thread.held_shared.take_any(launch.chance)});
  if (!thread.held_global.empty()) block.held.put(thread.held_global.take_any(launch.chance));
  if (!block.held.empty()) to_memory(launch, &block, block.held.take_any(launch.chance));
  if (launch.left.empty()) return;
  HeldStores &one = launch.left[launch.chance() % launch.left.size()];
  to_memory(launch, nullptr, one.take_any(launch.chance));
  if (!one.empty()) return;
  std::swap(one, launch.left.back());
  launch.left.pop_back();
}

/* The end of a block brings nothing to others. */
void block_ended(Block &block) {
  for (Thread &thread : block.threads) fence(thread, Scope::block);
  block.launch->sectors_read += block.sectors.read.size();
  block.launch->sectors_written += block.sectors.written.size();
  if (!block.held.empty()) block.launch->left.push_back(std::move(block.held));
}

void launch_ended(Launch &launch) {
  for (HeldStores &one : launch.left)
    for (const Granule &granule : one.take_all()) to_memory(launch, nullptr, granule);
}

}  // namespace ptx
