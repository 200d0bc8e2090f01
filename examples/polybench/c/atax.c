/* y = A^T (A x). */
#include "bounds.h"
#include <stdlib.h>

void atax_plain(int64_t M, int64_t N, const double *restrict A_, const double *restrict x, double *restrict y)
{
    const double (*restrict A)[N] = (const void *)A_;
    double *restrict tmp = malloc(sizeof(double) * M);
    for (int64_t i = 0; i < N; i++)
        y[i] = 0.0;
    for (int64_t i = 0; i < M; i++) {
        tmp[i] = 0.0;
        for (int64_t j = 0; j < N; j++)
            tmp[i] = tmp[i] + A[i][j] * x[j];
        for (int64_t j = 0; j < N; j++)
            y[j] = y[j] + A[i][j] * tmp[i];
    }
    free(tmp);
}

/* Both products apart, so that each has a parallel loop: tiles of rows, then of columns, which are innermost. */
void atax_pluto(int64_t M, int64_t N, const double *restrict A_, const double *restrict x, double *restrict y)
{
    const double (*restrict A)[N] = (const void *)A_;
    double *restrict tmp = malloc(sizeof(double) * M);
    #pragma omp parallel for
    for (int64_t i = 0; i < N; i++)
        y[i] = 0.0;
    #pragma omp parallel for
    for (int64_t i = 0; i < M; i++)
        tmp[i] = 0.0;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(M - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(N - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                    tmp[i] = tmp[i] + A[i][j] * x[j];
    #pragma omp parallel for
    for (int64_t jt = 0; jt <= tile_of(N - 1); jt++)
        for (int64_t it = 0; it <= tile_of(M - 1); it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                    y[j] = y[j] + A[i][j] * tmp[i];
    free(tmp);
}
