#include "held_stores.h"

namespace ptx {

void HeldStores::put(u64 address, const void *from, int bytes) {
  const u8 *each = static_cast<const u8 *>(from);
  for (int k = 0; k < bytes; k++) {
    const u64 place = address + u64(k), start = place & ~u64(7);
    const int shift = int(place & 7);
    Granule &granule = granules[start];
    granule.address = start;
    granule.value = (granule.value & ~(u64(255) << 8 * shift)) | u64(each[k]) << 8 * shift;
    granule.stored |= u8(1 << shift);
  }
}

void HeldStores::put(const Granule &granule) {
  for (int k = 0; k < 8; k++) {
    const u8 byte = u8(granule.value >> 8 * k);
    if (granule.stored >> k & 1) put(granule.address + u64(k), &byte, 1);
  }
}

void HeldStores::overlay(u64 address, void *bytes, int count) const {
  for (u64 start = address & ~u64(7); start < address + u64(count); start += 8) {
    const auto found = granules.find(start);
    if (found == granules.end()) continue;
    for (int k = 0; k < 8; k++) {
      const u64 place = start + u64(k);
      if (found->second.stored >> k & 1 && place >= address && place < address + u64(count))
        static_cast<u8 *>(bytes)[place - address] = u8(found->second.value >> 8 * k);
    }
  }
}

u32 HeldStores::holds(u64 address, int count) const {
  u32 bits = 0;
  for (u64 start = address & ~u64(7); start < address + u64(count); start += 8) {
    const auto found = granules.find(start);
    if (found == granules.end()) continue;
    for (u64 k = 0; k < 8; k++)
      if (found->second.stored >> k & 1 && start + k >= address && start + k < address + u64(count)) bits |= 1u << (start + k - address);
  }
  return bits;
}

std::vector<Granule> HeldStores::take(u64 address, int bytes) {
  std::vector<Granule> taken;
  for (u64 start = address & ~u64(7); start < address + u64(bytes) && !granules.empty(); start += 8) {
    const auto found = granules.find(start);
    if (found == granules.end()) continue;
    taken.push_back(found->second);
    granules.erase(found);
  }
  return taken;
}

Granule HeldStores::take_any(Chance &chance) {
  size_t bucket = chance() % granules.bucket_count();
  while (granules.begin(bucket) == granules.end(bucket)) bucket = (bucket + 1) % granules.bucket_count();
  const Granule taken = granules.begin(bucket)->second;
  granules.erase(taken.address);
  if (granules.bucket_count() > 16 * (granules.size() + 1)) granules.rehash(0); /* it is searched for what is there */
  return taken;
}

std::vector<Granule> HeldStores::take_all() {
  std::vector<Granule> taken;
  for (const auto &[address, granule] : granules) taken.push_back(granule);
  granules.clear();
  return taken;
}

void OldValues::note(u64 address, u64 value) {
  if (values.size() >= MOST_GRANULES && !has(address)) return;
  std::vector<Value> &list = values[address];
  if (list.size() == MOST) list.erase(list.begin());
  list.push_back({value, ++time});
}

const OldValues::Value *OldValues::find(u64 address, u64 seen, Chance &chance) const {
  const auto found = values.find(address);
  if (found == values.end()) return nullptr;
  size_t first = 0;
  while (first < found->second.size() && found->second[first].replaced <= seen) first++;
  const size_t left = found->second.size() - first, chosen = chance() % (left + 1);
  return chosen == left ? nullptr : &found->second[first + chosen];
}

}  // namespace ptx
