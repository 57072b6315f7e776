/*
 * An echo server in C: one watch for the listener, one for each connection.
 *
 * Prints "listening on port N" and serves up to CONNECTIONS_MAX peers at once. What a peer cannot
 * take yet waits in its own buffer, and the server waits for that peer to become writable instead
 * of readable: never for both, and never in a loop.
 */
#include "zi.h"

enum { CONNECTIONS_MAX = 64, BUFFER_BYTES = 4096, EVENTS_MAX = 16, LISTENER_ID = 1, FIRST_CONNECTION_ID = 2 };

struct connection {
    zi_handle_t handle; /* 0: free */
    uint32_t watched;   /* ZI_READABLE or ZI_WRITABLE */
    uint32_t start, end;
    uint8_t buffer[BUFFER_BYTES];
};

static struct connection connections[CONNECTIONS_MAX];
static zi_handle_t loop, listener;
static union {
    struct zi_poll_answer answer;
    uint8_t room[sizeof(struct zi_poll_answer) + EVENTS_MAX * sizeof(struct zi_event)];
} polled;

static void print(const char *text) {
    zi_write(1, zi_ptr(text), zi_length(text));
}

static void print_number(uint32_t number) {
    char digits[12];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do digits[--at] = (char)('0' + number % 10); while (number /= 10);
    print(digits + at);
}

static uint64_t id_of(const struct connection *connection) {
    return FIRST_CONNECTION_ID + (uint64_t)(connection - connections);
}

static void close_connection(struct connection *connection) {
    zi_end(connection->handle); /* ends its watch, too */
    connection->handle = 0;
}

static int watch_for(struct connection *connection, uint32_t events) {
    if (connection->watched == events) return ZI_OK;
    if (connection->watched) zi_loop_unwatch(loop, id_of(connection));
    connection->watched = events;
    return zi_loop_watch(loop, connection->handle, events, id_of(connection));
}

/* Moves bytes until the connection says AGAIN in the direction that matters, or ends. */
static void serve(struct connection *connection) {
    for (;;) {
        while (connection->start < connection->end) {
            int32_t written = zi_write(connection->handle, zi_ptr(connection->buffer + connection->start),
                                       connection->end - connection->start);
            if (written == ZI_E_AGAIN) {
                if (watch_for(connection, ZI_WRITABLE) != ZI_OK) close_connection(connection);
                return;
            }
            if (written < 0) {
                close_connection(connection);
                return;
            }
            connection->start += (uint32_t)written;
        }
        int32_t read = zi_read(connection->handle, zi_ptr(connection->buffer), BUFFER_BYTES);
        if (read == ZI_E_AGAIN) {
            if (watch_for(connection, ZI_READABLE) != ZI_OK) close_connection(connection);
            return;
        }
        if (read <= 0) {
            close_connection(connection);
            return;
        }
        connection->start = 0;
        connection->end = (uint32_t)read;
    }
}

static void accept_all(void) {
    struct zi_accept_record record;
    while (zi_read(listener, zi_ptr(&record), sizeof record) == (int32_t)sizeof record) {
        struct connection *connection = connections;
        while (connection < connections + CONNECTIONS_MAX && connection->handle) connection++;
        if (connection == connections + CONNECTIONS_MAX) {
            zi_end((zi_handle_t)record.handle);
            continue;
        }
        connection->handle = (zi_handle_t)record.handle;
        connection->watched = connection->start = connection->end = 0;
        serve(connection);
    }
}

int main(int request, int response) {
    (void)request, (void)response;
    volatile uint32_t port = 0;
    loop = zi_open("sys", "loop", NULL, 0);
    listener = zi_tcp_listen("127.0.0.1", &port);
    if (loop < 0 || listener < 0) {
        print("cannot listen\n");
        return 1;
    }
    if (zi_loop_watch(loop, listener, ZI_READABLE, LISTENER_ID) != ZI_OK) return 2;
    print("listening on port ");
    print_number(port);
    print("\n");
    for (;;) {
        int32_t count = zi_loop_poll(loop, &polled.answer, EVENTS_MAX, ZI_FOREVER);
        if (count <= 0) return count < 0 ? 3 : 0; /* nothing, though for ever: the host shuts down */
        for (int32_t at = 0; at < count; at++) {
            const struct zi_event *event = &polled.answer.events[at];
            if (event->id == LISTENER_ID) {
                accept_all();
            } else {
                struct connection *connection = &connections[event->id - FIRST_CONNECTION_ID];
                if (connection->handle) serve(connection);
            }
        }
    }
}
