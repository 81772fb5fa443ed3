/*
 * net/socket.h - a WebSocket: frames in, lanes of turns, frames out.
 *
 *   frame ─► message ─ worker: parse ─► lane's queue ─ worker: start ─► turn ─► events
 *
 * socket.c puts frames together and ends the socket, socket_turn.c runs what they ask
 * for. Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include "net/exchange.h"
#include "net/lanes.h"

#define SOCKET_PATH "/v1/responses"

typedef struct socket_conn socket_conn;

/* A message on its way through the worker. */
typedef struct socket_job {
    inbox_item item; /* first */
    socket_conn *of; /* a reference */
    char *data;      /* the worker frees it */
    size_t size;
    api_frame *frame; /* from the worker */
} socket_job;

/* A request that runs. */
typedef struct socket_turn {
    exchange base; /* first */
    lane *of_lane;
    api_frame *frame;
    run_caller caller;  /* for the worker */
    run_record *parent; /* from the socket's memory, a reference, or NULL */
    char request_id[CLOCK_ID_SIZE];
    int64_t began;  /* monotonic ns                     */
    uint64_t bytes; /* that were sent                   */
    int status;     /* 0: its client went before its end */
    struct socket_turn *next;
} socket_turn;

enum socket_stage {
    SOCKET_OPEN,
    SOCKET_LEAVING, /* refuses what is new; what runs may end                 */
    SOCKET_CUTTING, /* what ran is cancelled and is about to end              */
    SOCKET_CLOSING  /* sends what is queued, then the close frame             */
};

struct socket_conn {
    conn base; /* first */
    enum socket_stage stage;
    buf message; /* what has come of the message so far        */
    lanes *lanes;
    socket_turn *turns; /* that run                                   */
    unsigned parsing;   /* messages at the worker                     */
    size_t parsing_bytes;
    bool rx_paused;         /* too many of them: reading is off           */
    bool in_frame;          /* more of a frame is to come                 */
    lws_usec_t small_until; /* what small frames have used up of their rate */
    int close_code;         /* for the close frame, from SOCKET_LEAVING on */
    const char *close_why;  /* static */
};

/* Takes over a connection whose handshake has been granted. NULL without memory. */
conn *socket_open(net_server *server, struct lws *wsi);

/* Takes nothing more and closes as soon as nothing runs; grace: seconds until what
 * runs is cancelled. why is static. */
void socket_leave(socket_conn *s, int code, const char *why, int grace);
/* Something has ended: goes on towards the close frame, if that is what comes next. */
void socket_advance(socket_conn *s);
/* An error frame; name: of the lane, or NULL. */
void socket_send_error(socket_conn *s, int status, const char *code, const char *param,
                       const char *message, const char *name);

/* socket_turn.c */
/* A whole message, of malloc()ed bytes that become the callee's. */
void socket_take_message(socket_conn *s, char *data, size_t size);
/* Starts what may run. */
void socket_pump(socket_conn *s);
/* The client can take more of what is kept. */
void socket_pull(socket_conn *s);
/* The socket's life is over: what runs ends, or runs on without it. */
void socket_cut_all(socket_conn *s);
/* The client has gone: cancels and forgets all turns and requests. */
void socket_abandon(socket_conn *s);
void socket_drop_frame(void *frame); /* for lanes_open() */

#endif /* NET_SOCKET_H */
