#include "allocations.h"

#include <sys/mman.h>

namespace ptx {

namespace {

constexpr u64 PAGE = 4096, ALIGNMENT = 256;

}  // namespace

/* The last byte that is allowed is followed, but for the alignment, by the page that is not. */
u64 Allocations::allocate(u64 bytes, int device, Kind kind) {
  const u64 room = aligned(bytes, ALIGNMENT), pages = aligned(room, PAGE);
  void *base = mmap(nullptr, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return 0;
  const u64 first = u64(base) + PAGE, start = first + pages - room;
  mprotect((void *)first, pages, PROT_READ | PROT_WRITE);
  memset((void *)first, 0xfb, pages);
  all[start] = {start, bytes, device, kind};
  return start;
}

bool Allocations::free(u64 start, Kind kind) {
  const auto found = all.find(start);
  if (found == all.end() || found->second.kind != kind) return false;
  const u64 room = aligned(found->second.bytes, ALIGNMENT), pages = aligned(room, PAGE);
  munmap((void *)(start + room - pages - PAGE), pages + 2 * PAGE);
  all.erase(found);
  return true;
}

bool Allocations::add(u64 start, u64 bytes) {
  const auto next = all.lower_bound(start);
  if (find(start) != nullptr || (next != all.end() && next->first < start + bytes)) return false;
  all[start] = {start, bytes, 0, Kind::registered};
  return true;
}

bool Allocations::remove(u64 start) {
  const auto found = all.find(start);
  if (found == all.end() || found->second.kind != Kind::registered) return false;
  all.erase(found);
  return true;
}

const Allocation *Allocations::find(u64 address) const {
  auto next = all.upper_bound(address);
  if (next == all.begin()) return nullptr;
  --next;
  return address < next->first + next->second.bytes ? &next->second : nullptr;
}

bool Allocations::holds(u64 address, u64 bytes) const {
  const Allocation *found = find(address);
  return found != nullptr && address + bytes <= found->start + found->bytes;
}

std::vector<Region> Allocations::regions(int device) const {
  std::vector<Region> found;
  for (const auto &[start, one] : all)
    if (one.kind == Kind::pinned || (one.kind == Kind::device && one.device == device)) found.push_back({start, one.bytes, false});
  return found;
}

}  // namespace ptx
