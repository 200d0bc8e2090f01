/* Which version of a function the processor at hand can run. A version needs the instruction sets that its compiler may
   use; those that only intrinsics of other programs use (random numbers, transactions) do not count. AMX is needed
   by versions with tiles alone. */
#ifndef TM_PROCESSOR_H
#define TM_PROCESSOR_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* X(name of the compilers' macro, leaf, subleaf, register, bit, state that the operating system must keep) */
enum { TM_EAX, TM_EBX, TM_ECX, TM_EDX };
enum { TM_AVX = 0x6, TM_AVX512 = 0xe6, TM_TILES = 0x60000 };
#define TM_SETS(X)                                                                                                     \
  X(SSE3, 1, 0, TM_ECX, 0, 0)                                                                                          \
  X(PCLMUL, 1, 0, TM_ECX, 1, 0)                                                                                        \
  X(SSSE3, 1, 0, TM_ECX, 9, 0)                                                                                         \
  X(FMA, 1, 0, TM_ECX, 12, TM_AVX)                                                                                     \
  X(SSE4_1, 1, 0, TM_ECX, 19, 0)                                                                                       \
  X(SSE4_2, 1, 0, TM_ECX, 20, 0)                                                                                       \
  X(MOVBE, 1, 0, TM_ECX, 22, 0)                                                                                        \
  X(POPCNT, 1, 0, TM_ECX, 23, 0)                                                                                       \
  X(AES, 1, 0, TM_ECX, 25, 0)                                                                                          \
  X(AVX, 1, 0, TM_ECX, 28, TM_AVX)                                                                                     \
  X(F16C, 1, 0, TM_ECX, 29, TM_AVX)                                                                                    \
  X(BMI, 7, 0, TM_EBX, 3, 0)                                                                                           \
  X(AVX2, 7, 0, TM_EBX, 5, TM_AVX)                                                                                     \
  X(BMI2, 7, 0, TM_EBX, 8, 0)                                                                                          \
  X(AVX512F, 7, 0, TM_EBX, 16, TM_AVX512)                                                                              \
  X(AVX512DQ, 7, 0, TM_EBX, 17, TM_AVX512)                                                                             \
  X(ADX, 7, 0, TM_EBX, 19, 0)                                                                                          \
  X(AVX512IFMA, 7, 0, TM_EBX, 21, TM_AVX512)                                                                           \
  X(AVX512PF, 7, 0, TM_EBX, 26, TM_AVX512)                                                                             \
  X(AVX512ER, 7, 0, TM_EBX, 27, TM_AVX512)                                                                             \
  X(AVX512CD, 7, 0, TM_EBX, 28, TM_AVX512)                                                                             \
  X(SHA, 7, 0, TM_EBX, 29, 0)                                                                                          \
  X(AVX512BW, 7, 0, TM_EBX, 30, TM_AVX512)                                                                             \
  X(AVX512VL, 7, 0, TM_EBX, 31, TM_AVX512)                                                                             \
  X(AVX512VBMI, 7, 0, TM_ECX, 1, TM_AVX512)                                                                            \
  X(AVX512VBMI2, 7, 0, TM_ECX, 6, TM_AVX512)                                                                           \
  X(GFNI, 7, 0, TM_ECX, 8, 0)                                                                                          \
  X(VAES, 7, 0, TM_ECX, 9, TM_AVX)                                                                                     \
  X(VPCLMULQDQ, 7, 0, TM_ECX, 10, TM_AVX)                                                                              \
  X(AVX512VNNI, 7, 0, TM_ECX, 11, TM_AVX512)                                                                           \
  X(AVX512BITALG, 7, 0, TM_ECX, 12, TM_AVX512)                                                                         \
  X(AVX512VPOPCNTDQ, 7, 0, TM_ECX, 14, TM_AVX512)                                                                      \
  X(AVX5124VNNIW, 7, 0, TM_EDX, 2, TM_AVX512)                                                                          \
  X(AVX5124FMAPS, 7, 0, TM_EDX, 3, TM_AVX512)                                                                          \
  X(AVX512VP2INTERSECT, 7, 0, TM_EDX, 8, TM_AVX512)                                                                    \
  X(AMX_BF16, 7, 0, TM_EDX, 22, TM_TILES)                                                                              \
  X(AVX512FP16, 7, 0, TM_EDX, 23, TM_AVX512)                                                                           \
  X(AMX_TILE, 7, 0, TM_EDX, 24, TM_TILES)                                                                              \
  X(AMX_INT8, 7, 0, TM_EDX, 25, TM_TILES)                                                                              \
  X(AVXVNNI, 7, 1, TM_EAX, 4, TM_AVX)                                                                                  \
  X(AVX512BF16, 7, 1, TM_EAX, 5, TM_AVX512)                                                                            \
  X(AVXIFMA, 7, 1, TM_EAX, 23, TM_AVX)                                                                                 \
  X(AVXVNNIINT8, 7, 1, TM_EDX, 4, TM_AVX)                                                                              \
  X(AVXNECONVERT, 7, 1, TM_EDX, 5, TM_AVX)                                                                             \
  X(AVXVNNIINT16, 7, 1, TM_EDX, 10, TM_AVX)                                                                            \
  X(LZCNT, 0x80000001u, 0, TM_ECX, 5, 0)                                                                               \
  X(SSE4A, 0x80000001u, 0, TM_ECX, 6, 0)                                                                               \
  X(XOP, 0x80000001u, 0, TM_ECX, 11, TM_AVX)                                                                           \
  X(FMA4, 0x80000001u, 0, TM_ECX, 16, TM_AVX)                                                                          \
  X(TBM, 0x80000001u, 0, TM_ECX, 21, 0)
#define TM_NUMBERED(name, ...) TM_SET_##name,
enum { TM_SETS(TM_NUMBERED) };
#define TM_SET(name) (UINT64_C(1) << TM_SET_##name)

typedef struct {
  uint32_t leaf, subleaf;
  int word, bit;
  uint32_t state;
} tm_set;

/* The vector registers that the operating system keeps for each thread. */
static uint32_t tm_kept(void) {
  uint32_t words[4] = {0, 0, 0, 0};
  if (!__get_cpuid(1, &words[TM_EAX], &words[TM_EBX], &words[TM_ECX], &words[TM_EDX])) return 0;
  if ((words[TM_ECX] >> 27 & 1) == 0) return 0;
  uint32_t low, high;
  __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0)); /* xgetbv */
  return low;
}

static uint64_t tm_instruction_sets(void) {
#define TM_LISTED(name, ...) {__VA_ARGS__},
  static const tm_set sets[] = {TM_SETS(TM_LISTED)};
  const uint32_t kept = tm_kept();
  uint64_t found = 0;
  uint32_t words[4] = {0, 0, 0, 0};
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    const tm_set *const set = &sets[k];
    if (k == 0 || set->leaf != set[-1].leaf || set->subleaf != set[-1].subleaf) {
      memset(words, 0, sizeof words); /* a leaf that is not there leaves them */
      (void)__get_cpuid_count(set->leaf, set->subleaf, &words[TM_EAX], &words[TM_EBX], &words[TM_ECX], &words[TM_EDX]);
    }
    if ((words[set->word] >> set->bit & 1) && (kept & set->state) == set->state) found |= UINT64_C(1) << k;
  }
  return found;
}

#elif defined(__aarch64__)

/* X(name of the compilers' macro, word of the auxiliary vector, bits in it), as in Linux's <asm/hwcap.h> */
#define TM_SETS(X)                                                                                                     \
  X(ARM_FEATURE_AES, 1, 0x18)                                                                                          \
  X(ARM_FEATURE_SHA2, 1, 0x60)                                                                                         \
  X(ARM_FEATURE_CRYPTO, 1, 0x78)                                                                                       \
  X(ARM_FEATURE_CRC32, 1, 1u << 7)                                                                                     \
  X(ARM_FEATURE_ATOMICS, 1, 1u << 8)                                                                                   \
  X(ARM_FEATURE_FP16_SCALAR_ARITHMETIC, 1, 1u << 9)                                                                    \
  X(ARM_FEATURE_FP16_VECTOR_ARITHMETIC, 1, 1u << 10)                                                                   \
  X(ARM_FEATURE_QRDMX, 1, 1u << 12)                                                                                    \
  X(ARM_FEATURE_JCVT, 1, 1u << 13)                                                                                     \
  X(ARM_FEATURE_COMPLEX, 1, 1u << 14)                                                                                  \
  X(ARM_FEATURE_RCPC, 1, 1u << 15)                                                                                     \
  X(ARM_FEATURE_SHA3, 1, 1u << 17)                                                                                     \
  X(ARM_FEATURE_SM3, 1, 1u << 18)                                                                                      \
  X(ARM_FEATURE_SM4, 1, 1u << 19)                                                                                      \
  X(ARM_FEATURE_DOTPROD, 1, 1u << 20)                                                                                  \
  X(ARM_FEATURE_SHA512, 1, 1u << 21)                                                                                   \
  X(ARM_FEATURE_SVE, 1, 1u << 22)                                                                                      \
  X(ARM_FEATURE_FP16_FML, 1, 1u << 23)                                                                                 \
  X(ARM_FEATURE_SVE2, 2, 1u << 1)                                                                                      \
  X(ARM_FEATURE_SVE2_AES, 2, 1u << 2)                                                                                  \
  X(ARM_FEATURE_SVE2_BITPERM, 2, 1u << 4)                                                                              \
  X(ARM_FEATURE_SVE2_SHA3, 2, 1u << 5)                                                                                 \
  X(ARM_FEATURE_SVE2_SM4, 2, 1u << 6)                                                                                  \
  X(ARM_FEATURE_FRINT, 2, 1u << 8)                                                                                     \
  X(ARM_FEATURE_SVE_MATMUL_INT8, 2, 1u << 9)                                                                           \
  X(ARM_FEATURE_SVE_MATMUL_FP32, 2, 1u << 10)                                                                          \
  X(ARM_FEATURE_SVE_MATMUL_FP64, 2, 1u << 11)                                                                          \
  X(ARM_FEATURE_SVE_BF16, 2, 1u << 12)                                                                                 \
  X(ARM_FEATURE_MATMUL_INT8, 2, 1u << 13)                                                                              \
  X(ARM_FEATURE_BF16, 2, 1u << 14)                                                                                     \
  X(ARM_FEATURE_BF16_VECTOR_ARITHMETIC, 2, 1u << 14)                                                                   \
  X(ARM_FEATURE_BF16_SCALAR_ARITHMETIC, 2, 1u << 14)
#define TM_NUMBERED(name, ...) TM_SET_##name,
enum { TM_SETS(TM_NUMBERED) };
#define TM_SET(name) (UINT64_C(1) << TM_SET_##name)

/* Other systems than Linux are not asked: their processes run the most general version. */
#if defined(__linux__)
#include <sys/auxv.h>
static uint64_t tm_instruction_sets(void) {
  const uint64_t words[] = {0, getauxval(16), getauxval(26)}; /* AT_HWCAP, AT_HWCAP2 */
  uint64_t found = 0;
#define TM_ASKED(name, word, bits)                                                                                     \
  if ((words[word] & (bits)) == (bits)) found |= TM_SET(name);
  TM_SETS(TM_ASKED)
  return found;
}
#else
static uint64_t tm_instruction_sets(void) { return 0; }
#endif

#else
static uint64_t tm_instruction_sets(void) { return 0; }
#endif

typedef struct {
  const char *name;
  uint64_t needs;
} tm_version;

enum { TM_NO_VERSION = -1, TM_NOT_CHOSEN = -2 };

/* The number of the first version that the processor can run; they are sorted, the best one first. The environment
   variable TIRAMISU_VERSION names a version: those before it are left out. */
static int tm_choice(const tm_version *versions, int count) {
  const uint64_t has = tm_instruction_sets();
  const char *const named = getenv("TIRAMISU_VERSION");
  int first = 0;
  for (int k = 0; k < count; k++)
    if (named != NULL && strcmp(versions[k].name, named) == 0) first = k;
  for (int k = first; k < count; k++)
    if ((versions[k].needs & ~has) == 0) return k;
  return TM_NO_VERSION;
}

#endif
