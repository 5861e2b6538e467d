/* Small MPI programs whose topology is known, and never told to MPI: `programs NAME`, see `main` at the end. They compute and exchange as such programs do;
   who sends to whom follows from coordinates that they work out from their ranks. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "recorder.h"

enum { N = 64, ITERATIONS = 4, MOST = 64 };

static int rank, size, n_neighbours, neighbours[MOST];
static double out[MOST][N], in[MOST][N];

/* Compute for about so many microseconds. */
static void busy(int microseconds)
{
    struct timespec t;
    volatile double x = 1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    long long end = t.tv_sec * 1000000000LL + t.tv_nsec + 1000LL * microseconds;
    do {
        for (int i = 0; i < 1000; i++)
            x = x * 0.999 + out[0][i % N];
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec * 1000000000LL + t.tv_nsec < end);
}

static void compute(const char *name, int microseconds)
{
    record_enter(name);
    busy(microseconds);
    record_leave();
}

static unsigned state;
static int random_below(int n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* Exchange halos with all neighbours, then reduce a residual. */
static void halo(void)
{
    MPI_Request requests[2 * MOST];
    double residual = 1, sum;
    for (int k = 0; k < ITERATIONS; k++) {
        record_enter("iteration");
        compute("relax", 50 + 10 * (rank % 3));
        for (int i = 0; i < n_neighbours; i++)
            MPI_Irecv(in[i], N, MPI_DOUBLE, neighbours[i], k, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < n_neighbours; i++)
            MPI_Isend(out[i], N, MPI_DOUBLE, neighbours[i], k, MPI_COMM_WORLD, &requests[n_neighbours + i]);
        MPI_Waitall(2 * n_neighbours, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        record_leave();
    }
}

/* Find the neighbours on a grid whose positions are counted row by row; position p is at rank order[p]. */
static void grid(const char *sizes, const char *periodic, const int *order)
{
    int n = strlen(sizes), at = rank, stride = 1;
    for (int p = 0; order && p < size; p++)
        if (order[p] == rank)
            at = p;
    for (int d = 0; d < n; d++)
        stride *= sizes[d] - '0';
    if (stride != size) {
        fprintf(stderr, "needs %d processes\n", stride);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int d = 0; d < n; d++) {
        int extent = sizes[d] - '0', wraps = periodic[d] == 'p';
        stride /= extent;
        int x = at / stride % extent;
        for (int step = -1; step <= 1; step += 2)
            if (wraps || (x + step >= 0 && x + step < extent)) {
                int to = at + ((x + step + extent) % extent - x) * stride;
                neighbours[n_neighbours++] = order ? order[to] : to;
            }
    }
}

/* Fill in numbers in a random order. */
static const int *shuffled(unsigned seed)
{
    static int order[1024];
    state = seed;
    for (int i = 0; i < size; i++) {
        int j = random_below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

/* Find the neighbours in a random graph of so many edges, which is the same for all processes. */
static void random_graph(unsigned seed, int n_edges)
{
    char has[MOST][MOST] = {{0}};
    state = seed;
    for (int k = 0; k < n_edges;) {
        int i = random_below(size), j = random_below(size);
        if (i != j && !has[i][j]) {
            has[i][j] = has[j][i] = 1;
            k++;
        }
    }
    for (int i = 0; i < size; i++)
        if (has[rank][i])
            neighbours[n_neighbours++] = i;
}

/* Shift blocks around a ring. */
static void ring(void)
{
    for (int k = 0; k < ITERATIONS; k++) {
        compute("multiply", 60 + 20 * (rank == 3));
        MPI_Sendrecv(out[0], N, MPI_DOUBLE, (rank + 1) % size, k, in[0], N, MPI_DOUBLE, (rank + size - 1) % size, k,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Pass blocks down a chain. */
static void chain(void)
{
    for (int k = 0; k < 2 * ITERATIONS; k++) {
        if (rank > 0)
            MPI_Recv(in[0], N, MPI_DOUBLE, rank - 1, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        compute("stage", 50);
        if (rank < size - 1)
            MPI_Send(out[0], N, MPI_DOUBLE, rank + 1, k, MPI_COMM_WORLD);
    }
}

/* Sweep over a grid of `width` columns from its four corners, in blocks. */
static void wavefront(int width)
{
    int x = rank % width, y = rank / width, height = size / width;
    for (int corner = 0; corner < 4; corner++) {
        int dx = corner & 1 ? -1 : 1, dy = corner & 2 ? -1 : 1;
        record_enter("sweep");
        for (int k = 0; k < ITERATIONS; k++) {
            if (x - dx >= 0 && x - dx < width)
                MPI_Recv(in[0], N, MPI_DOUBLE, rank - dx, corner, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (y - dy >= 0 && y - dy < height)
                MPI_Recv(in[1], N, MPI_DOUBLE, rank - dy * width, corner, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            compute("block", 50);
            if (x + dx >= 0 && x + dx < width)
                MPI_Send(out[0], N, MPI_DOUBLE, rank + dx, corner, MPI_COMM_WORLD);
            if (y + dy >= 0 && y + dy < height)
                MPI_Send(out[1], N, MPI_DOUBLE, rank + dy * width, corner, MPI_COMM_WORLD);
        }
        record_leave();
    }
}

/* Reduce by recursive doubling. */
static void doubling(void)
{
    for (int k = 0; k < ITERATIONS; k++) {
        compute("sum", 50 + 10 * (rank % 4));
        for (int bit = 1; bit < size; bit *= 2)
            MPI_Sendrecv(out[0], N, MPI_DOUBLE, rank ^ bit, bit, in[0], N, MPI_DOUBLE, rank ^ bit, bit, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    }
}

/* Reduce up a binary tree and send the result down again; ranks are counted level by level. */
static void binary_tree(void)
{
    for (int k = 0; k < ITERATIONS; k++) {
        compute("sum", 50 + 10 * (rank % 4));
        for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++)
            MPI_Recv(in[0], N, MPI_DOUBLE, child, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank > 0) {
            MPI_Send(out[0], N, MPI_DOUBLE, (rank - 1) / 2, k, MPI_COMM_WORLD);
            MPI_Recv(in[0], N, MPI_DOUBLE, (rank - 1) / 2, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; child++)
            MPI_Send(out[0], N, MPI_DOUBLE, child, k, MPI_COMM_WORLD);
    }
}

/* Reduce up a binomial tree. */
static void binomial_tree(void)
{
    for (int k = 0; k < ITERATIONS; k++) {
        compute("sum", 50 + 10 * (rank % 4));
        for (int bit = 1; bit < size; bit *= 2) {
            if (rank & bit) {
                MPI_Send(out[0], N, MPI_DOUBLE, rank - bit, k, MPI_COMM_WORLD);
                break;
            }
            if (rank + bit < size)
                MPI_Recv(in[0], N, MPI_DOUBLE, rank + bit, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* A master hands out tasks to whoever is idle. */
static void star(void)
{
    int task = 0, n_tasks = 5 * (size - 1), n_idle = 0;
    MPI_Status status;
    MPI_Bcast(out[0], N, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    while (rank == 0 && n_idle < size - 1) {
        MPI_Recv(in[0], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        int next = task < n_tasks ? task++ : -1;
        MPI_Send(&next, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
        n_idle += next < 0;
    }
    while (rank > 0 && task >= 0) {
        MPI_Send(out[0], 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task >= 0)
            compute("task", 40 + 13 * (task % 5));
    }
}

/* Parents spawn as many children, and give each of them work over the inter-communicator. */
static void spawn(char *program)
{
    MPI_Comm inter;
    char *arguments[] = {"spawn", "child", NULL};
    MPI_Comm_get_parent(&inter);
    int is_parent = inter == MPI_COMM_NULL;
    if (is_parent) {
        compute("prepare", 2000 + 3000 * rank);
        MPI_Comm_spawn(program, arguments, size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    } else
        compute("set_up", 1000 + 2000 * rank);
    for (int k = 0; k < ITERATIONS; k++) {
        if (is_parent)
            MPI_Send(out[0], N, MPI_DOUBLE, rank, k, inter);
        else
            MPI_Recv(in[0], N, MPI_DOUBLE, rank, k, inter, MPI_STATUS_IGNORE);
        compute(is_parent ? "meanwhile" : "work", is_parent ? 100 : 500);
        if (is_parent)
            MPI_Recv(in[0], N, MPI_DOUBLE, rank, k, inter, MPI_STATUS_IGNORE);
        else
            MPI_Send(out[0], N, MPI_DOUBLE, rank, k, inter);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_disconnect(&inter);
    if (is_parent)
        compute("evaluate", 1000);
}

int main(int argc, char **argv)
{
    static const struct { const char *name, *sizes, *periodic; int is_shuffled; } grids[] = {
        {"grid_2d", "43", "--", 0}, {"torus_2d", "53", "pp", 0}, {"cylinder", "44", "p-", 0}, {"grid_3d", "322", "---", 0},
        {"grid_4d", "2222", "----", 0}, {"grid_2d_shuffled", "43", "--", 1}, {"torus_2d_shuffled", "35", "pp", 1},
    };
    static const struct { const char *name; void (*run)(void); } others[] = {
        {"ring", ring}, {"chain", chain}, {"doubling", doubling}, {"binary_tree", binary_tree}, {"binomial_tree", binomial_tree}, {"star", star},
    };
    const char *name = argc > 1 ? argv[1] : "";
    if (argc > 2) /* a spawned process has something to do before it starts MPI */
        busy(20000);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned i = 0; i < sizeof grids / sizeof *grids; i++)
        if (!strcmp(name, grids[i].name)) {
            grid(grids[i].sizes, grids[i].periodic, grids[i].is_shuffled ? shuffled(7) : NULL);
            halo();
        }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i].name))
            others[i].run();
    if (!strcmp(name, "wavefront"))
        wavefront(4);
    if (!strcmp(name, "random_sparse") || !strcmp(name, "random_dense")) {
        random_graph(size, strcmp(name, "random_dense") ? size + 2 : 3 * size);
        halo();
    }
    if (!strcmp(name, "spawn"))
        spawn(argv[0]);
    MPI_Finalize();
    return 0;
}
