/* C = alpha A A^T + beta C in the lower triangle. */
#include "bounds.h"

void syrk_plain(int64_t M, int64_t N, double alpha, double beta, double *restrict C_, const double *restrict A_)
{
    double (*restrict C)[N] = (void *)C_;
    const double (*restrict A)[M] = (const void *)A_;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j <= i; j++)
            C[i][j] *= beta;
        for (int64_t k = 0; k < M; k++)
            for (int64_t j = 0; j <= i; j++)
                C[i][j] += alpha * A[i][k] * A[j][k];
    }
}

/* Parallel tiles of rows; in a tile k is innermost, along which all rows are read. */
void syrk_pluto(int64_t M, int64_t N, double alpha, double beta, double *restrict C_, const double *restrict A_)
{
    double (*restrict C)[N] = (void *)C_;
    const double (*restrict A)[M] = (const void *)A_;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= it; jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), i + 1); j++)
                    C[i][j] *= beta;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= it; jt++)
            for (int64_t kt = 0; kt <= tile_of(M - 1); kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                    for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), i + 1); j++)
                        for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), M); k++)
                            C[i][j] += alpha * A[i][k] * A[j][k];
}
