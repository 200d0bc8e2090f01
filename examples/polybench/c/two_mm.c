/* D = alpha A B C + beta D. */
#include "bounds.h"
#include <stdlib.h>

void two_mm_plain(int64_t NI, int64_t NJ, int64_t NK, int64_t NL, double alpha, double beta, const double *restrict A_,
                  const double *restrict B_, const double *restrict C_, double *restrict D_)
{
    double (*restrict D)[NL] = (void *)D_, (*restrict tmp)[NJ] = malloc(sizeof(double) * NI * NJ);
    const double (*restrict A)[NK] = (const void *)A_, (*restrict B)[NJ] = (const void *)B_;
    const double (*restrict C)[NL] = (const void *)C_;
    for (int64_t i = 0; i < NI; i++)
        for (int64_t j = 0; j < NJ; j++) {
            tmp[i][j] = 0.0;
            for (int64_t k = 0; k < NK; k++)
                tmp[i][j] += alpha * A[i][k] * B[k][j];
        }
    for (int64_t i = 0; i < NI; i++)
        for (int64_t j = 0; j < NL; j++) {
            D[i][j] *= beta;
            for (int64_t k = 0; k < NJ; k++)
                D[i][j] += tmp[i][k] * C[k][j];
        }
    free(tmp);
}

/* What starts the sums is a nest of its own; the products are in parallel tiles of rows, columns innermost. */
void two_mm_pluto(int64_t NI, int64_t NJ, int64_t NK, int64_t NL, double alpha, double beta, const double *restrict A_,
                  const double *restrict B_, const double *restrict C_, double *restrict D_)
{
    double (*restrict D)[NL] = (void *)D_, (*restrict tmp)[NJ] = malloc(sizeof(double) * NI * NJ);
    const double (*restrict A)[NK] = (const void *)A_, (*restrict B)[NJ] = (const void *)B_;
    const double (*restrict C)[NL] = (const void *)C_;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(NI - 1); it++) {
        for (int64_t jt = 0; jt <= tile_of(NJ - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), NI); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), NJ); j++)
                    tmp[i][j] = 0.0;
        for (int64_t jt = 0; jt <= tile_of(NL - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), NI); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), NL); j++)
                    D[i][j] *= beta;
    }
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(NI - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(NJ - 1); jt++) {
            for (int64_t kt = 0; kt <= tile_of(NK - 1); kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), NI); i++)
                    for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), NK); k++)
                        for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), NJ); j++)
                            tmp[i][j] += alpha * A[i][k] * B[k][j];
            for (int64_t lt = 0; lt <= tile_of(NL - 1); lt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), NI); i++)
                    for (int64_t k = TILE * jt; k < least(TILE * (jt + 1), NJ); k++)
                        for (int64_t j = TILE * lt; j < least(TILE * (lt + 1), NL); j++)
                            D[i][j] += tmp[i][k] * C[k][j];
        }
    free(tmp);
}
