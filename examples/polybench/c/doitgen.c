/* The last dimension of A multiplied by a matrix, in place. */
#include "bounds.h"
#include <stdlib.h>

void doitgen_plain(int64_t NR, int64_t NQ, int64_t NP, double *restrict A_, const double *restrict C4_)
{
    double (*restrict A)[NQ][NP] = (void *)A_, *restrict sum = malloc(sizeof(double) * NP);
    const double (*restrict C4)[NP] = (const void *)C4_;
    for (int64_t r = 0; r < NR; r++)
        for (int64_t q = 0; q < NQ; q++) {
            for (int64_t p = 0; p < NP; p++) {
                sum[p] = 0.0;
                for (int64_t s = 0; s < NP; s++)
                    sum[p] += A[r][q][s] * C4[s][p];
            }
            for (int64_t p = 0; p < NP; p++)
                A[r][q][p] = sum[p];
        }
    free(sum);
}

/* All r and q share one row of sums, which keeps their order: parallel tiles of p inside of them, p innermost. */
void doitgen_pluto(int64_t NR, int64_t NQ, int64_t NP, double *restrict A_, const double *restrict C4_)
{
    double (*restrict A)[NQ][NP] = (void *)A_, *restrict sum = malloc(sizeof(double) * NP);
    const double (*restrict C4)[NP] = (const void *)C4_;
    for (int64_t r = 0; r < NR; r++)
        for (int64_t q = 0; q < NQ; q++) {
            #pragma omp parallel for
            for (int64_t pt = 0; pt <= tile_of(NP - 1); pt++) {
                for (int64_t p = TILE * pt; p < least(TILE * (pt + 1), NP); p++)
                    sum[p] = 0.0;
                for (int64_t st = 0; st <= tile_of(NP - 1); st++)
                    for (int64_t s = TILE * st; s < least(TILE * (st + 1), NP); s++)
                        for (int64_t p = TILE * pt; p < least(TILE * (pt + 1), NP); p++)
                            sum[p] += A[r][q][s] * C4[s][p];
            }
            #pragma omp parallel for
            for (int64_t p = 0; p < NP; p++)
                A[r][q][p] = sum[p];
        }
    free(sum);
}
