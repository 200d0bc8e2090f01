/* y = alpha A x + beta B x. */
#include "bounds.h"
#include <stdlib.h>

void gesummv_plain(int64_t N, double alpha, double beta, const double *restrict A_, const double *restrict B_,
                   const double *restrict x, double *restrict y)
{
    const double (*restrict A)[N] = (const void *)A_, (*restrict B)[N] = (const void *)B_;
    double *restrict tmp = malloc(sizeof(double) * N);
    for (int64_t i = 0; i < N; i++) {
        tmp[i] = 0.0;
        y[i] = 0.0;
        for (int64_t j = 0; j < N; j++) {
            tmp[i] = A[i][j] * x[j] + tmp[i];
            y[i] = B[i][j] * x[j] + y[i];
        }
        y[i] = alpha * tmp[i] + beta * y[i];
    }
    free(tmp);
}

/* What has one loop is apart from both products, which stay fused, in parallel tiles of rows. */
void gesummv_pluto(int64_t N, double alpha, double beta, const double *restrict A_, const double *restrict B_,
                   const double *restrict x, double *restrict y)
{
    const double (*restrict A)[N] = (const void *)A_, (*restrict B)[N] = (const void *)B_;
    double *restrict tmp = malloc(sizeof(double) * N);
    #pragma omp parallel for
    for (int64_t i = 0; i < N; i++) {
        tmp[i] = 0.0;
        y[i] = 0.0;
    }
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(N - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++) {
                    tmp[i] = A[i][j] * x[j] + tmp[i];
                    y[i] = B[i][j] * x[j] + y[i];
                }
    #pragma omp parallel for
    for (int64_t i = 0; i < N; i++)
        y[i] = alpha * tmp[i] + beta * y[i];
    free(tmp);
}
