/* Softmax, LayerNorm and attention in C99, judged by refnp from files; docs/case_format.md describes them.

       cc -std=c99 -O2 -DREAL=float layers.c -o layers -lm
       refnp judge --run './layers {in} {out}' --as attention --format raw --dtypes float32

   The program reads the folder of a case, CASE/case.txt and CASE/NAME.bin, and writes ANSWER/output.bin. It ends with
   status 77 where it has no such layer, no such option, or was compiled for another precision. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef REAL
#define REAL float
#endif
#define NAME_OF(type) NAME_OF_(type)
#define NAME_OF_(type) #type
#define AXES 8

typedef REAL real;
typedef struct { char name[128], dtype[16]; int rank; size_t shape[AXES], size; void *data; } Array;

static Array arrays[512];
static int count;
static char layer[128], dtype[16];
static int axis = -1;
static double eps = 1e-5;
static size_t before = (size_t)-1, after = (size_t)-1; /* how far a query may attend, if an option says it */

static void stop(int status, const char *why, const char *what) {
    fprintf(stderr, "%s%s\n", why, what);
    exit(status);
}

static Array *find(const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(arrays[i].name, name)) return &arrays[i];
    return NULL;
}

static Array *need(const char *name) {
    Array *found = find(name);
    if (!found) stop(1, "the case has no ", name);
    return found;
}

static void read_numbers(const char *folder, Array *a) {
    char path[4096];
    size_t width = !strcmp(a->dtype, "bool") ? 1 : !strcmp(a->dtype, "float32") ? 4 : 8;
    snprintf(path, sizeof path, "%s/%s.bin", folder, a->name);
    FILE *file = fopen(path, "rb");
    a->data = malloc(a->size * width + 1);
    if (!file || !a->data || fread(a->data, width, a->size, file) != a->size) stop(1, "cannot read ", path);
    fclose(file);
}

static void read_option(const char *name, const char *value) {
    if (!strcmp(name, "axis")) axis = atoi(value);
    else if (!strcmp(name, "eps")) eps = atof(value);
    else if (!strcmp(name, "before")) before = (size_t)atoi(value);
    else if (!strcmp(name, "after")) after = (size_t)atoi(value);
    else if (strcmp(name, "mask") && strcmp(value, "\"scaled_dot\""))
        stop(77, "there is no option ", name);
}

static void read_case(const char *folder) {
    char path[4096], line[4096], name[128], value[2048];
    snprintf(path, sizeof path, "%s/case.txt", folder);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) stop(1, "cannot read ", path);
    if (strcmp(line, "refnp-case 1\n")) stop(1, "another version: ", line);
    while (fgets(line, sizeof line, file)) {
        Array *a = &arrays[count];
        int end;
        if (sscanf(line, "layer %127[^\n]", layer) == 1 || sscanf(line, "dtype %15s", dtype) == 1) continue;
        if (sscanf(line, "option %127s %2047[^\n]", name, value) == 2) read_option(name, value);
        if (sscanf(line, "array %127s %15s %d%n", a->name, a->dtype, &a->rank, &end) != 3) continue;
        if (++count == 512 || a->rank > AXES) stop(77, "too many arrays or axes: ", line);
        a->size = 1;
        for (int i = 0, step; i < a->rank; i++, end += step, a->size *= a->shape[i - 1])
            if (sscanf(line + end, " %zu%n", &a->shape[i], &step) != 1) stop(1, "cannot read ", line);
        if (!strncmp(a->name, "input.", 6) || !strncmp(a->name, "option.", 7)) read_numbers(folder, a);
    }
    fclose(file);
}

/* p_i = exp(x_i - m) / sum of exp(x_j - m), for n numbers that lie `step` apart; those of -infinity have weight 0. */
static void softmax(real *x, size_t n, size_t step) {
    real m = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) m = x[i * step] > m ? x[i * step] : m;
    for (size_t i = 0; i < n; i++) sum += x[i * step] = m == -INFINITY ? 0 : (real)exp(x[i * step] - m);
    for (size_t i = 0; i < n; i++) x[i * step] = sum == 0 ? 0 : x[i * step] / sum;
}

/* y_i = gain_i (x_i - mean) / sqrt(variance + eps) + shift_i; one gain and shift for all, or one for each i. */
static void layer_norm(real *x, size_t n, size_t step) {
    Array *gain = need("input.gain"), *shift = need("input.shift");
    real mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) mean += x[i * step];
    mean /= n;
    for (size_t i = 0; i < n; i++) variance += (x[i * step] - mean) * (x[i * step] - mean);
    real s = (real)sqrt(variance / n + (real)eps);
    for (size_t i = 0; i < n; i++) {
        real unit = s == 0 ? 0 : (x[i * step] - mean) / s;
        x[i * step] = unit * ((real *)gain->data)[gain->rank ? i : 0] + ((real *)shift->data)[shift->rank ? i : 0];
    }
}

/* A function of the rows along one axis, in place. */
static void along(void (*of_row)(real *, size_t, size_t), Array *x) {
    int own = axis < 0 ? axis + x->rank : axis;
    size_t step = 1, n = x->shape[own];
    for (int i = own + 1; i < x->rank; i++) step *= x->shape[i];
    for (size_t i = 0; n && i < x->size / n; i++) of_row((real *)x->data + i / step * n * step + i % step, n, step);
}

/* The place of element (item, i, j) of an array whose axes broadcast to those of `like`, the last two excepted. */
static size_t place(const Array *a, const Array *like, size_t item, size_t i, size_t j) {
    size_t at = 0, step = 1, last[2] = {j, i};
    for (int k = 0; k < (a->rank > like->rank ? a->rank : like->rank); k++) {
        size_t own = k < a->rank ? a->shape[a->rank - 1 - k] : 1, all = k < like->rank ? like->shape[like->rank - 1 - k] : 1;
        if (k > 1 && own != 1 && own != all) stop(77, "an axis in front that the query has not: ", a->name);
        size_t index = k < 2 ? last[k] : item % all;
        if (k > 1) item /= all;
        at += own == 1 ? 0 : index * step;
        step *= own;
    }
    return at;
}

/* Output = softmax over the keys that may be attended to of (query . key / sqrt(d) + bias), times the values. */
static Array attention(void) {
    Array *query = need("input.query"), *key = need("input.key"), *value = need("input.value");
    Array *bias = find("input.bias"), *mask = find("option.mask"), output = *query;
    const real *q = query->data, *k = key->data, *v = value->data;
    size_t n = query->shape[query->rank - 2], d = query->shape[query->rank - 1];
    size_t m = key->shape[key->rank - 2], width = value->shape[value->rank - 1], items = n && d ? query->size / (n * d) : 0;
    real *scores = malloc((m + 1) * sizeof(real)), root = (real)sqrt(d);
    output.shape[output.rank - 1] = width;
    output.size = items * n * width;
    output.data = calloc(output.size + 1, sizeof(real));
    if (!strcmp(layer, "causal_attention")) after = 0;
    for (size_t row = 0; row < items * n; row++) {
        size_t item = row / n, i = row % n;
        real *o = (real *)output.data + row * width;
        for (size_t j = 0; j < m; j++) {
            int allowed = !mask || ((char *)mask->data)[place(mask, query, item, i, j)];
            scores[j] = 0;
            for (size_t l = 0; l < d && allowed; l++)
                scores[j] += q[place(query, query, item, i, l)] * k[place(key, query, item, j, l)];
            scores[j] = scores[j] / root + (bias ? ((real *)bias->data)[place(bias, query, item, i, j)] : 0);
            if (!allowed || (j > i && j - i > after) || (i > j && i - j > before)) scores[j] = -INFINITY;
        }
        softmax(scores, m, 1);
        for (size_t j = 0; j < m; j++) /* a hidden value may be NaN, and 0 times NaN is NaN */
            for (size_t l = 0; l < width && scores[j] != 0; l++) o[l] += scores[j] * v[place(value, query, item, j, l)];
    }
    free(scores);
    return output;
}

int main(int words, char **word) {
    char path[4096];
    Array output;
    if (words != 3) stop(2, "usage: layers CASE ANSWER", "");
    read_case(word[1]);
    if (strcmp(dtype, sizeof(real) == 4 ? "float32" : "float64")) stop(77, "compiled for ", NAME_OF(REAL));
    if (!strcmp(layer, "softmax") || !strcmp(layer, "layer_norm")) {
        output = *need("input.x");
        along(!strcmp(layer, "softmax") ? softmax : layer_norm, &output);
    } else if (!strcmp(layer, "attention") || !strcmp(layer, "causal_attention") || !strcmp(layer, "window_attention"))
        output = attention();
    else
        stop(77, "there is no ", layer);
    snprintf(path, sizeof path, "%s/output.bin", word[2]);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(output.data, sizeof(real), output.size, file) != output.size || fclose(file))
        stop(1, "cannot write ", path);
    return 0;
}
