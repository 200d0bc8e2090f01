/* The covariances of M attributes over N observations; data is copied, since it is changed. */
#include "bounds.h"
#include <stdlib.h>
#include <string.h>

void covariance_plain(int64_t M, int64_t N, const double *restrict given, double *restrict cov_)
{
    double (*restrict data)[M] = malloc(sizeof(double) * N * M), (*restrict cov)[M] = (void *)cov_;
    double *restrict mean = malloc(sizeof(double) * M);
    memcpy(data, given, sizeof(double) * N * M);
    for (int64_t j = 0; j < M; j++) {
        mean[j] = 0.0;
        for (int64_t i = 0; i < N; i++)
            mean[j] += data[i][j];
        mean[j] /= N;
    }
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < M; j++)
            data[i][j] -= mean[j];
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = i; j < M; j++) {
            cov[i][j] = 0.0;
            for (int64_t k = 0; k < N; k++)
                cov[i][j] += data[k][i] * data[k][j];
            cov[i][j] /= N - 1.0;
            cov[j][i] = cov[i][j];
        }
    free(data);
    free(mean);
}

/* Each step is a nest of its own, in parallel tiles, with columns innermost. */
void covariance_pluto(int64_t M, int64_t N, const double *restrict given, double *restrict cov_)
{
    double (*restrict data)[M] = malloc(sizeof(double) * N * M), (*restrict cov)[M] = (void *)cov_;
    double *restrict mean = malloc(sizeof(double) * M);
    const int64_t last = tile_of(M - 1);
    memcpy(data, given, sizeof(double) * N * M);
    #pragma omp parallel for
    for (int64_t jt = 0; jt <= last; jt++) {
        for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
            mean[j] = 0.0;
        for (int64_t it = 0; it <= tile_of(N - 1); it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
                    mean[j] += data[i][j];
        for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
            mean[j] /= N;
    }
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(N - 1); it++)
        for (int64_t jt = 0; jt <= last; jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), M); j++)
                    data[i][j] -= mean[j];
    #pragma omp parallel for
    for (int64_t it = 0; it <= last; it++)
        for (int64_t jt = it; jt <= last; jt++) {
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                for (int64_t j = most(TILE * jt, i); j < least(TILE * (jt + 1), M); j++)
                    cov[i][j] = 0.0;
            for (int64_t kt = 0; kt <= tile_of(N - 1); kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                    for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), N); k++)
                        for (int64_t j = most(TILE * jt, i); j < least(TILE * (jt + 1), M); j++)
                            cov[i][j] += data[k][i] * data[k][j];
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), M); i++)
                for (int64_t j = most(TILE * jt, i); j < least(TILE * (jt + 1), M); j++) {
                    cov[i][j] /= N - 1.0;
                    cov[j][i] = cov[i][j];
                }
        }
    free(data);
    free(mean);
}
