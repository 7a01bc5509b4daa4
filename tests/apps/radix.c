/* Parallel radix sort in the style of the SPLASH RADIX kernel: every rank holds a block of n keys;
 * each pass counts one digit locally, exchanges the histograms with MPI_Allgather (1024 counters of
 * 4 bytes: 4 KB per rank for the default 10-bit digit), computes where every key belongs, and moves
 * the keys: with MPI_Alltoallv, or with -k p2p by one message to each rank that gets any. The same seed
 * gives the same keys and so the same output.
 *
 *     mpirun -n P radix [-n keys per rank] [-s sorts] [-r digit bits] [-x seed] [-k alltoallv|p2p]
 *
 * Prints one line of name=value pairs on rank 0, seconds of the slowest rank; exits with 1 if a result is
 * wrong.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS = 30, MAX_DIGIT_BITS = 16 };

typedef struct {
    int rank, ranks;
    size_t keys_per_rank;
    int sorts, digit_bits, p2p;
    uint64_t seed;
    /* Work space, reused by every pass. */
    uint32_t *keys, *sent, *received;
    uint32_t *histograms; /* one row of 1 << digit_bits counters per rank */
    int *send_counts, *send_starts, *receive_counts, *receive_starts;
    MPI_Request *requests; /* two for each rank */
    MPI_Status *statuses;
    /* Measurements. */
    long allgather_calls;
    double allgather_seconds, communication_seconds;
} job_t;

typedef struct {
    uint64_t sum, exclusive_or, count;
} checksum_t;

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (memory == NULL) {
        fprintf(stderr, "radix: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void fill(job_t *job, int sort)
{
    uint64_t state = job->seed + (uint64_t)sort * 1000003u + (uint64_t)job->rank * 7919u;
    for (size_t i = 0; i < job->keys_per_rank; i++)
        job->keys[i] = (uint32_t)(next_random(&state) >> (64 - KEY_BITS));
}

static checksum_t checksum(const uint32_t *keys, size_t count)
{
    checksum_t sum = {0, 0, count};
    for (size_t i = 0; i < count; i++) {
        sum.sum += keys[i];
        /* Spread the key, so that duplicated pairs do not cancel the same bits. */
        sum.exclusive_or ^= (keys[i] + 1) * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

static void exchange_histograms(job_t *job, const uint32_t *mine, int digits)
{
    double start = MPI_Wtime();
    MPI_Allgather(mine, digits, MPI_UINT32_T, job->histograms, digits, MPI_UINT32_T,
                  MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    job->allgather_calls++;
    job->allgather_seconds += seconds;
    job->communication_seconds += seconds;
}

/* Sorts the own keys by the digit, keeping their order within one digit. */
static void order_by_digit(job_t *job, int shift, const uint32_t *counts, int digits)
{
    size_t *next = allocate((size_t)digits, sizeof *next);
    for (int d = 1; d < digits; d++)
        next[d] = next[d - 1] + counts[d - 1];
    for (size_t i = 0; i < job->keys_per_rank; i++) {
        uint32_t digit = (job->keys[i] >> shift) & (uint32_t)(digits - 1);
        job->sent[next[digit]++] = job->keys[i];
    }
    free(next);
}

/* Length of the part of [start, start + count) that lies in the block of `rank`. */
static size_t overlap(const job_t *job, size_t start, size_t count, int rank, size_t *from)
{
    size_t low = (size_t)rank * job->keys_per_rank, high = low + job->keys_per_rank;
    size_t end = start + count;
    *from = start > low ? start : low;
    if (end > high)
        end = high;
    return end > *from ? end - *from : 0;
}

/* Calls of this function visit every (digit, source rank) in the global order of the keys. */
typedef void visit_t(job_t *job, int source, size_t start, size_t count);

static void walk(job_t *job, int digits, visit_t *visit)
{
    size_t start = 0;
    for (int d = 0; d < digits; d++) {
        for (int source = 0; source < job->ranks; source++) {
            size_t count = job->histograms[(size_t)source * (size_t)digits + (size_t)d];
            if (count > 0)
                visit(job, source, start, count);
            start += count;
        }
    }
}

static void count_exchange(job_t *job, int source, size_t start, size_t count)
{
    size_t from;
    job->receive_counts[source] += (int)overlap(job, start, count, job->rank, &from);
    if (source != job->rank)
        return;
    int first = (int)(start / job->keys_per_rank);
    int last = (int)((start + count - 1) / job->keys_per_rank);
    for (int target = first; target <= last; target++)
        job->send_counts[target] += (int)overlap(job, start, count, target, &from);
}

/* Takes the next keys that `source` sent to their place in the own block. */
static void place(job_t *job, int source, size_t start, size_t count)
{
    size_t from;
    size_t length = overlap(job, start, count, job->rank, &from);
    if (length == 0)
        return;
    size_t offset = from - (size_t)job->rank * job->keys_per_rank;
    memcpy(job->keys + offset, job->received + job->receive_starts[source],
           length * sizeof *job->keys);
    job->receive_starts[source] += (int)length;
}

/* The same as MPI_Alltoallv, in messages between the pairs that have keys for each other. */
static void exchange_keys(job_t *job)
{
    int count = 0;
    for (int i = 0; i < job->ranks; i++) {
        int source = (job->rank + i) % job->ranks;
        if (source != job->rank && job->receive_counts[source] > 0)
            MPI_Irecv(job->received + job->receive_starts[source], job->receive_counts[source],
                      MPI_UINT32_T, source, 0, MPI_COMM_WORLD, &job->requests[count++]);
    }
    for (int i = 0; i < job->ranks; i++) {
        int target = (job->rank + i) % job->ranks;
        if (target != job->rank && job->send_counts[target] > 0)
            MPI_Isend(job->sent + job->send_starts[target], job->send_counts[target], MPI_UINT32_T,
                      target, 0, MPI_COMM_WORLD, &job->requests[count++]);
    }
    memcpy(job->received + job->receive_starts[job->rank],
           job->sent + job->send_starts[job->rank],
           (size_t)job->send_counts[job->rank] * sizeof *job->sent);
    MPI_Waitall(count, job->requests, job->statuses);
}

static void move_keys(job_t *job, int digits)
{
    size_t row = (size_t)job->ranks * sizeof(int);
    memset(job->send_counts, 0, row);
    memset(job->receive_counts, 0, row);
    walk(job, digits, count_exchange);
    job->send_starts[0] = job->receive_starts[0] = 0;
    for (int i = 1; i < job->ranks; i++) {
        job->send_starts[i] = job->send_starts[i - 1] + job->send_counts[i - 1];
        job->receive_starts[i] = job->receive_starts[i - 1] + job->receive_counts[i - 1];
    }
    double start = MPI_Wtime();
    if (job->p2p)
        exchange_keys(job);
    else
        MPI_Alltoallv(job->sent, job->send_counts, job->send_starts, MPI_UINT32_T, job->received,
                      job->receive_counts, job->receive_starts, MPI_UINT32_T, MPI_COMM_WORLD);
    job->communication_seconds += MPI_Wtime() - start;
    walk(job, digits, place);
}

static void sort(job_t *job)
{
    for (int shift = 0; shift < KEY_BITS; shift += job->digit_bits) {
        int digits = 1 << job->digit_bits;
        uint32_t *counts = allocate((size_t)digits, sizeof *counts);
        for (size_t i = 0; i < job->keys_per_rank; i++)
            counts[(job->keys[i] >> shift) & (uint32_t)(digits - 1)]++;
        exchange_histograms(job, counts, digits);
        order_by_digit(job, shift, counts, digits);
        move_keys(job, digits);
        free(counts);
    }
}

/* Whether all keys ascend over all ranks and are those of the input. */
static int verify(const job_t *job, checksum_t before)
{
    size_t n = job->keys_per_rank;
    int wrong = 0;
    for (size_t i = 1; i < n; i++)
        wrong |= job->keys[i - 1] > job->keys[i];
    int right = job->rank + 1 < job->ranks ? job->rank + 1 : MPI_PROC_NULL;
    int left = job->rank > 0 ? job->rank - 1 : MPI_PROC_NULL;
    uint32_t last = job->keys[n - 1], previous = 0;
    MPI_Sendrecv(&last, 1, MPI_UINT32_T, right, 0, &previous, 1, MPI_UINT32_T, left, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong |= previous > job->keys[0];
    checksum_t after = checksum(job->keys, n);
    uint64_t sums[4] = {before.sum, after.sum, before.count, after.count}, total[4];
    uint64_t bits[2] = {before.exclusive_or, after.exclusive_or}, all[2];
    int any;
    MPI_Allreduce(sums, total, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(bits, all, 2, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    wrong |= total[0] != total[1] || total[2] != total[3] || all[0] != all[1];
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    return !any;
}

/* Continues a hash that depends on every key and on their order over all ranks. */
static uint64_t hash_output(const job_t *job, uint64_t hash)
{
    uint64_t mine = 0xcbf29ce484222325u;
    for (size_t i = 0; i < job->keys_per_rank; i++)
        mine = (mine ^ job->keys[i]) * 0x100000001b3u;
    uint64_t *all = allocate((size_t)job->ranks, sizeof *all);
    MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; i < job->ranks; i++)
        hash = (hash ^ all[i]) * 0x100000001b3u;
    free(all);
    return hash;
}

static void read_arguments(job_t *job, int argc, char **argv)
{
    job->keys_per_rank = 131072;
    job->sorts = 8;
    job->digit_bits = 10;
    job->seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long value = strtoul(argv[i + 1], NULL, 10);
        switch (argv[i][0] == '-' ? argv[i][1] : 0) {
        case 'n': job->keys_per_rank = value; break;
        case 's': job->sorts = (int)value; break;
        case 'r': job->digit_bits = (int)value; break;
        case 'x': job->seed = value; break;
        case 'k':
            job->p2p = strcmp(argv[i + 1], "p2p") == 0;
            if (!job->p2p && strcmp(argv[i + 1], "alltoallv") != 0)
                argc = 0;
            break;
        default: argc = 0; break;
        }
    }
    int sound = argc % 2 == 1 && job->keys_per_rank > 0 && job->sorts > 0 &&
                job->digit_bits > 0 && job->digit_bits <= MAX_DIGIT_BITS &&
                job->keys_per_rank * (size_t)job->ranks <= INT32_MAX;
    if (!sound) {
        if (job->rank == 0)
            fprintf(stderr, "usage: radix [-n keys per rank] [-s sorts] [-r digit bits] [-x seed] "
                            "[-k alltoallv|p2p]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void prepare(job_t *job)
{
    size_t ranks = (size_t)job->ranks, n = job->keys_per_rank;
    job->keys = allocate(n, sizeof *job->keys);
    job->sent = allocate(n, sizeof *job->sent);
    job->received = allocate(n, sizeof *job->received);
    job->histograms = allocate(ranks << job->digit_bits, sizeof *job->histograms);
    job->send_counts = allocate(ranks, sizeof(int));
    job->send_starts = allocate(ranks, sizeof(int));
    job->receive_counts = allocate(ranks, sizeof(int));
    job->receive_starts = allocate(ranks, sizeof(int));
    job->requests = allocate(2 * ranks, sizeof *job->requests);
    job->statuses = allocate(2 * ranks, sizeof *job->statuses);
}

int main(int argc, char **argv)
{
    job_t job = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    read_arguments(&job, argc, argv);
    prepare(&job);
    double total = 0;
    uint64_t hash = 0xcbf29ce484222325u;
    int right = 1;
    for (int s = 0; s < job.sorts; s++) {
        fill(&job, s);
        checksum_t before = checksum(job.keys, job.keys_per_rank);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        sort(&job);
        total += MPI_Wtime() - start;
        right = right && verify(&job, before);
        hash = hash_output(&job, hash);
    }
    double mine[3] = {job.allgather_seconds, job.communication_seconds, total}, slowest[3];
    MPI_Reduce(mine, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (job.rank == 0)
        printf("keys=%zu ranks=%d sorts=%d allgather_calls=%ld allgather_bytes=%zu "
               "allgather_seconds=%.6f communication_seconds=%.6f total_seconds=%.6f "
               "sorted=%s output_hash=%016llx\n",
               job.keys_per_rank * (size_t)job.ranks * (size_t)job.sorts, job.ranks, job.sorts,
               job.allgather_calls, sizeof(uint32_t) << job.digit_bits, slowest[0],
               slowest[1], slowest[2], right ? "yes" : "no", (unsigned long long)hash);
    MPI_Finalize();
    return right ? 0 : 1;
}
