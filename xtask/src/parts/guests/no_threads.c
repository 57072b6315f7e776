/* What Rust's library calls to start threads, for a C library that has none: a program that links std::thread then builds, and is told at
 * run time that there are no threads, as with the library that rustup brings. */

typedef unsigned long thread;

enum { DONE = 0, NOT_SUPPORTED = 58 };

int pthread_attr_init(void *attributes) { (void)attributes; return DONE; }
int pthread_attr_destroy(void *attributes) { (void)attributes; return DONE; }
int pthread_attr_setstacksize(void *attributes, unsigned long bytes) { (void)attributes; (void)bytes; return DONE; }

int pthread_create(thread *out, const void *attributes, void *(*run)(void *), void *argument)
{
    (void)out; (void)attributes; (void)run; (void)argument;
    return NOT_SUPPORTED;
}

int pthread_join(thread it, void **result) { (void)it; (void)result; return NOT_SUPPORTED; }
int pthread_detach(thread it) { (void)it; return NOT_SUPPORTED; }
