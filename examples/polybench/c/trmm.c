/* B = alpha A^T B, of a lower triangle A with a diagonal of ones. */
#include "bounds.h"

void trmm_plain(int64_t M, int64_t N, double alpha, const double *restrict A_, double *restrict B_)
{
    double (*restrict B)[N] = (void *)B_;
    const double (*restrict A)[M] = (const void *)A_;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            for (int64_t k = i + 1; k < M; k++)
                B[i][j] += A[k][i] * B[k][j];
            B[i][j] = alpha * B[i][j];
        }
}

/* All sums, then their products with alpha, which have a loop less. Columns are independent: parallel tiles of them. */
void trmm_pluto(int64_t M, int64_t N, double alpha, const double *restrict A_, double *restrict B_)
{
    double (*restrict B)[N] = (void *)B_;
    const double (*restrict A)[M] = (const void *)A_;
    #pragma omp parallel for
    for (int64_t jt = 0; jt <= tile_of(N - 1); jt++)
        for (int64_t it = 0; it <= tile_of(M - 1); it++)
            for (int64_t kt = it; kt <= tile_of(M - 1); kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                    for (int64_t k = most(TILE * kt, i + 1); k < least(TILE * (kt + 1), M); k++)
                        for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                            B[i][j] += A[k][i] * B[k][j];
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(M - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(N - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), N); j++)
                    B[i][j] = alpha * B[i][j];
}
