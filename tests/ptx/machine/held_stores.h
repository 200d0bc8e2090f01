/* Stores that others do not see yet, and values that were there before. */
#pragma once
#include <random>
#include <unordered_map>
#include <vector>

#include "types.h"

namespace ptx {

using Chance = std::mt19937_64;

/* Eight bytes of memory, some of them stored. */
struct Granule {
  u64 address = 0; /* a multiple of 8 */
  u64 value = 0;
  u8 stored = 0; /* a bit for each byte */
};

/* The stores of a thread, or of a block, that are held back: the last one of each byte. They leave in any order. */
class HeldStores {
 public:
  bool empty() const { return granules.empty(); }
  size_t size() const { return granules.size(); }
  void put(u64 address, const void *from, int bytes);
  void put(const Granule &granule);
  /* Lays what is held over bytes that were read from memory. */
  void overlay(u64 address, void *bytes, int count) const;
  /* Bits of the bytes from an address on that are held, at most 32. */
  u32 holds(u64 address, int count) const;
  /* Takes out the granules that have any of these bytes; any one; all. */
  std::vector<Granule> take(u64 address, int bytes);
  Granule take_any(Chance &chance);
  std::vector<Granule> take_all();
  void clear() { granules.clear(); }

 private:
  std::unordered_map<u64, Granule> granules;
};

/* The values that granules of global memory had during a launch, before stores of others replaced them. A block may read
   an old one as long as it has neither seen a newer one nor synchronised since that was replaced. */
class OldValues {
 public:
  struct Value {
    u64 value, replaced; /* when, in stores */
  };
  void note(u64 address, u64 value);
  /* An old value that may be read by who has seen all that was stored up to a time; NULL for none. */
  const Value *find(u64 address, u64 seen, Chance &chance) const;
  bool has(u64 address) const { return values.count(address) != 0; }
  u64 now() const { return time; }

 private:
  static constexpr size_t MOST = 4, MOST_GRANULES = 1 << 16;
  std::unordered_map<u64, std::vector<Value>> values;
  u64 time = 0;
};

}  // namespace ptx
