/* Bounds of tiles. */
#ifndef BOUNDS_H
#define BOUNDS_H
#include <stdint.h>

#define TILE 32

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
/* The tile that a point is in. */
static inline int64_t tile_of(int64_t x) { return x >= 0 ? x / TILE : -((TILE - 1 - x) / TILE); }

#endif
