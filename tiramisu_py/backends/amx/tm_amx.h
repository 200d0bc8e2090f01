/* Tiles: eight matrix registers of 16 rows of 64 bytes that a thread has between TM_TILES_BEGIN and TM_TILES_END.
 *
 * tm_amx_missing() says what this machine lacks; else it is NULL, and the process has asked Linux for the registers.
 */
#ifndef TM_AMX_H
#define TM_AMX_H

#include <stddef.h>
#include <stdint.h>

#ifndef __x86_64__
#error "this function multiplies matrices with AMX, which only x86-64 has: leave tensorize(..., \"amx\") out"
#else
#include <cpuid.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

extern long syscall(long number, ...); /* which unistd.h keeps from strict C */
enum { TM_AMX_BF16 = 1 << 22, TM_AMX_TILE = 1 << 24, TM_AMX_INT8 = 1 << 25 };

/* The reason why tiles cannot be used here with these instructions, or NULL. */
static inline const char *tm_amx_missing(unsigned needed) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & needed) != needed) return "this processor lacks AMX";
  enum { TM_ARCH_REQ_XCOMP_PERM = 0x1023, TM_XTILEDATA = 18 }; /* asm/prctl.h, since Linux 5.16 */
  if (syscall(SYS_arch_prctl, TM_ARCH_REQ_XCOMP_PERM, TM_XTILEDATA) != 0)
    return errno == EOPNOTSUPP || errno == EINVAL ? "Linux does not keep the registers of AMX here"
                                                  : "Linux refuses the registers of AMX to this process";
  return NULL;
}

/* What ldtilecfg reads: every tile is of 16 rows of 64 bytes. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tm_tile_shapes;
static const tm_tile_shapes tm_tiles = {.palette = 1,
                                        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                        .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Rows begin `second - first` bytes apart. The memory clobbers order tiles and what C itself loads and stores. */
#define TM_TILES_BEGIN() __asm__ volatile("ldtilecfg %0" ::"m"(tm_tiles))
#define TM_TILES_END() __asm__ volatile("tilerelease")
#define TM_TILE_LOAD(tile, first, second)                                                                              \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(first),                                                    \
                   "r"((const char *)(second) - (const char *)(first))                                                 \
                   : "memory")
#define TM_TILE_STORE(tile, first, second)                                                                             \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(first),                                                \
                   "r"((const char *)(second) - (const char *)(first))                                                 \
                   : "memory")
#define TM_TILE_PRODUCT(instruction, sums, left, right)                                                                \
  __asm__ volatile(#instruction " %%tmm" #right ", %%tmm" #left ", %%tmm" #sums::: "memory")
#endif
#endif
