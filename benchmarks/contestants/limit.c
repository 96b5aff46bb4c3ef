/* The limit: SGLD for logistic regression in one fused loop, rows drawn with replacement. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define AHEAD 32 /* rows fetched into the cache before they are wanted */

static uint64_t state[2] = {0x9E3779B97F4A7C15u, 0xBF58476D1CE4E5B9u};

static inline uint64_t next(void) { /* xorshift128+ */
    uint64_t a = state[0], b = state[1];
    state[0] = b;
    a ^= a << 23;
    state[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
    return state[1] + b;
}

static inline float uniform(void) { return ((next() >> 40) + 0.5f) * 0x1p-24f; }

void sgld(const float *X, const float *y, float *beta, float *chain, int64_t N, int d, int n,
          float h, int64_t steps) {
    float gradient[4096], residual[4096], noise = sqrtf(h), scale = (float)N / n;
    int64_t row[4096 + AHEAD];
    for (int64_t t = 0; t < steps; t++) {
        for (int i = 0; i < n + AHEAD; i++)
            row[i] = (int64_t)(((unsigned __int128)next() * (uint64_t)N) >> 64);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < d; j += 16) __builtin_prefetch(X + row[i + AHEAD] * d + j);
            __builtin_prefetch(y + row[i + AHEAD]);
            const float *x = X + row[i] * d;
            float logit = 0;
            for (int j = 0; j < d; j++) logit += x[j] * beta[j];
            residual[i] = logit;
        }
        for (int i = 0; i < n; i++) residual[i] = y[row[i]] - 1 / (1 + expf(-residual[i]));
        for (int j = 0; j < d; j++) gradient[j] = 0;
        for (int i = 0; i < n; i++) {
            const float *x = X + row[i] * d;
            for (int j = 0; j < d; j++) gradient[j] += residual[i] * x[j];
        }
        for (int j = 0; j < d; j += 2) {
            float r = sqrtf(-2 * logf(uniform())), angle = 6.2831853f * uniform();
            float z[2] = {r * cosf(angle), r * sinf(angle)};
            for (int k = j; k < j + 2 && k < d; k++)
                beta[k] += h / 2 * (scale * gradient[k] - beta[k] / 10) + noise * z[k - j];
        }
        for (int j = 0; j < d; j++) chain[t * d + j] = beta[j];
    }
}
