/* Collapsed Gibbs sampling for latent Dirichlet allocation (Griffiths and Steyvers, 2004): the yardstick
   of perplexity for samplers that see a minibatch at a time. It is ours, written for this comparison, and
   nobody's package: dense, on one core, without the sparse or parallel tricks of the literature, so that its
   seconds are no record; its perplexity is what counts. */
#include <stdint.h>
#include <stdlib.h>

static inline double uniform(uint64_t *s) { /* xorshift64* */
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return ((*s * 2685821657736338717ULL) >> 11) * 0x1.0p-53;
}

/* Sweeps over all tokens; the topics' words, (draws, K, W), are written after every thin-th sweep. */
void collapsed(int64_t tokens, const int32_t *document, const int32_t *word, int D, int K, int W,
               double alpha, double beta, int sweeps, int thin, uint64_t seed, float *phi) {
    int32_t *z = malloc(tokens * sizeof *z);
    int32_t *of_document = calloc((size_t)D * K, sizeof *of_document);
    int32_t *of_word = calloc((size_t)W * K, sizeof *of_word);
    int32_t *total = calloc(K, sizeof *total);
    double *p = malloc(K * sizeof *p);
    uint64_t state = seed * 2 + 1;
    for (int64_t i = 0; i < tokens; i++) {
        z[i] = (int)(uniform(&state) * K);
        of_document[(size_t)document[i] * K + z[i]]++;
        of_word[(size_t)word[i] * K + z[i]]++;
        total[z[i]]++;
    }
    for (int sweep = 1; sweep <= sweeps; sweep++) {
        for (int64_t i = 0; i < tokens; i++) {
            int32_t *d = of_document + (size_t)document[i] * K, *w = of_word + (size_t)word[i] * K;
            d[z[i]]--, w[z[i]]--, total[z[i]]--;
            double sum = 0;
            for (int k = 0; k < K; k++)
                p[k] = sum += (d[k] + alpha) * (w[k] + beta) / (total[k] + W * beta);
            double u = uniform(&state) * sum;
            int k = 0;
            while (k < K - 1 && p[k] < u)
                k++;
            z[i] = k;
            d[k]++, w[k]++, total[k]++;
        }
        if (sweep % thin == 0)
            for (int k = 0; k < K; k++)
                for (int j = 0; j < W; j++)
                    *phi++ = (of_word[(size_t)j * K + k] + beta) / (total[k] + W * beta);
    }
    free(z), free(of_document), free(of_word), free(total), free(p);
}
