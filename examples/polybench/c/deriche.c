/* Deriche's recursive filter, with alpha = 0.25. */
#include "bounds.h"
#include <math.h>
#include <stdlib.h>

#define ALPHA 0.25f

static void along_rows(int64_t W, int64_t H, const float *restrict x_, float *restrict y1_, float *restrict y2_)
{
    const float (*restrict x)[H] = (const void *)x_;
    float (*restrict y1)[H] = (void *)y1_, (*restrict y2)[H] = (void *)y2_;
    const float k = (1 - expf(-ALPHA)) * (1 - expf(-ALPHA)) / (1 + 2 * ALPHA * expf(-ALPHA) - expf(2 * ALPHA));
    const float a1 = k, a2 = k * expf(-ALPHA) * (ALPHA - 1), a3 = k * expf(-ALPHA) * (ALPHA + 1);
    const float a4 = -k * expf(-2 * ALPHA), b1 = powf(2, -ALPHA), b2 = -expf(-2 * ALPHA);
    for (int64_t i = 0; i < W; i++) {
        float ym1 = 0, ym2 = 0, xm1 = 0;
        for (int64_t j = 0; j < H; j++) {
            y1[i][j] = a1 * x[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
            xm1 = x[i][j];
            ym2 = ym1;
            ym1 = y1[i][j];
        }
    }
    for (int64_t i = 0; i < W; i++) {
        float yp1 = 0, yp2 = 0, xp1 = 0, xp2 = 0;
        for (int64_t j = H - 1; j >= 0; j--) {
            y2[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
            xp2 = xp1;
            xp1 = x[i][j];
            yp2 = yp1;
            yp1 = y2[i][j];
        }
    }
}

static void along_columns(int64_t W, int64_t H, const float *restrict x_, float *restrict y1_, float *restrict y2_)
{
    const float (*restrict x)[H] = (const void *)x_;
    float (*restrict y1)[H] = (void *)y1_, (*restrict y2)[H] = (void *)y2_;
    const float k = (1 - expf(-ALPHA)) * (1 - expf(-ALPHA)) / (1 + 2 * ALPHA * expf(-ALPHA) - expf(2 * ALPHA));
    const float a5 = k, a6 = k * expf(-ALPHA) * (ALPHA - 1), a7 = k * expf(-ALPHA) * (ALPHA + 1);
    const float a8 = -k * expf(-2 * ALPHA), b1 = powf(2, -ALPHA), b2 = -expf(-2 * ALPHA);
    for (int64_t j = 0; j < H; j++) {
        float tm1 = 0, ym1 = 0, ym2 = 0;
        for (int64_t i = 0; i < W; i++) {
            y1[i][j] = a5 * x[i][j] + a6 * tm1 + b1 * ym1 + b2 * ym2;
            tm1 = x[i][j];
            ym2 = ym1;
            ym1 = y1[i][j];
        }
    }
    for (int64_t j = 0; j < H; j++) {
        float tp1 = 0, tp2 = 0, yp1 = 0, yp2 = 0;
        for (int64_t i = W - 1; i >= 0; i--) {
            y2[i][j] = a7 * tp1 + a8 * tp2 + b1 * yp1 + b2 * yp2;
            tp2 = tp1;
            tp1 = x[i][j];
            yp2 = yp1;
            yp1 = y2[i][j];
        }
    }
}

void deriche_plain(int64_t W, int64_t H, const float *restrict x, float *restrict out_)
{
    float *restrict y1_ = malloc(sizeof(float) * W * H), *restrict y2_ = malloc(sizeof(float) * W * H);
    float (*restrict y1)[H] = (void *)y1_, (*restrict y2)[H] = (void *)y2_, (*restrict out)[H] = (void *)out_;
    along_rows(W, H, x, y1_, y2_);
    for (int64_t i = 0; i < W; i++)
        for (int64_t j = 0; j < H; j++)
            out[i][j] = y1[i][j] + y2[i][j];
    along_columns(W, H, out_, y1_, y2_);
    for (int64_t i = 0; i < W; i++)
        for (int64_t j = 0; j < H; j++)
            out[i][j] = y1[i][j] + y2[i][j];
    free(y1_);
    free(y2_);
}

static void sum_in_tiles(int64_t W, int64_t H, const float *restrict y1_, const float *restrict y2_, float *restrict out_)
{
    const float (*restrict y1)[H] = (const void *)y1_, (*restrict y2)[H] = (const void *)y2_;
    float (*restrict out)[H] = (void *)out_;
    #pragma omp parallel for
    for (int64_t it = 0; it <= tile_of(W - 1); it++)
        for (int64_t jt = 0; jt <= tile_of(H - 1); jt++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), W); i++)
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), H); j++)
                    out[i][j] = y1[i][j] + y2[i][j];
}

/* The scalars carry dependences through the recurrences, which stay as they are: only the sums are tiled. */
void deriche_pluto(int64_t W, int64_t H, const float *restrict x, float *restrict out)
{
    float *restrict y1 = malloc(sizeof(float) * W * H), *restrict y2 = malloc(sizeof(float) * W * H);
    along_rows(W, H, x, y1, y2);
    sum_in_tiles(W, H, y1, y2, out);
    along_columns(W, H, out, y1, y2);
    sum_in_tiles(W, H, y1, y2, out);
    free(y1);
    free(y2);
}
