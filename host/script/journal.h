/*
 * script/journal.h - what is kept of a run: its row, its steps, what it says.
 *
 * One journal a run, on the run's thread; writes are done by the store's thread, and what
 * it calls back is counted there. Without a store nothing is kept, but the listener still
 * hears what the run says. Events are numbered when they go to the store, in the order in
 * which they do: whoever has read one finds it again. No Lua here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_JOURNAL_H
#define SCRIPT_JOURNAL_H

#include "run/runtime.h"
#include "script/pending.h"

#define JOURNAL_MAX_KEY 512            /* bytes of a step's key                  */
#define JOURNAL_MAX_VALUE (2u << 20)   /* bytes of its value                     */
#define JOURNAL_MAX_STEPS 100000       /* of one run                             */
#define JOURNAL_MAX_BYTES (256u << 20) /* keys and values of one run             */
#define JOURNAL_MAX_EVENT (256u << 10) /* bytes of one event                     */
#define JOURNAL_MAX_WAITING 1000       /* events that wait for the store         */
#define JOURNAL_MAX_WAITING_BYTES (4u << 20)

/* Hears at once what a run says, on its thread: types as in lua/README.md, data as JSON. */
typedef struct journal_listener {
    void (*on_event)(void *arg, const char *type, const char *data);
    void (*on_kept)(void *arg); /* events can be read in the store now; from its thread */
    void *arg;
} journal_listener;

/* Events that wait. */
typedef struct journal_events {
    store_event *list; /* type and data owned */
    size_t n, room, bytes;
} journal_events;

typedef struct journal journal;

/* id: NULL where nothing is kept. resumed: the run has a past, which is measured. */
pawl_status journal_open(store *kept, const base_clock *clock, const char *id, bool resumed,
                         journal_listener listener, journal **out, pawl_error *error);
/* What waits is given to the store. NULL allowed. */
void journal_close(journal *j);
bool journal_is_kept(const journal *j); /* NULL allowed: false */

/* Tells the listener and keeps the event. False: too many wait; neither was done. */
bool journal_say(journal *j, const char *type, const char *data);
/* The same for an event that is kept with a step only. */
bool journal_hold(journal *j, journal_events *held, const char *type, const char *data);
void journal_forget(journal_events *held);
/* An event that was held is kept all the same; the listener has heard it. NULL allowed. */
void journal_again(journal *j, const store_event *event);
/* Gives what waits to the store, if it is time; now: whatever the time. */
void journal_flush(journal *j, bool now);
/* The same until nothing waits any more, as long as that is to be expected: the run ends. */
void journal_finish(journal *j);
/* When it will be time: monotonic; INT64_MAX: nothing waits. */
int64_t journal_due(const journal *j);

/* The value of a step, to be free()d. PAWL_E_NOT_FOUND: it has none. */
pawl_status journal_find(journal *j, const char *key, char **value, pawl_error *error);

typedef struct journal_write {
    pending base;
    journal *journal;
    pawl_status status; /* once it has ended */
    pawl_error error;
} journal_write;

/* Keeps a step's value with the events that were held for it (they are forgotten).
 * PAWL_E_LIMIT: a run may not keep so much; PAWL_E_BUSY: again soon, the events are still
 * held. */
pawl_status journal_keep(journal *j, pending_hub *hub, const char *key, const char *value,
                         journal_events *held, journal_write **out, pawl_error *error);
/* The same without waiting: it is on the disk before any later step is. */
pawl_status journal_note(journal *j, const char *key, const char *value, pawl_error *error);

#endif /* SCRIPT_JOURNAL_H */
