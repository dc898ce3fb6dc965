/* Kernels like those of the NAS parallel benchmarks, in OpenMP, to record scaling curves of.
 *
 *   cc -O2 -fopenmp -o nas_like nas_like.c -lm && ./nas_like KERNEL THREADS
 *
 * Prints wall seconds and dedicated seconds.  The latter are what the program would take on as many
 * idle processors as it has threads: the CPU time of the serial parts, and of each parallel region
 * that of its slowest thread.  So curves can be recorded on fewer processors than threads, and beside
 * other load.  What they leave out: barriers, and the memory that processors share.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 256
static double spent[MOST], dedicated, serial_from;
static volatile double sink;

static double clock_s(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}
static double cpu(void) { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

static void serial_end(void) { dedicated += cpu() - serial_from; }
static void region_end(void) {
    double most = 0;
    for (int i = 0; i < omp_get_max_threads(); i++)
        most = fmax(most, spent[i]);
    dedicated += most;
    serial_from = cpu();
}
/* One parallel region; it holds work-sharing loops without a barrier. */
#define REGION(...)                                          \
    serial_end();                                            \
    _Pragma("omp parallel") {                                \
        double from = cpu();                                 \
        __VA_ARGS__ spent[omp_get_thread_num()] = cpu() - from; \
    }                                                        \
    region_end();

static double uniform(unsigned long long *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (*state >> 11) * (1.0 / 9007199254740992.0);
}

/* EP: pairs of random numbers to Gaussian deviates; nothing is exchanged. */
static void ep(void) {
    enum { BLOCKS = 1024, PAIRS = 20000 };
    double sum = 0;
    REGION(double own = 0; _Pragma("omp for schedule(static) nowait")
        for (int b = 0; b < BLOCKS; b++) {
            unsigned long long state = 271828183ULL + b;
            for (int i = 0; i < PAIRS; i++) {
                double x = 2 * uniform(&state) - 1, y = 2 * uniform(&state) - 1, t = x * x + y * y;
                if (t <= 1 && t > 0) own += fabs(x * sqrt(-2 * log(t) / t));
            }
        }
        _Pragma("omp atomic") sum += own;)
    sink = sum;
}

/* CG: a sparse matrix with rows of uneven length; vector updates in between are serial. */
static void cg(void) {
    enum { ROWS = 30000, MOST_IN_ROW = 80, STEPS = 150 };
    static int column[ROWS][MOST_IN_ROW], length[ROWS];
    static double x[ROWS], y[ROWS];
    unsigned long long state = 7;
    for (int i = 0; i < ROWS; i++) {
        length[i] = 8 + (int)(60 * pow(uniform(&state), 2));
        x[i] = 1;
        for (int j = 0; j < length[i]; j++) column[i][j] = (int)(uniform(&state) * ROWS);
    }
    serial_from = cpu();
    dedicated = 0;
    for (int step = 0; step < STEPS; step++) {
        REGION(_Pragma("omp for schedule(static) nowait") for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int j = 0; j < length[i]; j++) sum += x[column[i][j]];
            y[i] = sum / length[i];
        })
        double norm = 0;
        for (int i = 0; i < ROWS; i++) norm += y[i] * y[i];
        norm = 1 / sqrt(norm);
        for (int i = 0; i < ROWS; i++) x[i] = y[i] * norm;
    }
    sink = x[0];
}

/* MG: a seven-point stencil; 48 planes are dealt to the threads as wholes. */
static void mg(void) {
    enum { N = 96, PLANES = 48, STEPS = 200 };
    static double a[PLANES + 2][N + 2][N + 2], b[PLANES + 2][N + 2][N + 2];
    for (int step = 0; step < STEPS; step++) {
        REGION(_Pragma("omp for schedule(static) nowait") for (int i = 1; i <= PLANES; i++)
            for (int j = 1; j <= N; j++)
                for (int k = 1; k <= N; k++)
                    b[i][j][k] = (a[i - 1][j][k] + a[i + 1][j][k] + a[i][j - 1][k] + a[i][j + 1][k] +
                                  a[i][j][k - 1] + a[i][j][k + 1] + 1) / 7;)
        REGION(_Pragma("omp for schedule(static) nowait") for (int i = 1; i <= PLANES; i++)
            memcpy(a[i], b[i], sizeof a[i]);)
    }
    sink = a[1][1][1];
}

/* FT: transforms of all rows, then a transposition by one thread. */
static void transform(double *re, double *im, int n) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            double t = re[i]; re[i] = re[j]; re[j] = t;
            t = im[i]; im[i] = im[j]; im[j] = t;
        }
    }
    for (int half = 1; half < n; half *= 2)
        for (int k = 0; k < half; k++) {
            double c = cos(M_PI * k / half), s = -sin(M_PI * k / half);
            for (int i = k; i < n; i += 2 * half) {
                double r = re[i + half] * c - im[i + half] * s, m = re[i + half] * s + im[i + half] * c;
                re[i + half] = re[i] - r; im[i + half] = im[i] - m;
                re[i] += r; im[i] += m;
            }
        }
}
static void ft(void) {
    enum { N = 512, STEPS = 12 };
    static double re[N][N], im[N][N], other[N][N];
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) re[i][j] = (i * 31 + j * 17) % 101;
    serial_from = cpu();
    dedicated = 0;
    for (int step = 0; step < STEPS; step++) {
        REGION(_Pragma("omp for schedule(static) nowait") for (int i = 0; i < N; i++) {
            transform(re[i], im[i], N);
            for (int j = 0; j < N; j++) { re[i][j] /= 16; im[i][j] /= 16; }
        })
        for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) other[j][i] = re[i][j];
        memcpy(re, other, sizeof re);
    }
    sink = re[1][1];
}

/* LU: cells of a grid in the order of their diagonals, on which alone they are independent. */
static void lu(void) {
    enum { N = 48, WORK = 600, STEPS = 20 };
    static double a[N][N];
    for (int step = 0; step < STEPS; step++)
        for (int diagonal = 0; diagonal < 2 * N - 1; diagonal++) {
            int first = diagonal < N ? 0 : diagonal - N + 1, last = diagonal < N ? diagonal : N - 1;
            REGION(_Pragma("omp for schedule(static) nowait") for (int i = first; i <= last; i++) {
                int j = diagonal - i;
                double sum = (i ? a[i - 1][j] : 1) + (j ? a[i][j - 1] : 1);
                for (int w = 0; w < WORK; w++) sum = sqrt(sum + w);
                a[i][j] = sum;
            })
        }
    sink = a[N - 1][N - 1];
}

/* IS: keys into buckets; the counts of all threads are added up by one. */
static void is(void) {
    enum { KEYS = 1 << 21, BUCKETS = 1 << 14, STEPS = 40 };
    static int key[KEYS], count[MOST][BUCKETS], total[BUCKETS];
    unsigned long long state = 3;
    for (int i = 0; i < KEYS; i++) key[i] = (int)(uniform(&state) * BUCKETS);
    serial_from = cpu();
    dedicated = 0;
    for (int step = 0; step < STEPS; step++) {
        REGION(int *own = count[omp_get_thread_num()]; memset(own, 0, sizeof count[0]);
            _Pragma("omp for schedule(static) nowait") for (int i = 0; i < KEYS; i++) own[key[i]]++;)
        memset(total, 0, sizeof total);
        for (int t = 0; t < omp_get_max_threads(); t++)
            for (int b = 0; b < BUCKETS; b++) total[b] += count[t][b];
    }
    sink = total[1];
}

int main(int argc, char **argv) {
    struct { const char *name; void (*run)(void); } kernels[] = {
        {"ep", ep}, {"cg", cg}, {"mg", mg}, {"ft", ft}, {"lu", lu}, {"is", is}};
    int threads = argc == 3 ? atoi(argv[2]) : 0;
    for (size_t i = 0; threads > 0 && threads <= MOST && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(argv[1], kernels[i].name)) {
            omp_set_dynamic(0);
            omp_set_num_threads(threads);
#pragma omp parallel
            sink = 0; /* threads exist before the clock starts */
            double wall = clock_s(CLOCK_MONOTONIC);
            serial_from = cpu();
            kernels[i].run();
            serial_end();
            printf("%.6f %.6f\n", clock_s(CLOCK_MONOTONIC) - wall, dedicated);
            return 0;
        }
    fprintf(stderr, "usage: nas_like ep|cg|mg|ft|lu|is THREADS (1 to %d)\n", MOST);
    return 2;
}
