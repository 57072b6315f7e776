/*
 * The work that every C subject does: descriptors, batches, clocks and figures are the same for all
 * of them.
 *
 * A subject includes this file first and then defines the functions declared under "what a subject
 * provides". Everything is one translation unit, so a subject's functions are inlined into the
 * batches as its users would inline them. The Rust subjects do the same work from src/workload.rs;
 * keep the two in step.
 *
 * Each figure is the minimum of many short batches of CPU time: noise only ever adds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/*
 * ---- what a subject provides
 * --------------------------------------------------------------------------------
 */

enum watch_kind { WATCH_DISPATCH, WATCH_DISPATCH_EDGE, WATCH_PIPE, WATCH_IDLE };

/* Opens the loop. */
static void subject_open(void);
/*
 * Watches fds[0..count] for reading; the callback of fds[i] calls on_ready(i) and stops the loop
 * when that is true. Edge-triggered if wants_edge(kind) and the library can.
 */
static void subject_watch(const int *fds, int count, enum watch_kind kind);
/* Watches the same fds again while they are watched: replaces each registration. */
static void subject_rewatch(void);
/* Stops watching each fd and watches it anew. */
static void subject_unwatch_watch(void);
/* Runs until a callback stops the loop. */
static void subject_run(void);

/* Makes room for count timers, which are then called by number. */
static void subject_timers_open(int count);
/* Brings the loop's notion of now up to date, where it has one. */
static void subject_timers_now(void);
/* The callback calls on_timer() and stops the loop when that is true. */
static inline void subject_timer_start(int timer, uint64_t after_ns);
static inline void subject_timer_stop(int timer);
static inline void subject_timer_move(int timer, uint64_t after_ns);
/* Starts timer 0 as a one-shot and runs the loop until it has fired. */
static void subject_oneshot(uint64_t after_ns);

/*
 * ---- clocks, numbers, failure
 * -------------------------------------------------------------------------------
 */

static void fail(const char *what, ...)
{
    va_list arguments;
    va_start(arguments, what);
    vfprintf(stderr, what, arguments);
    va_end(arguments);
    fprintf(stderr, ": %s\n", strerror(errno));
    exit(1);
}

static inline uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t cpu_ns(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
static inline uint64_t monotonic_ns(void) { return read_clock(CLOCK_MONOTONIC); }

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static double smaller(double a, double b) { return a < b ? a : b; }

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        fail("%zu bytes", bytes);
    return memory;
}

static void sleep_until(uint64_t deadline_ns)
{
    struct timespec t = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/*
 * Every pair of sockets takes two descriptors: 9,000 pairs are beyond the usual soft limit. Where
 * it cannot be raised, opening that many says so.
 */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/*
 * ---- counting allocations: the process's own malloc stands in front of glibc's
 * ------------------------------
 */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
static long allocations;
void *malloc(size_t bytes) { return allocations++, __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return allocations++, __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return allocations++, __libc_realloc(old, bytes); }

/*
 * ---- what callbacks do
 * --------------------------------------------------------------------------------------
 */

static long events_left;

static int pipe_count;
static int *pipe_fds; /* read end of pair i at 2i, write end at 2i + 1 */
static long pipe_read, pipe_written, pipe_writes_left;

static long timers_left;
static uint64_t fired_at_ns;

/*
 * Whoever has an edge-triggered mode uses it in the pipe cases, unless told not to by the word
 * "level".
 */
static bool level_only;

static bool wants_edge(enum watch_kind kind)
{
    return kind == WATCH_DISPATCH_EDGE || (kind == WATCH_PIPE && !level_only);
}

static inline bool on_ready(int index, enum watch_kind kind, int fd)
{
    if (kind == WATCH_DISPATCH)
        return --events_left == 0;
    if (kind == WATCH_DISPATCH_EDGE) { /* only a new write makes an edge-triggered eventfd ready again */
        uint64_t one = 1;
        if (write(fd, &one, sizeof one) != sizeof one)
            fail("write");
        return --events_left == 0;
    }
    char bytes[64]; /* an edge obliges to take all there is; one recv does */
    ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    pipe_read += count;
    for (ssize_t i = 0; i < count && pipe_writes_left > 0; i++) {
        int next = index + 1 < pipe_count ? index + 1 : 0;
        send(pipe_fds[2 * next + 1], "e", 1, 0);
        pipe_writes_left--;
        pipe_written++;
    }
    return pipe_read == pipe_written;
}

static inline bool on_timer(void) { return --timers_left == 0; }

/*
 * ---- the cases
 * ----------------------------------------------------------------------------------------------
 */

static int *open_eventfds(int count)
{
    int *fds = allocate(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++)
        if ((fds[i] = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
            fail("eventfd");
    return fds;
}

/* count always-ready eventfds and empty callbacks: what the loop itself costs per event. */
static void case_dispatch(int count, bool edge, long turns, int batches)
{
    subject_watch(open_eventfds(count), count, edge ? WATCH_DISPATCH_EDGE : WATCH_DISPATCH);
    double best = 1e18;
    for (int batch = 0; batch < batches; batch++) {
        events_left = turns * count;
        uint64_t before = cpu_ns();
        subject_run();
        best = smaller(best, (double)(cpu_ns() - before) / (double)(turns * count));
    }
    printf("cpu_per_event ns %.2f\n", best);
}

/* The same, run under a counter of system calls; allocations are counted here. */
static void case_turns(int count, long turns)
{
    subject_watch(open_eventfds(count), count, WATCH_DISPATCH);
    events_left = 16 * count; /* reach the steady state first */
    subject_run();
    long before = allocations;
    events_left = turns * count;
    subject_run();
    printf("allocations_per_turn count %.4f\n", (double)(allocations - before) / (double)turns);
}

static int *open_pipes(int count)
{
    pipe_count = count;
    pipe_fds = allocate(sizeof(int) * 2 * (size_t)count);
    int *read_ends = allocate(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, &pipe_fds[2 * i]) != 0)
            fail("socketpair %d", i);
        read_ends[i] = pipe_fds[2 * i];
    }
    return read_ends;
}

/*
 * libevent's pipe benchmark: `active` bytes travel round `count` pairs until `writes` more were
 * sent.
 */
static void case_pipe(int count, int active, long writes, int runs)
{
    subject_watch(open_pipes(count), count, WATCH_PIPE);
    double best = 1e18;
    for (int run = 0; run < runs; run++) {
        for (int i = 0; i < active; i++)
            send(pipe_fds[2 * (i * (count / active)) + 1], "e", 1, 0);
        pipe_read = 0;
        pipe_written = active;
        pipe_writes_left = writes;
        uint64_t before = cpu_ns();
        subject_run();
        best = smaller(best, (double)(cpu_ns() - before) / (double)pipe_written);
    }
    printf("cpu_per_event ns %.2f\n", best);
}

/* Registration alone: no descriptor is ready. */
static void case_register(int count, void (*again)(void), int runs)
{
    subject_watch(open_pipes(count), count, WATCH_IDLE);
    again();
    double best = 1e18;
    for (int run = 0; run < runs; run++) {
        uint64_t before = cpu_ns();
        again();
        best = smaller(best, (double)(cpu_ns() - before) / count);
    }
    printf("cpu_per_fd ns %.2f\n", best);
}

struct timer_plan {
    int count;
    int *order;              /* a random order */
    uint64_t *first, *second; /* random delays far away, so that nothing fires by itself */
    uint64_t *soon;          /* random delays that have all passed after `due_after_ns` */
    uint64_t due_after_ns;
};

static struct timer_plan plan_timers(int count, uint64_t spread_ms)
{
    struct timer_plan plan = {.count = count};
    uint64_t **delays[] = {&plan.first, &plan.second, &plan.soon};
    for (int set = 0; set < 3; set++)
        *delays[set] = allocate(sizeof(uint64_t) * (size_t)count);
    plan.order = allocate(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++) {
        plan.first[i] = 60000000000u + random_next() % 60000000000u;
        plan.second[i] = 60000000000u + random_next() % 60000000000u;
        plan.soon[i] = spread_ms * 1000000u + random_next() % (spread_ms * 1000000u);
        plan.order[i] = i;
    }
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(random_next() % (uint64_t)(i + 1)), kept = plan.order[i];
        plan.order[i] = plan.order[j];
        plan.order[j] = kept;
    }
    plan.due_after_ns = 2 * spread_ms * 1000000u + 20000000u;
    return plan;
}

static double timers_insert(const struct timer_plan *plan, const uint64_t *delays)
{
    subject_timers_now();
    uint64_t before = cpu_ns();
    for (int i = 0; i < plan->count; i++)
        subject_timer_start(i, delays[i]);
    return (double)(cpu_ns() - before) / plan->count;
}

static double timers_cancel(const struct timer_plan *plan)
{
    uint64_t before = cpu_ns();
    for (int i = 0; i < plan->count; i++)
        subject_timer_stop(plan->order[i]);
    return (double)(cpu_ns() - before) / plan->count;
}

static double timers_reschedule(const struct timer_plan *plan)
{
    subject_timers_now();
    uint64_t before = cpu_ns();
    for (int i = 0; i < plan->count; i++)
        subject_timer_move(plan->order[i], plan->second[plan->order[i]]);
    return (double)(cpu_ns() - before) / plan->count;
}

static double timers_fire(const struct timer_plan *plan, double *insert)
{
    uint64_t start = monotonic_ns();
    *insert = timers_insert(plan, plan->soon);
    sleep_until(start + plan->due_after_ns);
    timers_left = plan->count;
    uint64_t before = cpu_ns();
    subject_run();
    return (double)(cpu_ns() - before) / plan->count;
}

static void case_timers(int count, uint64_t spread_ms, int repeats)
{
    struct timer_plan plan = plan_timers(count, spread_ms);
    double insert = 1e18, cancel = 1e18, reschedule = 1e18, fire = 1e18;
    subject_timers_open(count);
    for (int repeat = 0; repeat < repeats; repeat++) {
        insert = smaller(insert, timers_insert(&plan, plan.first));
        reschedule = smaller(reschedule, timers_reschedule(&plan));
        cancel = smaller(cancel, timers_cancel(&plan));
        double insert_again;
        fire = smaller(fire, timers_fire(&plan, &insert_again));
        insert = smaller(insert, insert_again);
    }
    printf("insert ns %.2f\ncancel ns %.2f\nreschedule ns %.2f\nfire ns %.2f\n", insert, cancel, reschedule, fire);
}

/* How much later than asked a one-shot fires; negative is early. */
static void case_lateness(uint64_t after_ns, int samples)
{
    subject_timers_open(1);
    printf("lateness us");
    for (int i = 0; i < samples; i++) {
        uint64_t due = monotonic_ns() + after_ns;
        subject_oneshot(after_ns);
        printf(" %.2f", (double)(int64_t)(fired_at_ns - due) / 1000.0);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "level")) {
        level_only = true;
        argc--;
        argv++;
    }
    uint64_t n[4] = {0};
    for (int i = 2; i < argc && i < 6; i++)
        n[i - 2] = strtoull(argv[i], NULL, 10);
    const char *name = argc > 1 ? argv[1] : "";
    raise_descriptor_limit();
    subject_open();
    if (!strcmp(name, "dispatch"))
        case_dispatch((int)n[0], false, (long)n[1], (int)n[2]);
    else if (!strcmp(name, "dispatch-edge"))
        case_dispatch((int)n[0], true, (long)n[1], (int)n[2]);
    else if (!strcmp(name, "turns"))
        case_turns((int)n[0], (long)n[1]);
    else if (!strcmp(name, "pipe"))
        case_pipe((int)n[0], (int)n[1], (long)n[2], (int)n[3]);
    else if (!strcmp(name, "rewatch"))
        case_register((int)n[0], subject_rewatch, (int)n[1]);
    else if (!strcmp(name, "unwatch-watch"))
        case_register((int)n[0], subject_unwatch_watch, (int)n[1]);
    else if (!strcmp(name, "timers"))
        case_timers((int)n[0], n[1], (int)n[2]);
    else if (!strcmp(name, "lateness"))
        case_lateness(n[0], (int)n[1]);
    else {
        fprintf(stderr, "unknown case %s\n", name);
        return 2;
    }
    return 0;
}
