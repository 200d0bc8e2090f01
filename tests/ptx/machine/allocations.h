/* Memory of the devices, and of the host as far as the driver knows it. All of it is in the memory of this process.

   It begins after a page that cannot be touched and ends at another; what was never stored is no number in any type. */
#pragma once
#include <map>
#include <vector>

#include "launch.h"

namespace ptx {

enum class Kind : u8 { device, pinned, registered };

struct Allocation {
  u64 start, bytes;
  int device;
  Kind kind;
};

class Allocations {
 public:
  /* 0 where the process gets no more. */
  u64 allocate(u64 bytes, int device, Kind kind);
  /* False where no allocation of the kind begins there. */
  bool free(u64 start, Kind kind);
  /* Memory of the caller; false where a part of it is known already. */
  bool add(u64 start, u64 bytes);
  bool remove(u64 start);

  const Allocation *find(u64 address) const;
  bool holds(u64 address, u64 bytes) const;
  /* What kernels of a device may touch. */
  std::vector<Region> regions(int device) const;

 private:
  std::map<u64, Allocation> all; /* by start */
};

}  // namespace ptx
