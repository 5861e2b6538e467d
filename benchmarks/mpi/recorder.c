/* Records what an MPI program does, through the profiling interface of MPI: link it with the program.

   Each process writes a plain text file $RECORD_FOLDER/WORLD.RANK (world 1 is that of spawned processes), an event per line: a letter, the time in
   nanoseconds of the machine's monotonic clock, and numbers. Communicators are 0 (MPI_COMM_WORLD) or 1 (the inter-communicator between the worlds).

     E time name                                   a call or region is entered
     L time                                        the one entered last is left
     S|R time peer tag length comm                 a message is sent, has been received
     I|J time peer tag length comm request         a nonblocking send is started, a nonblocking receive is complete
     P|D time request                              a nonblocking receive is posted, a nonblocking send is complete
     B time, C time operation root sent received   a collective operation on MPI_COMM_WORLD begins, ends (root -1: none)
     N|X time                                      the inter-communicator is created, destroyed */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "recorder.h"

#define MOST 1024

static FILE *file;
static long long begin_of_program;

/* what is known of requests that are not complete */
static struct pending { MPI_Request request; int is_send; MPI_Comm comm; } pending[MOST];

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((constructor)) static void begin(void) { begin_of_program = now(); }

static int number_of(MPI_Comm comm) { return comm != MPI_COMM_WORLD; }

static long long length_of(long long count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return count * size;
}

static long long received(const MPI_Status *status)
{
    int n;
    PMPI_Get_count((MPI_Status *)status, MPI_BYTE, &n);
    return n;
}

void record_enter(const char *name) { fprintf(file, "E %lld %s\n", now(), name); }
void record_leave(void) { fprintf(file, "L %lld\n", now()); }

static int remember(MPI_Request request, int is_send, MPI_Comm comm)
{
    for (int i = 0; i < MOST; i++)
        if (pending[i].comm == 0) {
            pending[i] = (struct pending){request, is_send, comm};
            return i;
        }
    fprintf(stderr, "more than %d requests are under way\n", MOST);
    abort();
}

static int find(MPI_Request request)
{
    for (int i = 0; i < MOST; i++)
        if (pending[i].comm != 0 && pending[i].request == request) {
            /* sends that are complete at once may share a handle */
            pending[i].request = MPI_REQUEST_NULL;
            return i;
        }
    abort();
}

static void complete(int i, const MPI_Status *s)
{
    if (pending[i].is_send)
        fprintf(file, "D %lld %d\n", now(), i);
    else
        fprintf(file, "J %lld %d %d %lld %d %d\n", now(), s->MPI_SOURCE, s->MPI_TAG, received(s), number_of(pending[i].comm), i);
    pending[i].comm = 0;
}

/* the file can be named only when MPI has started: the first events are kept until then */
static void start(long long begin)
{
    int rank;
    char path[4096];
    MPI_Comm parent;
    const char *folder = getenv("RECORD_FOLDER");
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_get_parent(&parent);
    snprintf(path, sizeof path, "%s/%d.%d", folder ? folder : ".", parent != MPI_COMM_NULL, rank);
    file = fopen(path, "w");
    if (!file) {
        perror(path);
        abort();
    }
    setvbuf(file, NULL, _IOFBF, 1 << 20);
    fprintf(file, "E %lld main\nE %lld MPI_Init\n", begin_of_program, begin);
    if (parent != MPI_COMM_NULL)
        fprintf(file, "N %lld\n", now());
    record_leave();
}

int MPI_Init(int *argc, char ***argv)
{
    long long begin = now();
    int e = PMPI_Init(argc, argv);
    start(begin);
    return e;
}

int MPI_Finalize(void)
{
    record_enter("MPI_Finalize");
    int e = PMPI_Finalize();
    record_leave();
    record_leave();
    fclose(file);
    return e;
}

int MPI_Send(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    record_enter("MPI_Send");
    fprintf(file, "S %lld %d %d %lld %d\n", now(), to, tag, length_of(n, type), number_of(comm));
    int e = PMPI_Send(data, n, type, to, tag, comm);
    record_leave();
    return e;
}

int MPI_Recv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status s;
    record_enter("MPI_Recv");
    int e = PMPI_Recv(data, n, type, from, tag, comm, &s);
    fprintf(file, "R %lld %d %d %lld %d\n", now(), s.MPI_SOURCE, s.MPI_TAG, received(&s), number_of(comm));
    if (status != MPI_STATUS_IGNORE)
        *status = s;
    record_leave();
    return e;
}

int MPI_Sendrecv(const void *out, int n_out, MPI_Datatype type_out, int to, int tag_out, void *in, int n_in,
                 MPI_Datatype type_in, int from, int tag_in, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status s;
    record_enter("MPI_Sendrecv");
    fprintf(file, "S %lld %d %d %lld %d\n", now(), to, tag_out, length_of(n_out, type_out), number_of(comm));
    int e = PMPI_Sendrecv(out, n_out, type_out, to, tag_out, in, n_in, type_in, from, tag_in, comm, &s);
    fprintf(file, "R %lld %d %d %lld %d\n", now(), s.MPI_SOURCE, s.MPI_TAG, received(&s), number_of(comm));
    if (status != MPI_STATUS_IGNORE)
        *status = s;
    record_leave();
    return e;
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    record_enter("MPI_Isend");
    long long begin = now();
    int e = PMPI_Isend(data, n, type, to, tag, comm, request);
    int i = remember(*request, 1, comm);
    fprintf(file, "I %lld %d %d %lld %d %d\n", begin, to, tag, length_of(n, type), number_of(comm), i);
    record_leave();
    return e;
}

int MPI_Irecv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    record_enter("MPI_Irecv");
    int e = PMPI_Irecv(data, n, type, from, tag, comm, request);
    fprintf(file, "P %lld %d\n", now(), remember(*request, 0, comm));
    record_leave();
    return e;
}

int MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses)
{
    MPI_Status s[MOST];
    int of[MOST];
    record_enter("MPI_Waitall");
    for (int i = 0; i < n; i++)
        of[i] = find(requests[i]);
    int e = PMPI_Waitall(n, requests, s);
    for (int i = 0; i < n; i++) {
        complete(of[i], &s[i]);
        if (statuses != MPI_STATUSES_IGNORE)
            statuses[i] = s[i];
    }
    record_leave();
    return e;
}

static void end_collective(const char *operation, int root, long long sent, long long got)
{
    fprintf(file, "C %lld %s %d %lld %lld\n", now(), operation, root, sent, got);
    record_leave();
}

static void begin_collective(const char *name)
{
    record_enter(name);
    fprintf(file, "B %lld\n", now());
}

int MPI_Barrier(MPI_Comm comm)
{
    begin_collective("MPI_Barrier");
    int e = PMPI_Barrier(comm);
    end_collective("barrier", -1, 0, 0);
    return e;
}

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int size;
    PMPI_Comm_size(comm, &size);
    begin_collective("MPI_Allreduce");
    int e = PMPI_Allreduce(in, out, n, type, op, comm);
    end_collective("allreduce", -1, size * length_of(n, type), size * length_of(n, type));
    return e;
}

int MPI_Bcast(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    int rank, size;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    begin_collective("MPI_Bcast");
    int e = PMPI_Bcast(data, n, type, root, comm);
    end_collective("bcast", root, rank == root ? size * length_of(n, type) : 0, length_of(n, type));
    return e;
}

int MPI_Comm_spawn(const char *command, char **argv, int n, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *inter, int *errors)
{
    record_enter("MPI_Comm_spawn");
    int e = PMPI_Comm_spawn(command, argv, n, info, root, comm, inter, errors);
    fprintf(file, "N %lld\n", now());
    record_leave();
    return e;
}

int MPI_Comm_get_parent(MPI_Comm *parent)
{
    record_enter("MPI_Comm_get_parent");
    int e = PMPI_Comm_get_parent(parent);
    record_leave();
    return e;
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    record_enter("MPI_Comm_disconnect");
    fprintf(file, "X %lld\n", now());
    int e = PMPI_Comm_disconnect(comm);
    record_leave();
    return e;
}
