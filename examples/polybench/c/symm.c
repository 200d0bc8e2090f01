/* C = alpha A B + beta C, of a symmetric A of which the lower triangle is read. */
#include "bounds.h"

void symm_plain(int64_t M, int64_t N, double alpha, double beta, double *restrict C_, const double *restrict A_,
                const double *restrict B_)
{
    double (*restrict C)[N] = (void *)C_, sum;
    const double (*restrict A)[M] = (const void *)A_, (*restrict B)[N] = (const void *)B_;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            sum = 0.0;
            for (int64_t k = 0; k < i; k++) {
                C[k][j] += alpha * B[i][j] * A[i][k];
                sum += B[k][j] * A[i][k];
            }
            C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * sum;
        }
}

/* As it is: every iteration of i and j writes the one scalar, which allows no other order of them. */
void symm_pluto(int64_t M, int64_t N, double alpha, double beta, double *restrict C, const double *restrict A,
                const double *restrict B)
{
    symm_plain(M, N, alpha, beta, C, A, B);
}
