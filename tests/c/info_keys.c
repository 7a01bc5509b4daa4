/* Settings of ferrorail for one communicator, by info keys: given, given to duplicates, replaced,
 * merged, taken back, wrong, different on the ranks, changed between collectives that late ranks have
 * not left yet, off and on again, and changed many times. Each all-gather whose way matters has a
 * size class of its own; after MPI_Finalize rank 0 looks into the statistics (FERRORAIL_STATS) which algorithm ran it on
 * how many nodes, if several ranks ran.
 *
 *     mpirun -n P info_keys [changes, default 60]
 */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

/* What has to be in the statistics; no algorithm where none was forced. */
typedef struct {
    const char *what, *algorithm;
    int nodes;
} row_t;

enum { ROWS = 20 };
static row_t rows[ROWS];
static int row_count, rank, ranks, process_nodes;
static uint64_t (*forwarded)(const char *);

static int nodes_of(int node_size)
{
    return node_size == 0 ? 1 : (ranks + node_size - 1) / node_size;
}

/* All-gather of `bytes` from each. */
static void gather(MPI_Comm comm, size_t bytes)
{
    static long round;
    unsigned char *mine = must(malloc(bytes)), *all = must(malloc(bytes * (size_t)ranks));
    fill(mine, bytes, ++round, rank);
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm);
    for (int peer = 0; peer < ranks; peer++)
        expect_pattern(all + bytes * (size_t)peer, bytes, round, peer);
    free(mine);
    free(all);
}

/* The next all-gather runs on `comm`, and has to run like that. */
static void runs(MPI_Comm comm, const char *what, const char *algorithm, int nodes)
{
    snprintf(context, sizeof context, "%s", what);
    rows[row_count] = (row_t){what, algorithm, nodes};
    gather(comm, (size_t)2 << row_count++);
}

/* An info of one or two keys; no second one if that is NULL. */
static MPI_Info info_of(const char *key, const char *value, const char *key2, const char *value2)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    if (key2 != NULL)
        MPI_Info_set(info, key2, value2);
    return info;
}

static void set(MPI_Comm comm, const char *key, const char *value)
{
    MPI_Info info = info_of(key, value, NULL, NULL);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
}

static void inherited(MPI_Comm comm)
{
    MPI_Comm other;
    MPI_Request request;
    MPI_Info info = info_of("ferrorail_algorithm", "allgather=bruck", NULL, NULL);
    MPI_Comm_dup(comm, &other);
    runs(other, "a duplicate", "ring", ranks);
    MPI_Comm_free(&other);
    MPI_Comm_idup(comm, &other, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    runs(other, "a duplicate made meanwhile", "ring", ranks);
    MPI_Comm_free(&other);
    MPI_Comm_dup_with_info(comm, info, &other);
    runs(other, "a duplicate with keys of its own", "bruck", process_nodes);
    MPI_Comm_free(&other);
    /* Open MPI 4 has none. */
    int (*idup_with_info)(MPI_Comm, MPI_Info, MPI_Comm *, MPI_Request *) =
        dlsym(RTLD_DEFAULT, "MPI_Comm_idup_with_info");
    if (idup_with_info != NULL) {
        idup_with_info(comm, info, &other, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        runs(other, "a duplicate with keys of its own made meanwhile", "bruck", process_nodes);
        MPI_Comm_free(&other);
    }
    MPI_Info_free(&info);
    MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &other);
    runs(other, "a duplicate without info", NULL, process_nodes);
    MPI_Comm_free(&other);
    MPI_Comm_split(comm, 0, rank, &other);
    runs(other, "a split", NULL, process_nodes);
    MPI_Comm_free(&other);
}

static void changed(MPI_Comm comm)
{
    set(comm, "ferrorail_algorithm", "allgather=bruck");
    runs(comm, "merged", "bruck", ranks);
    set(comm, "ferrorail_node_size", " "); /* Open MPI takes no empty value */
    runs(comm, "taken back", "bruck", process_nodes);
    set(comm, "ferrorail_node_size", "many");
    set(comm, "ferrorail_algorithm", "allgather=nonsense");
    set(comm, "ferrorail_fabrik", "verbs");
    set(comm, "ferrorail_log", "debug");
    set(comm, "no_key_of_ferrorail", "2");
    runs(comm, "wrong keys", "bruck", process_nodes);
    set(comm, "ferrorail_algorithm", rank == 0 ? "allgather=direct" : "allgather=ring");
    runs(comm, "different values", "direct", process_nodes);
    if (rank == ranks - 1 && rank != 0)
        set(comm, "ferrorail_node_size", "1");
    else
        set(comm, "some_hint", "1");
    runs(comm, "a key on the last rank alone", "direct", process_nodes);
}

/* Roots and senders run ahead of late ranks, and are at the change before those have what they sent. */
static void in_flight(MPI_Comm comm)
{
    const char *const sizes[] = {"1", "0", "2"};
    snprintf(context, sizeof context, "changed in flight");
    for (int i = 0; i < 12; i++) {
        long wrong = 0;
        for (long j = 0; j < 30; j++) {
            long value = rank == i % ranks ? 1000 * i + j : -1;
            if (rank == (i + 1) % ranks && j == 5)
                usleep(3000);
            MPI_Bcast(&value, 1, MPI_LONG, i % ranks, comm);
            wrong += value != 1000 * i + j;
        }
        expect(wrong == 0, "wrong broadcasts", wrong, i);
        set(comm, "ferrorail_node_size", sizes[i % 3]);
    }
    gather(comm, 1);
}

static void off_and_on(MPI_Comm comm)
{
    uint64_t before = forwarded ? forwarded("allgather") : 0;
    snprintf(context, sizeof context, "off and on");
    for (int i = 0; i < 3; i++) {
        set(comm, "ferrorail_enable", "0");
        gather(comm, 1);
        set(comm, "some_hint", "2");
        gather(comm, 1);
        set(comm, "ferrorail_enable", "1");
        gather(comm, 1);
    }
    long left = forwarded ? (long)(forwarded("allgather") - before) : 6;
    expect(left == 6, "calls left to the host", left, 6);
}

static long entries(const char *folder)
{
    long count = 0;
    DIR *open = opendir(folder);
    while (open != NULL && readdir(open) != NULL)
        count++;
    if (open != NULL)
        closedir(open);
    return count;
}

static void many(MPI_Comm comm, int changes)
{
    long files = 0, maps = 0;
    snprintf(context, sizeof context, "many changes");
    for (int i = 0; i < 2000; i++)
        set(i % 2 ? comm : MPI_COMM_SELF, "ferrorail_zero_copy", i % 4 < 2 ? "off" : "auto");
    for (int i = 0; i < changes; i++) {
        set(comm, "ferrorail_node_size", i % 2 ? "1" : "2");
        gather(comm, 1);
        if (i == changes / 2) {
            files = entries("/proc/self/fd");
            maps = entries("/proc/self/map_files");
        }
    }
    long more = entries("/proc/self/fd") - files, mapped = entries("/proc/self/map_files") - maps;
    expect(more <= 8 && mapped <= 40, "open files and mappings grow by", more, mapped);
}

/* Whether `name` is `value` in the row from `row` to `end`. */
static int has(const char *row, const char *end, const char *name, const char *value)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "\"%s\": %s", name, value);
    const char *at = strstr(row, wanted);
    char next = at != NULL ? at[strlen(wanted)] : 0;
    return at != NULL && at < end && (next == ',' || next == '\n' || next == ' ');
}

static void look_for(const char *text, const row_t *row, int class)
{
    char size[32], all[32], nodes[32], algorithm[64];
    snprintf(size, sizeof size, "%ld", 2L << class);
    snprintf(all, sizeof all, "%d", ranks);
    snprintf(nodes, sizeof nodes, "%d", row->nodes);
    snprintf(algorithm, sizeof algorithm, "\"%s\"", row->algorithm ? row->algorithm : "");
    int found = 0, other = 0;
    for (const char *at = strstr(text, "\"collective\""); at != NULL;) {
        const char *end = strchr(at, '}');
        if (end == NULL)
            break;
        if (has(at, end, "collective", "\"allgather\"") && has(at, end, "size_class_bytes", size)) {
            int forced = has(at, end, "chosen_by", "\"forced\"");
            int right = row->algorithm ? forced && has(at, end, "algorithm", algorithm) : !forced;
            right = right && has(at, end, "ranks", all) && has(at, end, "nodes", nodes);
            found += right;
            other += !right;
        }
        at = strstr(end, "\"collective\"");
    }
    if (found != 1 || other != 0) {
        failures++;
        fprintf(stderr, "%s: not %s on %d nodes (size class %s)\n", row->what,
                row->algorithm ? row->algorithm : "chosen freely", row->nodes, size);
    }
}

/* On rank 0 after MPI_Finalize, which writes them. */
static void look_at_statistics(void)
{
    const char *path = getenv("FERRORAIL_STATS");
    FILE *file = forwarded && path && ranks > 1 ? fopen(path, "r") : NULL;
    if (file == NULL)
        return;
    enum { BYTES_MAX = 1 << 20 };
    char *text = calloc(BYTES_MAX, 1);
    if (text != NULL && fread(text, 1, BYTES_MAX - 1, file) > 0)
        for (int i = 0; i < row_count; i++)
            look_for(text, &rows[i], i);
    free(text);
    fclose(file);
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    long sum;
    const char *node_size = getenv("FERRORAIL_NODE_SIZE");
    *(void **)&forwarded = dlsym(RTLD_DEFAULT, "ferrorail_forwarded");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    process_nodes = nodes_of(node_size ? atoi(node_size) : 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    runs(comm, "before", NULL, process_nodes);
    MPI_Info both = info_of("ferrorail_algorithm", "allgather=ring", "ferrorail_node_size", "1");
    MPI_Comm_set_info(comm, both);
    MPI_Info_free(&both);
    runs(comm, "given", "ring", ranks);
    inherited(comm);
    changed(comm);
    in_flight(comm);
    if (ranks > 1) /* else there is nothing to switch off */
        off_and_on(comm);
    many(comm, argc > 1 ? atoi(argv[1]) : 60);
    MPI_Comm_free(&comm);
    set(MPI_COMM_WORLD, "ferrorail_algorithm", "allgather=ring");
    runs(MPI_COMM_WORLD, "the world", "ring", process_nodes);
    set(MPI_COMM_WORLD, "ferrorail_algorithm", " ");
    runs(MPI_COMM_WORLD, "the world as before", NULL, process_nodes);
    PMPI_Allreduce(&failures, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    failures = sum;
    MPI_Finalize();
    if (rank == 0) {
        look_at_statistics();
        printf("info_keys ranks=%d checks=%ld failures=%ld ok=%s\n", ranks, checks, failures,
               failures == 0 ? "yes" : "no");
    }
    return failures == 0 ? 0 : 1;
}
