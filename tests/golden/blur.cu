// The kernels of blur.
#include "tm_kernel.h"

// by[i, j], on blocks (i0, j0)
TM_KERNEL void TM_LAUNCH_BOUNDS(256) blur_by(const int64_t R, const int64_t C, const float *TM_RESTRICT image,
    float *TM_RESTRICT by) {
  const int64_t i0 = blockIdx.y;
  const int64_t j0 = blockIdx.x;
  const int64_t i1 = threadIdx.y;
  const int64_t j1 = threadIdx.x;
  if (16*i0 + i1 < R && 16*j0 + j1 < C) {
    // by[i, j] = (image[i, j] + ... + image[i + 2, j + 2]) / 9
    by[(16*i0 + i1)*C + 16*j0 + j1] = tm_divide(image[(16*i0 + i1)*(C + 2) + 16*j0 + j1]
        + image[(16*i0 + i1 + 0)*(C + 2) + 16*j0 + j1 + 1] + image[(16*i0 + i1 + 0)*(C + 2) + 16*j0 + j1 + 2]
        + image[(16*i0 + i1 + 1)*(C + 2) + (16*j0 + j1 + 0)] + image[(16*i0 + i1 + 1)*(C + 2) + 16*j0 + j1 + 1]
        + image[(16*i0 + i1 + 1)*(C + 2) + 16*j0 + j1 + 2] + image[(16*i0 + i1 + 2)*(C + 2) + (16*j0 + j1 + 0)]
        + image[(16*i0 + i1 + 2)*(C + 2) + 16*j0 + j1 + 1]
        + image[(16*i0 + i1 + 2)*(C + 2) + 16*j0 + j1 + 2], 9.0f);
  }
}
