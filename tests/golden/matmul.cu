// The kernels of matmul.
#include "tm_kernel.h"

TM_KERNEL void TM_LAUNCH_BOUNDS(256, 2) matmul_product(const int64_t M, const int64_t K, const float *TM_RESTRICT A,
    const float *TM_RESTRICT B, float *TM_RESTRICT C) {
  const int64_t i0 = blockIdx.y;
  const int64_t j0 = blockIdx.x;
  const int64_t i1 = threadIdx.y;
  const int64_t j1 = threadIdx.x;
  TM_SHARED(float, ta, [16][17]);
  TM_SHARED(float, tb, [16][17]);
  float sum;
  sum = 0.0f;
  for (int64_t k0 = 0; k0 < K/16; k0++) {
    // copies of A and B
    ta[i1][j1] = A[(16*i0 + i1)*K + 16*k0 + j1];
    tb[i1][j1] = B[(16*k0 + i1)*M + 16*j0 + j1];
    TM_BARRIER();
    #pragma unroll
    for (int64_t k1 = 0; k1 < 16; k1++) {
      sum += ta[i1][k1] * tb[k1][j1];
    }
    TM_BARRIER();
  }
  // C[i, j]
  C[(16*i0 + i1)*M + 16*j0 + j1] = sum;
}
