/* G = (A B) (C D). */
#include "bounds.h"
#include <stdlib.h>

static void product_plain(int64_t N, int64_t M, int64_t K, const double *restrict A_, const double *restrict B_,
                          double *restrict C_)
{
    const double (*restrict A)[K] = (const void *)A_, (*restrict B)[M] = (const void *)B_;
    double (*restrict C)[M] = (void *)C_;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < M; j++) {
            C[i][j] = 0.0;
            for (int64_t k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
        }
}

void three_mm_plain(int64_t NI, int64_t NJ, int64_t NK, int64_t NL, int64_t NM, const double *restrict A,
                    const double *restrict B, const double *restrict C, const double *restrict D, double *restrict G)
{
    double *E = malloc(sizeof(double) * NI * NJ), *F = malloc(sizeof(double) * NJ * NL);
    product_plain(NI, NJ, NK, A, B, E);
    product_plain(NJ, NL, NM, C, D, F);
    product_plain(NI, NL, NJ, E, F, G);
    free(E);
    free(F);
}

/* Parallel tiles of rows, columns innermost; what starts the sums is a nest of its own. */
static void product_pluto(int64_t N, int64_t M, int64_t K, const double *restrict A_, const double *restrict B_,
                          double *restrict C_)
{
    const double (*restrict A)[K] = (const void *)A_, (*restrict B)[M] = (const void *)B_;
    double (*restrict C)[M] = (void *)C_;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(M - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
                    C[i][j] = 0.0;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(M - 1); jt++)
            for (int64_t kt = 0; kt <= tile_of(K - 1); kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                    for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), K); k++)
                        for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
                            C[i][j] += A[i][k] * B[k][j];
}

void three_mm_pluto(int64_t NI, int64_t NJ, int64_t NK, int64_t NL, int64_t NM, const double *restrict A,
                    const double *restrict B, const double *restrict C, const double *restrict D, double *restrict G)
{
    double *E = malloc(sizeof(double) * NI * NJ), *F = malloc(sizeof(double) * NJ * NL);
    product_pluto(NI, NJ, NK, A, B, E);
    product_pluto(NJ, NL, NM, C, D, F);
    product_pluto(NI, NL, NJ, E, F, G);
    free(E);
    free(F);
}
