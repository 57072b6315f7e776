/*
 * zi.h: what a guest written in C imports from its host (zABI 2.5), and the frames of sys/loop@v1.
 *
 * Header only; needs a freestanding C11 compiler for wasm32 and no library:
 *
 *     clang --target=wasm32 -O2 -ffreestanding -nostdlib -I include -Wl,--no-entry -Wl,--export=main -o guest.wasm guest.c
 *
 * The rules, in short:
 *
 *  - The guest exports `int main(int, int)` and its memory. What main returns is the exit code.
 *  - Every call returns at once: a count or a handle (0 and up), or an error (ZI_E_*, negative).
 *    ZI_E_AGAIN means: nothing can be done now. Watch the handle, POLL, and try again when it is
 *    ready. Never try again in a loop.
 *  - The one place to wait is a handle of sys/loop@v1: zi_write() of a POLL request suspends the
 *    guest (and nothing else) until something happens. Several requests may be written at once,
 *    with the POLL last; the answers are then read with zi_read().
 *  - Watches are level-triggered: as long as a handle is ready and watched, each POLL says so at
 *    once. Remove a watch (ZI_LOOP_UNWATCH) when you do not intend to act on it.
 *  - Handles 0, 1 and 2 are standard input, output and error. Closed numbers are used again.
 *
 * All numbers are little-endian, and so is WebAssembly: the structures below can be copied as they
 * are. They are packed.
 */
#ifndef MAINSPRING_ZI_H
#define MAINSPRING_ZI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors --------------------------------------------------------------------------------------- */

enum {
    ZI_OK = 0,
    ZI_E_INVALID = -1,  /* an argument makes no sense */
    ZI_E_BOUNDS = -2,   /* an address or a length leads outside the memory, or a buffer is too small */
    ZI_E_NOENT = -3,    /* no such capability, host name, ... */
    ZI_E_DENIED = -4,   /* policy forbids it */
    ZI_E_CLOSED = -5,   /* it has been closed */
    ZI_E_AGAIN = -6,    /* it would have to wait: watch, POLL, try again */
    ZI_E_NOSYS = -7,    /* no such handle, or it cannot do this */
    ZI_E_OOM = -8,      /* a limit on memory or on the number of things is reached */
    ZI_E_IO = -9,       /* input or output failed */
    ZI_E_INTERNAL = -10 /* the host failed */
};

/* Calls ---------------------------------------------------------------------------------------- */

typedef int32_t zi_handle_t;
typedef uint64_t zi_ptr_t; /* an offset into the guest's memory: use zi_ptr() */

#define ZI_IMPORT(name) __attribute__((import_module("env"), import_name(#name)))

/* 0x00020005. */
uint32_t zi_abi_version(void) ZI_IMPORT(zi_abi_version);
/* Up to `capacity` bytes into `destination`: how many, 0 at the end, or an error. */
int32_t zi_read(zi_handle_t handle, zi_ptr_t destination, uint32_t capacity) ZI_IMPORT(zi_read);
/* How many of the `length` bytes were taken (perhaps fewer), or an error. */
int32_t zi_write(zi_handle_t handle, zi_ptr_t source, uint32_t length) ZI_IMPORT(zi_write);
/* Closes a handle, which ends its watches. */
int32_t zi_end(zi_handle_t handle) ZI_IMPORT(zi_end);
/* A request frame about the host or a handle; the answer's length, or an error. */
int32_t zi_ctl(zi_ptr_t request, uint32_t request_length, zi_ptr_t response, uint32_t response_capacity) ZI_IMPORT(zi_ctl);
/* Memory from the host; 0 if there is none. */
zi_ptr_t zi_alloc(uint32_t size) ZI_IMPORT(zi_alloc);
int32_t zi_free(zi_ptr_t pointer) ZI_IMPORT(zi_free);
/* A line for the operator; best effort. */
int32_t zi_telemetry(zi_ptr_t topic, uint32_t topic_length, zi_ptr_t message, uint32_t message_length) ZI_IMPORT(zi_telemetry);
/* The capabilities of this host. */
int32_t zi_cap_count(void) ZI_IMPORT(zi_cap_count);
int32_t zi_cap_get_size(int32_t index) ZI_IMPORT(zi_cap_get_size);
int32_t zi_cap_get(int32_t index, zi_ptr_t out, uint32_t capacity) ZI_IMPORT(zi_cap_get);
/*
 * Opens a capability (struct zi_cap_request): a handle from 3 on, or an error. zi_open() below is
 * easier.
 */
zi_handle_t zi_cap_open(zi_ptr_t request) ZI_IMPORT(zi_cap_open);
/* ZI_H_*. */
uint32_t zi_handle_hflags(zi_handle_t handle) ZI_IMPORT(zi_handle_hflags);

enum { ZI_H_READABLE = 1, ZI_H_WRITABLE = 2, ZI_H_ENDABLE = 4, ZI_H_SEEKABLE = 8 };

static inline zi_ptr_t zi_ptr(const void *pointer) {
    return (zi_ptr_t)(uintptr_t)pointer;
}

/* Opening capabilities ------------------------------------------------------------------------- */

#define ZI_PACKED __attribute__((packed))

struct ZI_PACKED zi_cap_request {
    uint64_t kind;
    uint32_t kind_length;
    uint64_t name;
    uint32_t name_length;
    uint32_t mode; /* 0 */
    uint64_t parameters;
    uint32_t parameters_length;
};

static inline uint32_t zi_length(const char *text) {
    uint32_t length = 0;
    while (text[length]) length++;
    return length;
}

/* Opens, for example, zi_open("sys", "loop", NULL, 0). */
static inline zi_handle_t zi_open(const char *kind, const char *name, const void *parameters, uint32_t parameters_length) {
    struct zi_cap_request request = {
        zi_ptr(kind), zi_length(kind), zi_ptr(name), zi_length(name), 0, zi_ptr(parameters), parameters_length};
    return zi_cap_open(zi_ptr(&request));
}

/* net/tcp@v1. To listen, the handle yields struct zi_accept_record when it is read. */
enum {
    ZI_TCP_LISTEN = 1,
    ZI_TCP_REUSEADDR = 2,
    ZI_TCP_REUSEPORT = 4,
    ZI_TCP_IPV6ONLY = 8,
    ZI_TCP_NODELAY = 16,
    ZI_TCP_KEEPALIVE = 32
};

struct ZI_PACKED zi_tcp_parameters {
    uint64_t host;
    uint32_t host_length; /* 1 to 255 */
    uint32_t port;
    uint32_t flags;    /* ZI_TCP_* */
    uint32_t backlog;  /* 0: the default */
    uint64_t out_port; /* where a listener's port is written as a uint32_t, or 0 */
};

struct ZI_PACKED zi_accept_record {
    uint32_t handle;
    uint32_t peer_port;
    uint8_t peer_address[16]; /* IPv4 is mapped into IPv6 */
    uint32_t local_port;
    uint32_t reserved;
};

/*
 * Connects. The handle is there at once; it is writable when the connection stands or has failed.
 */
static inline zi_handle_t zi_tcp_connect(const char *host, uint32_t port) {
    struct zi_tcp_parameters parameters = {zi_ptr(host), zi_length(host), port, ZI_TCP_NODELAY, 0, 0};
    return zi_open("net", "tcp", &parameters, sizeof parameters);
}

/* Listens; `port` is the wanted one (0: any) and becomes the real one. */
static inline zi_handle_t zi_tcp_listen(const char *host, volatile uint32_t *port) {
    struct zi_tcp_parameters parameters = {
        zi_ptr(host), zi_length(host), *port, ZI_TCP_LISTEN | ZI_TCP_REUSEADDR | ZI_TCP_NODELAY, 0, zi_ptr((const void *)port)};
    return zi_open("net", "tcp", &parameters, sizeof parameters);
}

/* Frames --------------------------------------------------------------------------------------- */

struct ZI_PACKED zi_frame {
    uint8_t magic[4]; /* "ZCL1" */
    uint16_t version; /* 1 */
    uint16_t op;
    uint32_t request_id; /* yours; repeated in the answer */
    uint32_t status;     /* requests 0; answers 1 for success, 0 for an error */
    uint32_t reserved;   /* 0 */
    uint32_t payload_length;
};

static inline struct zi_frame zi_request(uint16_t op, uint32_t request_id, uint32_t payload_length) {
    struct zi_frame frame = {{'Z', 'C', 'L', '1'}, 1, op, request_id, 0, 0, payload_length};
    return frame;
}

/* sys/loop@v1 ---------------------------------------------------------------------------------- */

enum { ZI_LOOP_WATCH = 1, ZI_LOOP_UNWATCH = 2, ZI_LOOP_TIMER_ARM = 3, ZI_LOOP_TIMER_CANCEL = 4, ZI_LOOP_POLL = 5 };
enum { ZI_READABLE = 1, ZI_WRITABLE = 2, ZI_HUP = 4, ZI_ERROR = 8 };
enum { ZI_EVENT_READY = 1, ZI_EVENT_TIMER = 2 };

#define ZI_FOREVER UINT32_C(0xFFFFFFFF)

struct ZI_PACKED zi_watch {
    struct zi_frame frame;
    uint32_t handle;
    uint32_t events; /* ZI_READABLE | ... */
    uint64_t watch_id;
    uint32_t flags; /* 0 */
};

struct ZI_PACKED zi_unwatch {
    struct zi_frame frame;
    uint64_t watch_id;
};

struct ZI_PACKED zi_timer_arm {
    struct zi_frame frame;
    uint64_t timer_id;
    uint64_t due_ns;
    uint64_t interval_ns; /* 0: once */
    uint32_t flags;       /* 1: due_ns counts from now */
};

struct ZI_PACKED zi_poll {
    struct zi_frame frame;
    uint32_t max_events; /* at least 1 */
    uint32_t timeout_ms; /* 0: do not wait; ZI_FOREVER */
};

struct ZI_PACKED zi_event {
    uint32_t kind;   /* ZI_EVENT_* */
    uint32_t events; /* READY: what is true of what was asked for */
    uint32_t handle;
    uint32_t reserved;
    uint64_t id;   /* watch_id or timer_id */
    uint64_t data; /* TIMER: the monotonic clock */
};

struct ZI_PACKED zi_poll_answer {
    struct zi_frame frame;
    uint32_t version; /* 1 */
    uint32_t flags;   /* 1: more events are pending */
    uint32_t event_count;
    uint32_t reserved;
    struct zi_event events[]; /* event_count of them */
};

/* Reads the answer to a request other than POLL: ZI_OK if the host agreed. */
static inline int32_t zi_loop_answer(zi_handle_t loop) {
    uint8_t answer[256];
    int32_t length = zi_read(loop, zi_ptr(answer), sizeof answer);
    if (length < (int32_t)sizeof(struct zi_frame)) return length < 0 ? length : ZI_E_INTERNAL;
    return ((const struct zi_frame *)answer)->status == 1 ? ZI_OK : ZI_E_INVALID;
}

static inline int32_t zi_loop_request(zi_handle_t loop, const void *request, uint32_t length) {
    int32_t written = zi_write(loop, zi_ptr(request), length);
    if (written < 0) return written;
    return zi_loop_answer(loop);
}

/* Reports `events` of `handle` under `watch_id` until zi_loop_unwatch() or zi_end(handle). */
static inline int32_t zi_loop_watch(zi_handle_t loop, zi_handle_t handle, uint32_t events, uint64_t watch_id) {
    struct zi_watch request = {zi_request(ZI_LOOP_WATCH, 0, 20), (uint32_t)handle, events, watch_id, 0};
    return zi_loop_request(loop, &request, sizeof request);
}

static inline int32_t zi_loop_unwatch(zi_handle_t loop, uint64_t watch_id) {
    struct zi_unwatch request = {zi_request(ZI_LOOP_UNWATCH, 0, 8), watch_id};
    return zi_loop_request(loop, &request, sizeof request);
}

/* A timer `delay_ns` from now, and then each `interval_ns` if that is not 0. */
static inline int32_t zi_loop_timer(zi_handle_t loop, uint64_t timer_id, uint64_t delay_ns, uint64_t interval_ns) {
    struct zi_timer_arm request = {zi_request(ZI_LOOP_TIMER_ARM, 0, 28), timer_id, delay_ns, interval_ns, 1};
    return zi_loop_request(loop, &request, sizeof request);
}

/* Waits. `answer` has room for `max_events` events; returns how many there are, or an error. */
static inline int32_t zi_loop_poll(zi_handle_t loop, struct zi_poll_answer *answer, uint32_t max_events, uint32_t timeout_ms) {
    struct zi_poll request = {zi_request(ZI_LOOP_POLL, 0, 8), max_events, timeout_ms};
    int32_t length = zi_write(loop, zi_ptr(&request), sizeof request);
    if (length < 0) return length;
    uint32_t capacity = (uint32_t)sizeof *answer + max_events * (uint32_t)sizeof(struct zi_event);
    length = zi_read(loop, zi_ptr(answer), capacity);
    if (length < 0) return length;
    if (length < (int32_t)sizeof *answer || answer->frame.status != 1) return ZI_E_INTERNAL;
    return (int32_t)answer->event_count;
}

#ifdef __cplusplus
}
#endif

#endif
