/*
 * An echo server: sends back whatever it is sent, to as many clients as there are descriptors, on
 * one thread.
 *
 *     cc echo_server.c $(pkg-config --cflags --libs mainspring_reactor) -o echo_server
 *     ./echo_server [port]          (0, the default, lets the system choose; the port is printed)
 *
 * It shows what a real server needs of a loop:
 *   - a listening socket that is accepted from until it would block, and paused when the process
 *     is out of descriptors;
 *   - one watcher per client that waits for reading, writing or both, whatever makes progress, so
 *     that a client that does not read is not read from either;
 *   - a timer per client that is pushed back by every byte and closes the connection when it fires;
 *   - an end by SIGINT or SIGTERM after which nothing is left open.
 */
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L

#include <mainspring_reactor.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define IDLE_TIMEOUT_NS (60 * MS_REACTOR_SECOND)
#define ACCEPT_PAUSE_NS (100 * MS_REACTOR_MILLISECOND)

struct server;

/* A client, and the bytes it is still to be sent back: those from `start` to `end`. */
struct client {
    struct server *server;
    struct client *next, *previous;
    int fd;
    ms_reactor_watcher watcher;
    ms_reactor_timer idle;
    int done; /* it will send no more */
    size_t start, end;
    char buffer[BUFFER_BYTES];
};

struct server {
    ms_reactor *reactor;
    int fd;
    ms_reactor_watcher watcher;
    struct client *clients;
    unsigned long served;
    unsigned long bytes;
};

/* Ends the program if a call has failed: for those that only fail when something is badly wrong. */
static void must(int result)
{
    if (result < 0) {
        fprintf(stderr, "echo_server: %s\n", ms_reactor_last_error_text());
        exit(1);
    }
}

static void client_close(struct client *client)
{
    struct server *server = client->server;
    /*
     * Unwatch before closing; from here on nothing is called with this client any more, and it may
     * be freed.
     */
    ms_reactor_unwatch(server->reactor, client->watcher);
    ms_reactor_cancel(server->reactor, client->idle);
    close(client->fd);
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        server->clients = client->next;
    if (client->next != NULL)
        client->next->previous = client->previous;
    free(client);
}

static void on_idle(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    (void)reactor;
    (void)timer;
    (void)missed;
    client_close(data);
}

/* Reads into what room there is. Returns 0 when the client is gone. */
static int client_read(struct client *client)
{
    ssize_t count = read(client->fd, client->buffer + client->end, BUFFER_BYTES - client->end);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    client->done = count == 0;
    client->end += (size_t)count;
    return 1;
}

/* Writes what there is. Returns 0 when the client is gone. */
static int client_write(struct client *client)
{
    ssize_t count = send(client->fd, client->buffer + client->start, client->end - client->start, MSG_NOSIGNAL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    client->server->bytes += (unsigned long)count;
    client->start += (size_t)count;
    if (client->start == client->end)
        client->start = client->end = 0;
    return 1;
}

/*
 * Does what can be done now. Returns what is to be waited for, or 0 when the client is done with.
 */
static unsigned client_progress(struct client *client, unsigned readiness)
{
    unsigned interest = 0;
    int room = !client->done && client->end < BUFFER_BYTES;
    if (readiness & MS_REACTOR_ERROR)
        return 0;
    if (room && (readiness & (MS_REACTOR_READ | MS_REACTOR_HANGUP)) && !client_read(client))
        return 0;
    /* Most of the time there is room to send at once, and no need to wait for it. */
    if (client->end > client->start && !client_write(client))
        return 0;
    if (!client->done && client->end < BUFFER_BYTES)
        interest |= MS_REACTOR_READ;
    if (client->end > client->start)
        interest |= MS_REACTOR_WRITE;
    return interest;
}

static void on_client(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    struct client *client = data;
    unsigned interest = client_progress(client, readiness);
    (void)fd;
    if (interest == 0) {
        client_close(client);
        return;
    }
    must(ms_reactor_modify(reactor, watcher, interest));
    must(ms_reactor_reschedule_after(reactor, client->idle, IDLE_TIMEOUT_NS));
}

static void client_open(struct server *server, int fd)
{
    struct client *client = malloc(sizeof *client);
    if (client == NULL) {
        close(fd);
        return;
    }
    client->server = server;
    client->fd = fd;
    client->done = 0;
    client->start = client->end = 0;
    client->previous = NULL;
    client->next = server->clients;
    if (client->next != NULL)
        client->next->previous = client;
    server->clients = client;
    server->served++;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    must(ms_reactor_watch(server->reactor, fd, MS_REACTOR_READ, MS_REACTOR_LEVEL, on_client, client, &client->watcher));
    must(ms_reactor_after(server->reactor, IDLE_TIMEOUT_NS, on_idle, client, &client->idle));
    ms_reactor_label_watcher(server->reactor, client->watcher, "client");
}

static void on_resume(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    struct server *server = data;
    (void)timer;
    (void)missed;
    must(ms_reactor_modify(reactor, server->watcher, MS_REACTOR_READ));
}

static void on_listener(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    struct server *server = data;
    int client;
    (void)readiness;
    while ((client = accept(fd, NULL, NULL)) >= 0)
        client_open(server, client);
    if (errno == EMFILE || errno == ENFILE) {
        /*
         * The connection stays in the queue, so the listener stays readable: look away for a while.
         */
        must(ms_reactor_modify(reactor, watcher, 0));
        must(ms_reactor_after(reactor, ACCEPT_PAUSE_NS, on_resume, server, NULL));
    }
}

static void on_end(ms_reactor *reactor, int signal_number, unsigned count, void *data)
{
    (void)signal_number;
    (void)count;
    (void)data;
    ms_reactor_stop(reactor);
}

/* Listens on the loopback address. Returns the port, or -1. */
static int server_listen(struct server *server, int port)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int on = 1;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((unsigned short)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (server->fd < 0)
        return -1;
    setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    fcntl(server->fd, F_SETFL, O_NONBLOCK);
    if (bind(server->fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(server->fd, SOMAXCONN) < 0)
        return -1;
    if (getsockname(server->fd, (struct sockaddr *)&address, &length) < 0)
        return -1;
    return ntohs(address.sin_port);
}

int main(int argc, char **argv)
{
    struct server server = {NULL, -1, 0, NULL, 0, 0};
    int port = server_listen(&server, argc > 1 ? atoi(argv[1]) : 0);
    if (port < 0) {
        perror("echo_server");
        return 1;
    }
    must(ms_reactor_create(&server.reactor, MS_REACTOR_BACKEND_BEST, 0));
    must(ms_reactor_on_signal(server.reactor, SIGINT, on_end, NULL, NULL));
    must(ms_reactor_on_signal(server.reactor, SIGTERM, on_end, NULL, NULL));
    must(ms_reactor_watch(server.reactor, server.fd, MS_REACTOR_READ, MS_REACTOR_LEVEL, on_listener, &server,
                          &server.watcher));
    printf("listening on 127.0.0.1:%d\n", port);
    fflush(stdout);

    must(ms_reactor_run(server.reactor));

    while (server.clients != NULL)
        client_close(server.clients);
    must(ms_reactor_destroy(server.reactor));
    close(server.fd);
    printf("served %lu clients and %lu bytes\n", server.served, server.bytes);
    return 0;
}
