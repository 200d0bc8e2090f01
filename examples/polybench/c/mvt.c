/* x1 + A y1 and x2 + A^T y2. */
#include "bounds.h"

void mvt_plain(int64_t N, double *restrict x1, double *restrict x2, const double *restrict y1,
               const double *restrict y2, const double *restrict A_)
{
    const double (*restrict A)[N] = (const void *)A_;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            x1[i] = x1[i] + A[i][j] * y1[j];
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            x2[i] = x2[i] + A[j][i] * y2[j];
}

/* Both products in one nest of parallel tiles; in a tile each runs along the rows of A. */
void mvt_pluto(int64_t N, double *restrict x1, double *restrict x2, const double *restrict y1,
               const double *restrict y2, const double *restrict A_)
{
    const double (*restrict A)[N] = (const void *)A_;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(N - 1); jt++) {
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                    x1[i] = x1[i] + A[i][j] * y1[j];
            for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                    x2[i] = x2[i] + A[j][i] * y2[j];
        }
}
