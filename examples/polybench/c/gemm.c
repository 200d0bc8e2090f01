/* C = alpha A B + beta C. */
#include "bounds.h"

void gemm_plain(int64_t NI, int64_t NJ, int64_t NK, double alpha, double beta, double *restrict C_,
                const double *restrict A_, const double *restrict B_)
{
    double (*restrict C)[NJ] = (void *)C_;
    const double (*restrict A)[NK] = (const void *)A_, (*restrict B)[NJ] = (const void *)B_;
    for (int64_t i = 0; i < NI; i++) {
        for (int64_t j = 0; j < NJ; j++)
            C[i][j] *= beta;
        for (int64_t k = 0; k < NK; k++)
            for (int64_t j = 0; j < NJ; j++)
                C[i][j] += alpha * A[i][k] * B[k][j];
    }
}

/* Two nests, since one has a loop more; each in parallel tiles of rows, columns innermost. */
void gemm_pluto(int64_t NI, int64_t NJ, int64_t NK, double alpha, double beta, double *restrict C_,
                const double *restrict A_, const double *restrict B_)
{
    double (*restrict C)[NJ] = (void *)C_;
    const double (*restrict A)[NK] = (const void *)A_, (*restrict B)[NJ] = (const void *)B_;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(NI - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(NJ - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), NI); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), NJ); j++)
                    C[i][j] *= beta;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(NI - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(NJ - 1); jt++)
            for (int64_t kt = 0; kt <= tile_of(NK - 1); kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), NI); i++)
                    for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), NK); k++)
                        for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), NJ); j++)
                            C[i][j] += alpha * A[i][k] * B[k][j];
}
