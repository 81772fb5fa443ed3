/*
 * script/pending.h - what a task waits for and another thread ends.
 *
 * The one pattern by which a C function waits for another thread:
 *
 *   1. A struct begins with a `pending` and is made with pending_init(): one reference is
 *      the script's, another the other thread's. A userdata of the script keeps it, so
 *      that a state that is closed gives it up: __gc calls pending_close().
 *   2. The other thread fills in its result, calls pending_end(), then pending_release().
 *   3. The C function returns task_wait(L, p, timeout_ms, done) (task.h); `done` is called
 *      on the run's thread when it has ended, reads the result and pushes what the script
 *      gets. Until pending_ended() is true the result is the other thread's.
 *
 * call.c (a turn), work.c (a job on the worker) and journal.c (a write) are made so.
 *
 * What several threads touch is under the lock of the hub, of which a run has one; it
 * lives as long as its last pending. No Lua here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_PENDING_H
#define SCRIPT_PENDING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct pending_hub pending_hub;

/* wake(arg): something has ended; called under the lock from the thread that ended it, must
 * be quick. NULL: the run's thread waits by pending_hub_wait(). NULL: no memory. */
pending_hub *pending_hub_open(void (*wake)(void *arg), void *arg);
/* The run is gone: wake is not called any more. NULL allowed. */
void pending_hub_close(pending_hub *hub);
/* Waits until something has ended since the last time it was asked, or for so long. */
void pending_hub_wait(pending_hub *hub, int64_t timeout_ms);
/* Something has happened that the run's thread should look at. [any] */
void pending_hub_poke(pending_hub *hub);

typedef struct pending pending;

typedef struct pending_kind {
    void (*cancel)(pending *p);  /* it should end soon; under the lock. NULL: it will anyway */
    void (*destroy)(pending *p); /* nobody holds it any more: frees it                       */
} pending_kind;

struct pending {
    const pending_kind *kind;
    pending_hub *hub;
    unsigned references; /* under the lock, like the rest */
    bool cancelled;
    bool ended;
};

/* Two references. */
void pending_init(pending *p, pending_hub *hub, const pending_kind *kind);
void pending_retain(pending *p);
void pending_release(pending *p);
/* The result is there. [the other thread] */
void pending_end(pending *p);
bool pending_ended(pending *p);
void pending_cancel(pending *p);
/* The script gives it up: cancels what runs, gives up a reference. NULL allowed. */
void pending_close(pending *p);
/* For what a kind shares between its threads before the end. */
void pending_lock(pending *p);
void pending_unlock(pending *p);

#endif /* SCRIPT_PENDING_H */
