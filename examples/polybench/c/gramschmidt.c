/* A = Q R; the matrix that is left is in a copy of A. */
#include "bounds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void gramschmidt_plain(int64_t M, int64_t N, const double *restrict A_, double *restrict Q_, double *restrict R_)
{
    double (*restrict A)[N] = malloc(sizeof(double) * M * N);
    double (*restrict Q)[N] = (void *)Q_, (*restrict R)[N] = (void *)R_;
    memcpy(A, A_, sizeof(double) * M * N);
    for (int64_t k = 0; k < N; k++) {
        double norm = 0.0;
        for (int64_t i = 0; i < M; i++)
            norm += A[i][k] * A[i][k];
        R[k][k] = sqrt(norm);
        for (int64_t i = 0; i < M; i++)
            Q[i][k] = A[i][k] / R[k][k];
        for (int64_t j = k + 1; j < N; j++) {
            R[k][j] = 0.0;
            for (int64_t i = 0; i < M; i++)
                R[k][j] += Q[i][k] * A[i][j];
            for (int64_t i = 0; i < M; i++)
                A[i][j] = A[i][j] - Q[i][k] * R[k][j];
        }
    }
    free(A);
}

/* For each k the columns j are independent: parallel tiles, with j, along which elements are neighbours, inside. */
void gramschmidt_pluto(int64_t M, int64_t N, const double *restrict A_, double *restrict Q_, double *restrict R_)
{
    double (*restrict A)[N] = malloc(sizeof(double) * M * N);
    double (*restrict Q)[N] = (void *)Q_, (*restrict R)[N] = (void *)R_;
    memcpy(A, A_, sizeof(double) * M * N);
    for (int64_t k = 0; k < N; k++) {
        double norm = 0.0;
        for (int64_t i = 0; i < M; i++)
            norm += A[i][k] * A[i][k];
        R[k][k] = sqrt(norm);
        #pragma omp parallel for
        for (int64_t it = 0; it <= tile_of(M - 1); it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                Q[i][k] = A[i][k] / R[k][k];
        #pragma omp parallel for
        for (int64_t jt = tile_of(k + 1); jt <= tile_of(N - 1); jt++) {
            const int64_t from = most(TILE * jt, k + 1), to = least(TILE * (jt + 1), N);
            for (int64_t j = from; j < to; j++)
                R[k][j] = 0.0;
            for (int64_t i = 0; i < M; i++)
                for (int64_t j = from; j < to; j++)
                    R[k][j] += Q[i][k] * A[i][j];
            for (int64_t i = 0; i < M; i++)
                for (int64_t j = from; j < to; j++)
                    A[i][j] = A[i][j] - Q[i][k] * R[k][j];
        }
    }
    free(A);
}
