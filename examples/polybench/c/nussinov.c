/* The largest number of pairs in a folded strand. */
#include "bounds.h"
#include <string.h>

static inline int32_t larger(int32_t a, int32_t b) { return a >= b ? a : b; }

void nussinov_plain(int64_t N, const int32_t *restrict seq, int32_t *restrict pairs)
{
    int32_t (*restrict table)[N] = (void *)pairs;
    memset(table, 0, sizeof(int32_t) * N * N);
    for (int64_t i = N - 1; i >= 0; i--)
        for (int64_t j = i + 1; j < N; j++) {
            table[i][j] = larger(table[i][j], table[i][j - 1]);
            table[i][j] = larger(table[i][j], table[i + 1][j]);
            if (i < j - 1)
                table[i][j] = larger(table[i][j], table[i + 1][j - 1] + (seq[i] + seq[j] == 3));
            else
                table[i][j] = larger(table[i][j], table[i + 1][j - 1]);
            for (int64_t k = i + 1; k < j; k++)
                table[i][j] = larger(table[i][j], table[i][k] + table[k + 1][j]);
        }
}

/* Dependences point forward in -i and in j, but not in k: squares, those with the same sum at the same time. */
void nussinov_pluto(int64_t N, const int32_t *restrict seq, int32_t *restrict pairs)
{
    int32_t (*restrict table)[N] = (void *)pairs;
    const int64_t last = tile_of(N - 1);
    memset(table, 0, sizeof(int32_t) * N * N);
    for (int64_t w = 0; w <= last; w++) {
        #pragma omp parallel for
        for (int64_t it = 0; it <= last - w; it++) {
            const int64_t jt = it + w;
            for (int64_t i = least(TILE * (it + 1), N) - 1; i >= TILE * it; i--)
                for (int64_t j = most(i + 1, TILE * jt); j < least(TILE * (jt + 1), N); j++) {
                    table[i][j] = larger(table[i][j], table[i][j - 1]);
                    table[i][j] = larger(table[i][j], table[i + 1][j]);
                    if (i < j - 1)
                        table[i][j] = larger(table[i][j], table[i + 1][j - 1] + (seq[i] + seq[j] == 3));
                    else
                        table[i][j] = larger(table[i][j], table[i + 1][j - 1]);
                    for (int64_t k = i + 1; k < j; k++)
                        table[i][j] = larger(table[i][j], table[i][k] + table[k + 1][j]);
                }
        }
    }
}
