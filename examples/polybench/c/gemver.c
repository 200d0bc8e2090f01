/* A matrix updated by two outer products, and two products of it with vectors. */
#include "bounds.h"

void gemver_plain(int64_t N, double alpha, double beta, double *restrict A_, const double *restrict u1,
                  const double *restrict v1, const double *restrict u2, const double *restrict v2, double *restrict w,
                  double *restrict x, const double *restrict y, const double *restrict z)
{
    double (*restrict A)[N] = (void *)A_;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            x[i] = x[i] + beta * A[j][i] * y[j];
    for (int64_t i = 0; i < N; i++)
        x[i] = x[i] + z[i];
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            w[i] = w[i] + alpha * A[i][j] * x[j];
}

/* The update, with its loops interchanged, is fused with the product that reads it by columns: parallel tiles of columns,
 * which are innermost. The other product is in parallel tiles of rows. */
void gemver_pluto(int64_t N, double alpha, double beta, double *restrict A_, const double *restrict u1,
                  const double *restrict v1, const double *restrict u2, const double *restrict v2, double *restrict w,
                  double *restrict x, const double *restrict y, const double *restrict z)
{
    double (*restrict A)[N] = (void *)A_;
    const int64_t last = tile_of(N - 1);
    #pragma omp parallel for
    for (int64_t jt = 0; jt <= last; jt++)
        for (int64_t it = 0; it <= last; it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++) {
                    A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
                    x[j] = x[j] + beta * A[i][j] * y[i];
                }
    #pragma omp parallel for
    for (int64_t i = 0; i < N; i++)
        x[i] = x[i] + z[i];
    #pragma omp parallel for
    for (int64_t it = 0; it <= last; it++)
        for (int64_t jt = 0; jt <= last; jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                    w[i] = w[i] + alpha * A[i][j] * x[j];
}
