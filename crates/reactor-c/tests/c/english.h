/* What the tests of the English names share. */
#ifndef ENGLISH_H
#define ENGLISH_H

#include "check.h"
#include "mainspring_reactor.h"

/* Every test that takes a backend runs on both. */
static const int backends[] = {MS_REACTOR_BACKEND_EPOLL, MS_REACTOR_BACKEND_POLL};

#define RUN_ON_BOTH(test)                  \
    do {                                   \
        running_test = #test;              \
        alarm(HANG_SECONDS);               \
        test(backends[0]);                 \
        test(backends[1]);                 \
        printf("ok %s (epoll, poll)\n", #test); \
        fflush(stdout);                    \
    } while (0)

#define OK(call) CHECK((call) == MS_REACTOR_OK, ms_reactor_last_error_text())

UNUSED static ms_reactor *new_reactor(int backend)
{
    ms_reactor *reactor = NULL;
    OK(ms_reactor_create(&reactor, backend, 0));
    CHECK(reactor != NULL, "a reactor");
    return reactor;
}

UNUSED static ms_reactor *new_virtual_reactor(void)
{
    ms_reactor *reactor = NULL;
    OK(ms_reactor_create(&reactor, MS_REACTOR_BACKEND_BEST, MS_REACTOR_VIRTUAL_CLOCK));
    return reactor;
}

/* What a descriptor's callback has seen. */
struct seen {
    int calls;
    int fd;
    unsigned readiness;
    ms_reactor *reactor;
    ms_reactor_watcher watcher;
};

UNUSED static void on_ready(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    struct seen *seen = data;
    seen->calls++;
    seen->fd = fd;
    seen->readiness = readiness;
    seen->reactor = reactor;
    seen->watcher = watcher;
}

/* Callbacks that count, with an int as their data. */
UNUSED static void on_timer(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    (void)reactor;
    (void)timer;
    (void)missed;
    ++*(int *)data;
}

UNUSED static void on_call(ms_reactor *reactor, void *data)
{
    (void)reactor;
    ++*(int *)data;
}

UNUSED static void on_call_stop(ms_reactor *reactor, void *data)
{
    (void)data;
    ms_reactor_stop(reactor);
}

UNUSED static void on_timer_stop(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    (void)timer;
    (void)missed;
    (void)data;
    ms_reactor_stop(reactor);
}

#endif
