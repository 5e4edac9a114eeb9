/* A step of training in C99: a network of two layers, its loss, the gradients, and Adam. docs/judging_programs.md judges it.

       cc -std=c99 -O2 step.c -o step -lm
       ./step CASE ANSWER

   It reads input.x.bin, input.targets.bin and parameter.NAME.bin in the folder CASE, and writes output.bin,
   gradient.NAME.bin and updated.NAME.bin in the folder ANSWER: numbers alone, the last index fastest. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 5, D = 4, H = 6, C = 3 }; /* examples, features, hidden units, classes */

static void file(const char *folder, const char *kind, const char *name, const char *mode, void *data, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s.bin", folder, kind, name);
    FILE *f = fopen(path, mode);
    if (!f || (mode[0] == 'r' ? fread(data, 1, bytes, f) : fwrite(data, 1, bytes, f)) != bytes) {
        fprintf(stderr, "cannot read or write %s\n", path);
        exit(1);
    }
    fclose(f);
}

/* theta <- theta - eta m / (sqrt(v) + eps) after the first step, where m = g and v = g g. */
static void adam(float *theta, const float *g, size_t n) {
    const float eta = 1e-2f, eps = 1e-8f, beta1 = 0.9f, beta2 = 0.999f;
    for (size_t i = 0; i < n; i++) {
        float m = (1 - beta1) * g[i], v = (1 - beta2) * g[i] * g[i];
        theta[i] -= eta * (m / (1 - beta1)) / (sqrtf(v / (1 - beta2)) + eps);
    }
}

int main(int count, char **words) {
    static float x[N][D], w1[D][H], b1[H], w2[H][C], b2[C], h[N][H], p[N][C], loss;
    static float dw1[D][H], db1[H], dw2[H][C], db2[C];
    static int64_t targets[N];
    if (count != 3) return 2;
    struct { const char *name; float *data, *gradient; size_t size; } parameters[] = {
        {"layers.0.weight", &w1[0][0], &dw1[0][0], D * H}, {"layers.0.bias", b1, db1, H},
        {"layers.1.weight", &w2[0][0], &dw2[0][0], H * C}, {"layers.1.bias", b2, db2, C}};
    file(words[1], "input.", "x", "rb", x, sizeof x);
    file(words[1], "input.", "targets", "rb", targets, sizeof targets);
    for (int k = 0; k < 4; k++) file(words[1], "parameter.", parameters[k].name, "rb", parameters[k].data, 4 * parameters[k].size);

    for (int n = 0; n < N; n++) {
        float largest = -INFINITY, sum = 0;
        for (int j = 0; j < H; j++) {
            h[n][j] = b1[j];
            for (int i = 0; i < D; i++) h[n][j] += x[n][i] * w1[i][j];
            h[n][j] = h[n][j] > 0 ? h[n][j] : 0;
        }
        for (int c = 0; c < C; c++) {
            p[n][c] = b2[c];
            for (int j = 0; j < H; j++) p[n][c] += h[n][j] * w2[j][c];
            largest = p[n][c] > largest ? p[n][c] : largest;
        }
        loss -= (p[n][targets[n]] - largest) / N;
        for (int c = 0; c < C; c++) sum += p[n][c] = expf(p[n][c] - largest);
        loss += logf(sum) / N;
        for (int c = 0; c < C; c++) p[n][c] = (p[n][c] / sum - (c == targets[n])) / N; /* now its gradient */
        for (int c = 0; c < C; c++) db2[c] += p[n][c];
        for (int j = 0; j < H; j++) {
            float back = 0;
            for (int c = 0; c < C; c++) dw2[j][c] += h[n][j] * p[n][c], back += w2[j][c] * p[n][c];
            back = h[n][j] > 0 ? back : 0;
            db1[j] += back;
            for (int i = 0; i < D; i++) dw1[i][j] += x[n][i] * back;
        }
    }
    file(words[2], "", "output", "wb", &loss, 4);
    for (int k = 0; k < 4; k++) {
        file(words[2], "gradient.", parameters[k].name, "wb", parameters[k].gradient, 4 * parameters[k].size);
        adam(parameters[k].data, parameters[k].gradient, parameters[k].size);
        file(words[2], "updated.", parameters[k].name, "wb", parameters[k].data, 4 * parameters[k].size);
    }
    return 0;
}
