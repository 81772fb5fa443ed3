/*
 * terminal/chat.c - a conversation in the terminal. See chat.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "terminal/chat.h"

#include "terminal/input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define MAX_LIST ((size_t)1 << 20)

typedef struct chat {
    const chat_config *config;
    session session;
    bool over;   /* /exit */
    bool failed; /* a turn or a command did */
} chat;

static void note(const chat *c, const char *format, ...) PAWL_PRINTF(2, 3);

/* A line for people; what it quotes may come from anywhere. */
static void note(const chat *c, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    reply_show(c->config->notes, line);
    fputc('\n', c->config->notes);
}

static void fail(chat *c)
{
    note(c, "%s", c->session.why);
    c->failed = true;
}

static void prompt(void *arg, bool more)
{
    const chat *c = arg;
    if (!c->config->typed)
        return;
    fputs(more ? "… " : "> ", c->config->style.out);
    fflush(c->config->style.out);
}

static void greet(const chat *c)
{
    const session *s = &c->session;
    const char *model = run_model_at(s->runtime, 0)->name;
    if (!s->kept)
        note(c, "%s; nothing of this is kept (--session NAME keeps it). /help tells the commands.",
             model);
    else if (s->n_items)
        note(c, "%s; the session %s goes on after %zu items. /help tells the commands.", model,
             *s->name ? s->name : s->id, s->n_items);
    else
        note(c, "%s; the session %s begins. /help tells the commands.", model,
             *s->name ? s->name : s->id);
}

/* --------------------------------------------------------------- commands --- */

static void do_help(chat *c, const char *name)
{
    (void)name;
    note(c,
         "A line is a message; one that ends with \\ goes on in the next, and between two lines "
         "of\n\"\"\" everything is one message. // begins a message with a slash. Ctrl-C stops a "
         "reply,\nwhich keeps what it has said; Ctrl-D or /exit ends.\n"
         "  /new [NAME]   begin anew\n"
         "  /undo         take your last message and its reply back\n"
         "  /fork NAME    go on from here in a session of that name; this one stays as it is\n"
         "  /sessions     what there is, * is this one\n"
         "  /help  /exit");
}

static void do_new(chat *c, const char *name)
{
    if (session_new(&c->session, name))
        note(c, "a new session%s%s", name ? ": " : "", name ? name : "");
    else
        fail(c);
}

static void do_fork(chat *c, const char *name)
{
    if (!name)
        note(c, "/fork wants a name");
    else if (session_fork(&c->session, name))
        note(c, "from here on in the session %s", name);
    else
        fail(c);
}

static void do_undo(chat *c, const char *name)
{
    char *taken;
    (void)name;
    if (!session_undo(&c->session, &taken))
        fail(c);
    else
        note(c, "taken back: %.200s", taken ? taken : "the last turn");
    free(taken);
}

static void do_sessions(chat *c, const char *name)
{
    buf list;
    (void)name;
    buf_init(&list, MAX_LIST);
    if (session_list(&c->session, &list))
        reply_show(c->config->notes, list.size ? buf_text(&list) : "there is none yet\n");
    else
        fail(c);
    buf_clear(&list);
}

static void do_exit(chat *c, const char *name)
{
    (void)name;
    c->over = true;
}

static const struct {
    const char *word;
    void (*run)(chat *c, const char *name);
} commands[] = {{"/help", do_help}, {"/new", do_new},           {"/undo", do_undo},
                {"/fork", do_fork}, {"/sessions", do_sessions}, {"/exit", do_exit}};

static void command(chat *c, char *line)
{
    size_t word = strcspn(line, " \t");
    char *name = line + word + strspn(line + word, " \t");
    for (size_t end = strlen(name); end && (name[end - 1] == ' ' || name[end - 1] == '\t');)
        name[--end] = '\0';
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strlen(commands[i].word) == word && strncmp(commands[i].word, line, word) == 0) {
            commands[i].run(c, *name ? name : NULL);
            return;
        }
    note(c, "there is no command %.*s; /help tells them", (int)(word < 100 ? word : 100), line);
    c->failed = true;
}

/* --------------------------------------------------------------- messages --- */

static void message(chat *c, const char *text)
{
    if (text[strspn(text, " \t\n")] == '\0')
        return;
    switch (reply_run(&c->session, &c->config->style, text)) {
    case REPLY_DONE:
        return;
    case REPLY_CUT:
        note(c, "[the limit of tokens is reached]");
        return;
    case REPLY_STOPPED:
        note(c, "[stopped]");
        return;
    case REPLY_DROPPED:
        note(c, "[stopped before a word was said: your message is not kept]");
        return;
    case REPLY_FAILED:
        fail(c);
    }
}

static void interrupted(chat *c)
{
    eventfd_t count;
    eventfd_read(c->config->style.wake, &count);
    if (atomic_load(c->config->style.stop)) {
        c->over = true;
    } else if (atomic_exchange(c->config->style.interrupts, 0) && c->config->typed) {
        fputc('\n', c->config->style.out);
        note(c, "/exit or Ctrl-D ends");
    }
}

int chat_run(const chat_config *config)
{
    chat c = {.config = config};
    input in;
    buf text;
    const char *why = "";
    if (!session_open(&c.session, config->runtime, config->kept, config->session)) {
        fail(&c);
        return 1;
    }
    greet(&c);
    input_open(&in, config->in, config->style.wake, prompt, &c);
    buf_init(&text, INPUT_MAX_MESSAGE);
    while (!c.over && !atomic_load(config->style.stop)) {
        switch (input_next(&in, &text, &why)) {
        case INPUT_MESSAGE:
            message(&c, buf_text(&text));
            break;
        case INPUT_COMMAND:
            command(&c, text.data);
            break;
        case INPUT_REFUSED:
            note(&c, "%s", why);
            c.failed = true;
            break;
        case INPUT_INTERRUPTED:
            interrupted(&c);
            break;
        case INPUT_END:
            c.over = true;
        }
    }
    buf_clear(&text);
    input_close(&in);
    session_close(&c.session);
    return c.failed && !config->typed ? 1 : 0;
}
