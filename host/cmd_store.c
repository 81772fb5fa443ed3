/*
 * host/cmd_store.c - `pawl store check|stats|gc|backup|export|import`: the data folder.
 *
 * pawl.db first, then kv.db, which is a cache of the server's: only who holds the folder
 * may look into it, so beside a server it is passed over, and the output says so.
 * What only reads works beside a server that holds the folder; what changes something
 * names that server and ends. Results go to standard output. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "store/folder.h"
#include "store/kv_check.h"
#include "store/verify.h"
#include "store/stats.h"
#include "store/transfer.h"
#include "store/upkeep.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const struct action *action;
    const char *file; /* of backup and import; NULL: none */
    const char *data; /* NULL: the default                */
    const char *conversation;
    const char *out;
    uint64_t kv_mb; /* gc: what kv.db may take; UINT64_MAX: as much as it does */
    bool repair, json, new_ids;
} options;

typedef struct action {
    const char *name;
    /* 0, or 1: there are faults; or a negative status and *error. */
    int (*run)(const options *o, const char *folder, pawl_error *error);
    bool takes_file;
} action;

/* ----------------------------------------------------------------- helpers --- */

static void write_time(int64_t ms, char text[32])
{
    struct tm tm;
    time_t seconds = (time_t)(ms / 1000);
    if (!ms || !gmtime_r(&seconds, &tm) || !strftime(text, 32, "%Y-%m-%d %H:%M:%SZ", &tm))
        snprintf(text, 32, "-");
}

static int failed(pawl_status status)
{
    return -(int)status;
}

/* What it quotes may come from a damaged file. */
static void print_safe(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
}

/* ------------------------------------------------------------------- kv.db --- */

/* What an action does with kv.db while it holds the folder. 0, or 1: there are faults. */
typedef int (*kv_work)(const options *o, const char *folder, pawl_error *error);

/* result: what pawl.db came to, which counts where kv.db is sound or left alone. */
static int with_kv(const options *o, const char *folder, int result, kv_work work,
                   pawl_error *error)
{
    int lock;
    pawl_status status = folder_open(folder, &lock, error);
    if (status == PAWL_E_BUSY) {
        if (!o->json)
            printf("kv.db: not looked at while a server holds the folder\n");
        return result;
    }
    if (status)
        return failed(status);
    int found = work(o, folder, error);
    folder_close(lock);
    return found ? found : result;
}

static void print_finding(void *arg, const char *where, const char *what)
{
    (void)arg;
    printf("kv.db: %s: ", where);
    print_safe(what);
    putchar('\n');
}

static int check_kv(const options *o, const char *folder, pawl_error *error)
{
    kv_check_report r;
    pawl_status status = kv_check(folder, o->repair, print_finding, NULL, &r, error);
    if (status)
        return failed(status);
    bool clean = kv_check_is_clean(&r);
    printf("kv.db: %" PRIu64 " chunks of %" PRIu64 " bytes: ", r.chunks, r.bytes);
    if (clean)
        printf("sound\n");
    else
        printf("%" PRIu64 " damaged, %" PRIu64 " without their ancestors, %" PRIu64
               " pieces of nothing%s; %s\n",
               r.damaged, r.unreachable, r.strays, r.broken ? ", a broken file" : "",
               o->repair ? "removed" : "`pawl store check --repair` removes them");
    return clean || o->repair ? 0 : 1;
}

static int stats_kv(const options *o, const char *folder, pawl_error *error)
{
    kv_survey_report r;
    pawl_status status = kv_survey(folder, &r, error);
    (void)o;
    if (status)
        return failed(status);
    char oldest[32], newest[32];
    write_time(r.oldest_ms, oldest);
    write_time(r.newest_ms, newest);
    printf("kv.db          %" PRIu64 " bytes, %" PRIu64 " of them unused; %" PRIu64
           " chunks, %" PRIu64 " tokens, %" PRIu64 " tenants\n",
           r.file_bytes, r.free_bytes, r.chunks, r.tokens, r.tenants);
    printf("               used %" PRIu64 " times, %" PRIu64 " chunks never; from %s to %s\n",
           r.hits, r.never_used, oldest, newest);
    return 0;
}

static int gc_kv(const options *o, const char *folder, pawl_error *error)
{
    uint64_t removed = 0;
    pawl_status status = kv_gc(folder, o->kv_mb << 20, &removed, error);
    if (status)
        return failed(status);
    printf("kv.db: %" PRIu64 " chunks evicted\n", removed);
    return 0;
}

/* ------------------------------------------------------------------- check --- */

static void print_fault(void *arg, const char *where, const char *what)
{
    (void)arg;
    print_safe(where);
    fputs(": ", stdout);
    print_safe(what);
    putchar('\n');
}

static int run_check(const options *o, const char *folder, pawl_error *error)
{
    verify_report r;
    pawl_status status = o->repair ? verify_repair(folder, print_fault, NULL, &r, error)
                                   : verify_run(folder, print_fault, NULL, &r, error);
    if (status)
        return failed(status);
    printf("%" PRId64 " responses, %" PRId64 " conversations, %" PRId64 " keys: ", r.responses,
           r.conversations, r.keys);
    if (r.faults)
        printf("%" PRId64 " fault%s\n", r.faults, r.faults > 1 ? "s" : "");
    else
        printf("sound\n");
    if (r.unneeded)
        printf("%" PRId64 " removed responses that nothing needs; `pawl store gc` deletes them\n",
               r.unneeded);
    if (r.copy[0])
        printf("repaired: %" PRId64 " rows taken out, %" PRId64 " conversations set back; the file "
               "as it was is %s\n",
               r.removed, r.moved, r.copy);
    else if (r.faults)
        printf(o->repair ? "nothing that taking rows out would repair\n"
                         : "`pawl store check --repair` takes out what is damaged\n");
    return with_kv(o, folder, r.faults && !r.copy[0] ? 1 : 0, check_kv, error);
}

/* ------------------------------------------------------------------- stats --- */

static void print_stats_json(const stats *s)
{
    cJSON *out = cJSON_CreateObject();
    const struct {
        const char *name;
        int64_t value;
    } list[] = {{"version", s->version},
                {"file_bytes", s->file_bytes},
                {"log_bytes", s->log_bytes},
                {"unused_bytes", s->unused_bytes},
                {"responses", s->responses},
                {"removed", s->removed},
                {"conversations", s->conversations},
                {"keys", s->keys},
                {"keys_revoked", s->keys_revoked},
                {"tokens", s->tokens},
                {"oldest_ms", s->oldest_ms},
                {"newest_ms", s->newest_ms}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        cJSON_AddNumberToObject(out, list[i].name, (double)list[i].value);
    cJSON *tenants = cJSON_AddArrayToObject(out, "tenants");
    for (size_t i = 0; i < s->n_tenants; i++) {
        cJSON *tenant = cJSON_CreateObject();
        cJSON_AddStringToObject(tenant, "tenant", s->tenants[i].tenant);
        cJSON_AddNumberToObject(tenant, "responses", (double)s->tenants[i].responses);
        cJSON_AddNumberToObject(tenant, "conversations", (double)s->tenants[i].conversations);
        cJSON_AddNumberToObject(tenant, "bytes", (double)s->tenants[i].bytes);
        cJSON_AddItemToArray(tenants, tenant);
    }
    char *text = json_print(out);
    printf("%s\n", text ? text : "{}");
    free(text);
    cJSON_Delete(out);
}

static void print_stats(const stats *s)
{
    char oldest[32], newest[32];
    write_time(s->oldest_ms, oldest);
    write_time(s->newest_ms, newest);
    printf("file           %" PRId64 " bytes, %" PRId64 " of them unused; log %" PRId64 "\n",
           s->file_bytes, s->unused_bytes, s->log_bytes);
    printf("version        %" PRId64 "\n", s->version);
    printf("responses      %" PRId64 ", and %" PRId64 " removed that others need; %" PRId64
           " tokens\n",
           s->responses, s->removed, s->tokens);
    printf("conversations  %" PRId64 "\n", s->conversations);
    printf("keys           %" PRId64 ", %" PRId64 " of them revoked\n", s->keys, s->keys_revoked);
    printf("oldest         %s\nnewest         %s\n", oldest, newest);
    for (size_t i = 0; i < s->n_tenants; i++) {
        printf(i ? "               " : "tenants        ");
        print_safe(s->tenants[i].tenant[0] ? s->tenants[i].tenant : "(no key)");
        printf(": %" PRId64 " responses, %" PRId64 " conversations, %" PRId64 " bytes\n",
               s->tenants[i].responses, s->tenants[i].conversations, s->tenants[i].bytes);
    }
}

static int run_stats(const options *o, const char *folder, pawl_error *error)
{
    stats s;
    pawl_status status = stats_read(folder, &s, error);
    if (status)
        return failed(status);
    if (o->json)
        print_stats_json(&s);
    else
        print_stats(&s);
    stats_clear(&s);
    return o->json ? 0 : with_kv(o, folder, 0, stats_kv, error);
}

/* -------------------------------------------------------------- gc, backup --- */

static int run_gc(const options *o, const char *folder, pawl_error *error)
{
    upkeep_gc_report r;
    pawl_status status = upkeep_gc(folder, &r, error);
    if (status)
        return failed(status);
    printf("%" PRId64 " rows deleted; %" PRId64 " bytes before, %" PRId64 " after\n", r.removed,
           r.before_bytes, r.after_bytes);
    return o->kv_mb == UINT64_MAX ? 0 : with_kv(o, folder, 0, gc_kv, error);
}

/* DIR/pawl.db.20261130T164500Z, to be free()d. */
static char *backup_name(const char *folder)
{
    char name[64];
    struct tm tm;
    time_t now = time(NULL);
    if (!gmtime_r(&now, &tm) || !strftime(name, sizeof name, "pawl.db.%Y%m%dT%H%M%SZ", &tm))
        return NULL;
    return file_join(folder, name);
}

static int run_backup(const options *o, const char *folder, pawl_error *error)
{
    int64_t bytes = 0;
    char *made = o->file ? NULL : backup_name(folder);
    const char *to = o->file ? o->file : made;
    pawl_status status = to ? upkeep_backup(folder, to, &bytes, error)
                            : pawl_fail(error, PAWL_E_MEMORY, "no memory for a name");
    if (!status)
        printf("%s: %" PRId64 " bytes\n", to, bytes);
    free(made);
    return status ? failed(status) : 0;
}

/* --------------------------------------------------------- export, import --- */

static int run_export(const options *o, const char *folder, pawl_error *error)
{
    transfer_counts n;
    FILE *to = o->out ? fopen(o->out, "wxe") : stdout;
    if (!to)
        return failed(pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", o->out, strerror(errno)));
    pawl_status status = transfer_export(folder, o->conversation, to, &n, error);
    if (o->out && fclose(to) != 0 && !status)
        status = pawl_fail(error, PAWL_E_DEVICE, "%s: %s", o->out, strerror(errno));
    if (status && o->out)
        remove(o->out);
    if (!status)
        fprintf(stderr, "%" PRId64 " responses and %" PRId64 " conversations exported\n",
                n.responses, n.conversations);
    return status ? failed(status) : 0;
}

static int run_import(const options *o, const char *folder, pawl_error *error)
{
    transfer_counts n;
    pawl_error why = {.struct_size = sizeof why};
    bool piped = strcmp(o->file, "-") == 0;
    FILE *from = piped ? stdin : fopen(o->file, "re");
    if (!from)
        return failed(pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", o->file, strerror(errno)));
    pawl_status status = transfer_import(folder, from, o->new_ids, &n, &why);
    if (!piped)
        fclose(from);
    if (status)
        return failed(
            pawl_fail(error, status, "%s: %s", piped ? "standard input" : o->file, why.message));
    printf("%" PRId64 " responses and %" PRId64 " conversations imported\n", n.responses,
           n.conversations);
    return 0;
}

/* ----------------------------------------------------------------- options --- */

static const action actions[] = {{"check", run_check, false},   {"stats", run_stats, false},
                                 {"gc", run_gc, false},         {"backup", run_backup, true},
                                 {"export", run_export, false}, {"import", run_import, true}};

enum option_key { KEY_REPAIR = 256, KEY_NEW_IDS, KEY_CONVERSATION, KEY_KV_MB };

static const struct argp_option option_table[] = {
    {"data", 'd', "DIR", 0, "Data folder (default: $XDG_DATA_HOME/pawl, ~/.local/share/pawl)", 0},
    {"repair", KEY_REPAIR, NULL, 0, "check: take out what is damaged, after a copy", 0},
    {"kv-disk-mb", KEY_KV_MB, "N", 0, "gc: shrink kv.db to so much; 0 deletes it", 0},
    {"json", 'j', NULL, 0, "stats: one line of JSON", 0},
    {"conversation", KEY_CONVERSATION, "ID", 0, "export: this one alone", 0},
    {"out", 'o', "FILE", 0, "export: a new file (default: standard output)", 0},
    {"new-ids", KEY_NEW_IDS, NULL, 0, "import: give everything ids of its own", 0},
    {0},
};

static bool is(const options *o, const char *name)
{
    return o->action && strcmp(o->action->name, name) == 0;
}

static void check_call(const options *o, struct argp_state *state)
{
    if (!o->action)
        argp_error(state, "check, stats, gc, backup, export or import is wanted");
    if (is(o, "import") && !o->file)
        argp_error(state, "import wants a file; - is standard input");
    if (o->file && !o->action->takes_file)
        argp_error(state, "unexpected argument '%s'", o->file);
    if (o->repair && !is(o, "check"))
        argp_error(state, "--repair belongs to check");
    if (o->kv_mb != UINT64_MAX && !is(o, "gc"))
        argp_error(state, "--kv-disk-mb belongs to gc");
    if (o->json && !is(o, "stats"))
        argp_error(state, "--json belongs to stats");
    if ((o->conversation || o->out) && !is(o, "export"))
        argp_error(state, "--conversation and --out belong to export");
    if (o->new_ids && !is(o, "import"))
        argp_error(state, "--new-ids belongs to import");
}

static void take_argument(options *o, const char *arg, struct argp_state *state)
{
    if (o->file)
        argp_error(state, "too many arguments");
    if (o->action) {
        o->file = arg;
        return;
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, arg) == 0)
            o->action = &actions[i];
    if (!o->action)
        argp_error(state, "there is no 'pawl store %s'", arg);
}

static void take_megabytes(options *o, const char *arg, struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    o->kv_mb = strtoull(arg, &end, 10);
    if (errno || end == arg || *end || arg[0] == '-' || o->kv_mb > UINT64_MAX >> 21)
        argp_error(state, "--kv-disk-mb wants a number of megabytes, not '%s'", arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case 'd':
        o->data = arg;
        return 0;
    case 'j':
        o->json = true;
        return 0;
    case 'o':
        o->out = arg;
        return 0;
    case KEY_REPAIR:
        o->repair = true;
        return 0;
    case KEY_KV_MB:
        take_megabytes(o, arg, state);
        return 0;
    case KEY_NEW_IDS:
        o->new_ids = true;
        return 0;
    case KEY_CONVERSATION:
        o->conversation = arg;
        return 0;
    case ARGP_KEY_ARG:
        take_argument(o, arg, state);
        return 0;
    case ARGP_KEY_END:
        check_call(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_store(int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "check\nstats\ngc\nbackup [FILE]\nexport\nimport FILE",
        .doc = "Look after the data folder: pawl.db, with its responses, conversations and keys, "
               "and kv.db, the saved state of prefixes.\v"
               "check looks at everything and exits with 1 if there is a fault; --repair takes "
               "damaged responses out with what descends from them, and sets conversations back. "
               "stats counts. gc deletes what nothing needs and gives space back to the disk. "
               "backup writes a whole copy, which is a pawl.db (default: beside it, named by the "
               "time). export writes lines of JSON that import reads, all or nothing; keys are "
               "not in them.\n\n"
               "check, stats, backup and export also work while a server runs on the folder, but "
               "for kv.db, which is then passed over; the others want it stopped, and name it.",
    };
    options o = {.kv_mb = UINT64_MAX};
    pawl_error error = {.struct_size = sizeof error};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(PAWL_LOG_ERROR);
    char *fallback = o.data ? NULL : file_data_folder();
    const char *folder = o.data ? o.data : fallback;
    int result =
        folder ? o.action->run(&o, folder, &error)
               : failed(pawl_fail(&error, PAWL_E_ARGUMENT, "no data folder; give --data DIR"));
    free(fallback);
    if (result < 0)
        fprintf(stderr, "pawl store: %s\n", error.message);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    return result || !written ? 1 : 0;
}
