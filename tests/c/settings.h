/* Lets a program go through many settings of ferrorail in one job: it does its work on `world`, a
 * communicator that has the present ones, once for each round of `while (next_settings())`.
 *
 * The environment variable TEST_SETTINGS has the settings of the rounds, separated by `;`, each a list
 * of info keys: `ferrorail_algorithm=allgather=ring ferrorail_node_size=2; ferrorail_node_size=1`.
 * Without it there is one round, on MPI_COMM_WORLD itself. Without ferrorail they mean nothing. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <ctype.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm world = MPI_COMM_NULL;

/* Info keys of the present round; none without TEST_SETTINGS. */
static MPI_Info settings_info = MPI_INFO_NULL;

/* Rank 0's TEST_SETTINGS on all ranks, or NULL; a launcher may hand it to some ranks only. Calls
 * PMPI_* functions, which ferrorail does not count. */
static inline char *settings_text(void)
{
    const char *text = getenv("TEST_SETTINGS");
    int bytes = text == NULL ? 0 : (int)strlen(text);
    PMPI_Bcast(&bytes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (bytes == 0)
        return NULL;
    char *all = calloc((size_t)bytes + 1, 1);
    if (all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (text != NULL)
        strncpy(all, text, (size_t)bytes);
    PMPI_Bcast(all, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    return all;
}

/* Makes info keys of `text`, which is taken apart. */
static inline void parse_settings(char *text)
{
    MPI_Info_create(&settings_info);
    while (*text != '\0') {
        size_t word = strcspn(text, " \t\n"), key = strcspn(text, "= \t\n");
        char *next = text + word + (text[word] != '\0');
        text[word] = '\0';
        if (key < word) {
            text[key] = '\0';
            MPI_Info_set(settings_info, text, text + key + 1);
        } else if (word > 0) {
            fprintf(stderr, "TEST_SETTINGS: %s is not of the form key=value\n", text);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        text = next;
    }
}

/* The next round: whether there is one. */
static int next_settings(void)
{
    static char *all, *rest;
    static int started;
    int rank;
    if (!started) {
        started = 1;
        rest = all = settings_text();
        if (all == NULL) {
            world = MPI_COMM_WORLD;
            return 1;
        }
    } else if (all != NULL) {
        MPI_Comm_free(&world);
        MPI_Info_free(&settings_info);
    }
    if (rest == NULL || *rest == '\0') {
        free(all);
        all = rest = NULL;
        world = MPI_COMM_NULL;
        return 0;
    }
    char *own = rest;
    rest += strcspn(own, ";");
    if (*rest != '\0')
        *rest++ = '\0';
    while (isspace((unsigned char)*own))
        own++;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("settings: %s\n", own);
        fflush(stdout);
    }
    parse_settings(own);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_info(world, settings_info);
    return 1;
}

/* Gives the present settings to a communicator that was split from `world`, or to none. */
static inline MPI_Comm within(MPI_Comm comm)
{
    if (settings_info != MPI_INFO_NULL && comm != MPI_COMM_NULL)
        MPI_Comm_set_info(comm, settings_info);
    return comm;
}

#endif
