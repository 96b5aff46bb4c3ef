/* The plain loop that sgmcmc/models/gibbs.py is compared with: collapsed Gibbs sampling of the
 * topics of each document's tokens, with weights (alpha + n_dk without token i) phi_kw. It is ours,
 * written for this comparison, and nobody's package: single precision, one core, and sums over the
 * topics that the compiler can vectorise.
 *
 * gcc -O3 -march=native -ffast-math -shared -fPIC -o gibbs.so gibbs.c
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t next(uint64_t *s) /* xorshift64* */
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 2685821657736338717ull;
}

static inline float uniform(uint64_t *s)
{
    return (float)(next(s) >> 40) * 0x1p-24f;
}

/* The mean over the sweeps after burn-in of the counts n_kw, in the order [word][topic].
 *
 * phi is [W][K]; document d has the tokens words[start[d]] ... words[start[d + 1] - 1].
 */
void expected_counts(int K, int W, int D, const float *phi, const int *start, const int *words,
                     float alpha, int n_burn_in, int n_samples, uint64_t seed, float *counts)
{
    float *n = malloc(K * sizeof *n), *upto = malloc(K * sizeof *upto);
    int *topic = malloc(start[D] * sizeof *topic);
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
    memset(counts, 0, (size_t)K * W * sizeof *counts);

    for (int d = 0; d < D; d++) {
        for (int k = 0; k < K; k++)
            n[k] = alpha;
        for (int i = start[d]; i < start[d + 1]; i++)
            n[topic[i] = (int)(uniform(&state) * K)] += 1;

        for (int sweep = 0; sweep < n_burn_in + n_samples; sweep++)
            for (int i = start[d]; i < start[d + 1]; i++) {
                const float *p = phi + (size_t)words[i] * K;
                n[topic[i]] -= 1;
                for (int k = 0; k < K; k++)
                    upto[k] = n[k] * p[k];
                float total = 0;
                for (int k = 0; k < K; k++)
                    total += upto[k];
                float left = uniform(&state) * total;
                int k = 0;
                while (k < K - 1 && (left -= upto[k]) >= 0)
                    k++;
                n[topic[i] = k] += 1;
                if (sweep >= n_burn_in)
                    counts[(size_t)words[i] * K + k] += 1;
            }
    }
    for (size_t j = 0; j < (size_t)K * W; j++)
        counts[j] /= n_samples;
    free(n);
    free(upto);
    free(topic);
}
