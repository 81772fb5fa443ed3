/*
 * sim/main.c - plays schedules: sim [--seed N | --from N --count N] [--verbose] [--digest]
 *
 * A range is played in a child process, so that a crash or a loop without end becomes
 * one line that names the seed. --seed plays one in this process, for a debugger.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sim.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_COUNT 20000
#define LONGEST_SCHEDULE 120 /* seconds: then it hangs */
#define ENOUGH 2000          /* schedules, in which each kind of thing has happened */
#define REPEAT_EVERY 50      /* schedules of which one is played twice */

/* What the parent sees of its child. */
typedef struct shared {
    sim_trace trace;
    sim_totals totals;
    uint64_t digest; /* of all schedules */
} shared;

typedef struct options {
    uint64_t from, count;
    bool alone, verbose, digest;
} options;

static void play_range(const options *o, shared *all)
{
    for (uint64_t seed = o->from; seed < o->from + o->count; seed++) {
        alarm(LONGEST_SCHEDULE);
        sim_play(seed, &all->trace, &all->totals);
        uint64_t digest = all->trace.digest;
        all->digest = rng_mix(all->digest + digest);
        if (o->digest)
            printf("%" PRIu64 " %016" PRIx64 "\n", seed, digest);
        if (seed % REPEAT_EVERY || o->verbose)
            continue;
        sim_totals unused = {0};
        sim_play(seed, &all->trace, &unused);
        if (all->trace.digest != digest) {
            fprintf(stderr, "seed %" PRIu64 " does not repeat\n", seed);
            exit(1);
        }
    }
}

#define N "%" PRIu64

static void print_totals(const sim_totals *t, uint64_t digest)
{
    printf(N " schedules, " N " turns: " N " completed, " N " incomplete, " N " cancelled, " N
             " failed, " N " refused, " N " of them by their key\n",
           t->schedules, t->turns, t->completed, t->incomplete, t->cancelled, t->failed, t->refused,
           t->key_full);
    printf(N " passes, " N " tokens, " N " forks, " N " tokens reused, " N " recomputed, " N
             " demoted, " N " rounds with a late batch class\n",
           t->passes, t->tokens, t->forks, t->reused, t->recomputed, t->demoted, t->raised);
    printf(N " refusals, " N " faults, " N " shutdowns, digest %016" PRIx64 "\n", t->refusals,
           t->faults, t->shutdowns, digest);
}

#undef N

/* A simulation in which nothing happens finds nothing. */
static int check_totals(const sim_totals *t)
{
    bool all = t->completed && t->incomplete && t->cancelled && t->failed && t->refused &&
               t->forks && t->reused && t->refusals && t->faults && t->shutdowns && t->busy_store &&
               t->recomputed && t->key_full && t->demoted && t->raised;
    if (all || t->schedules < ENOUGH)
        return 0;
    fprintf(stderr, "one kind of thing has never happened: the simulation has become blind\n");
    return 1;
}

static int play_in_child(const options *o, shared *all)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) {
        play_range(o, all);
        exit(0); /* leaks are looked for here */
    }
    if (waitpid(child, &status, 0) < 0) {
        perror("waitpid");
        return 1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        print_totals(&all->totals, all->digest);
        return check_totals(&all->totals);
    }
    if (!all->trace.reported) {
        if (WIFSIGNALED(status))
            fprintf(stderr, "seed %" PRIu64 ": %s\n", all->trace.seed, strsignal(WTERMSIG(status)));
        trace_report(&all->trace);
    }
    return 1;
}

static bool number(const char *text, uint64_t *value)
{
    char *end;
    *value = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool read_options(int argc, char **argv, options *o)
{
    const char *seeds = getenv("PAWL_SIM_SEEDS");
    *o = (options){.from = 1, .count = DEFAULT_COUNT};
    if (seeds && *seeds && !number(seeds, &o->count))
        return false;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--verbose") == 0) {
            o->verbose = true;
        } else if (strcmp(argv[i], "--digest") == 0) {
            o->digest = true;
        } else if (strcmp(argv[i], "--seed") == 0 && number(next, &o->from)) {
            o->alone = true;
            o->count = 1;
            i++;
        } else if ((strcmp(argv[i], "--from") == 0 && number(next, &o->from)) ||
                   (strcmp(argv[i], "--count") == 0 && number(next, &o->count))) {
            i++;
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    options o;
    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "Usage: sim [--seed N | --from N --count N] [--verbose] [--digest]\n");
        return 2;
    }
    shared *all =
        mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    all->trace.verbose = o.verbose;
    if (!o.verbose)
        log_set_level(PAWL_LOG_ERROR + 1); /* faults are what this is about */
    if (!o.alone)
        return play_in_child(&o, all);
    play_range(&o, all);
    print_totals(&all->totals, all->digest);
    return 0;
}
