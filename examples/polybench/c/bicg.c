/* q = A p and s = A^T r. */
#include "bounds.h"

void bicg_plain(int64_t M, int64_t N, const double *restrict A_, const double *restrict p, const double *restrict r,
                double *restrict s, double *restrict q)
{
    const double (*restrict A)[M] = (const void *)A_;
    for (int64_t i = 0; i < M; i++)
        s[i] = 0.0;
    for (int64_t i = 0; i < N; i++) {
        q[i] = 0.0;
        for (int64_t j = 0; j < M; j++) {
            s[j] = s[j] + r[i] * A[i][j];
            q[i] = q[i] + A[i][j] * p[j];
        }
    }
}

/* Both products apart, so that each has a parallel loop: tiles of columns, which are innermost, and tiles of rows. */
void bicg_pluto(int64_t M, int64_t N, const double *restrict A_, const double *restrict p, const double *restrict r,
                double *restrict s, double *restrict q)
{
    const double (*restrict A)[M] = (const void *)A_;
    #pragma omp parallel for
    for (int64_t i = 0; i < M; i++)
        s[i] = 0.0;
    #pragma omp parallel for
    for (int64_t i = 0; i < N; i++)
        q[i] = 0.0;
    #pragma omp parallel for
    for (int64_t jt = 0; jt <= tile_of(M - 1); jt++)
        for (int64_t it = 0; it <= tile_of(N - 1); it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
                    s[j] = s[j] + r[i] * A[i][j];
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(M - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
                    q[i] = q[i] + A[i][j] * p[j];
}
