/*
 * {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard
 * output, one JSON object a line.
 */

#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * A piece of the line. JSON strings keep their quotes and escapes, so that they can be put into an
 * answer as they are.
 */
struct text {
    const char *start;
    size_t length;
};

static const char *skip_space(const char *at) {
    return at + strspn(at, " \t\r\n");
}

static const char *skip_string(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : at;
}

/*
 * The daemon sends nothing but sound JSON, so the end of a value can be found by counting brackets.
 */
static const char *skip_value(const char *at) {
    int depth = 0;
    do {
        at = skip_space(at);
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        if (depth == 0 && *at != '}' && *at != ']') {
            at += strcspn(at, ",}] \t");
            break;
        }
        if (*at)
            at++;
    } while (*at && depth > 0);
    return at;
}

/* The value of a member of an object; empty if there is none. */
static struct text member(struct text object, const char *name) {
    struct text none = {"", 0};
    const char *at = skip_space(object.start);
    if (*at != '{')
        return none;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *key = at + 1;
        const char *end = skip_string(at);
        size_t length = (size_t)(end - key) - 1;
        at = skip_space(end);
        const char *value = skip_space(at + 1);
        const char *value_end = skip_value(value);
        if (length == strlen(name) && strncmp(key, name, length) == 0)
            return (struct text){value, (size_t)(value_end - value)};
        at = skip_space(value_end);
        if (*at != ',')
            break;
        at = skip_space(at + 1);
    }
    return none;
}

static int is(struct text value, const char *word) {
    return value.length == strlen(word) + 2 && strncmp(value.start + 1, word, strlen(word)) == 0;
}

/* A number that no other run of this program has. */
static uint64_t run;

/* Says a message that the message with this id caused. */
static void say(const char *kind, struct text type, struct text id, const char *format, ...) {
    static unsigned long said;
    struct timespec now;
    va_list values;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("{\"kind\":\"%s\",\"type\":%.*s,\"data\":", kind, (int)type.length, type.start);
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    printf(",\"metadata\":{\"id\":\"{{name}}-%016" PRIx64 "-%lu\",\"timestamp\":%lld,\"causation\":%.*s}}\n", run, ++said,
           (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000, (int)id.length, id.start);
    fflush(stdout);
}

static void greet(struct text type, struct text id, struct text name) {
    say("reply", type, id, "{\"text\":\"Hello, %.*s!\"}", (int)(name.length - 2), name.start + 1);
}

static void meet(struct text type, struct text id, struct text name) {
    static unsigned long met;
    static const struct text told = {"\"{{Type}}.Met\"", sizeof "\"{{Type}}.Met\"" - 1};
    met++;
    say("event", told, id, "{\"name\":%.*s,\"met\":%lu}", (int)name.length, name.start, met);
    say("reply", type, id, "{\"met\":%lu}", met);
}

static void answer(struct text message) {
    struct text type = member(message, "type");
    struct text id = member(member(message, "metadata"), "id");
    struct text name = member(member(message, "data"), "name");
    /* The schema in the manifest lets nothing through that has no name. */
    if (is(type, "{{Type}}.Greet") && name.length >= 2)
        greet(type, id, name);
    else if (is(type, "{{Type}}.Meet") && name.length >= 2)
        meet(type, id, name);
    else {
        /* Standard output is for messages; standard error goes to the daemon's log. */
        fprintf(stderr, "unexpected: %s", message.start);
        say("error", type, id, "{\"code\":404,\"message\":\"%.*s is not known here\"}", (int)type.length - 2, type.start + 1);
    }
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    if (getentropy(&run, sizeof run) != 0)
        return 1;
    /*
     * The loop ends when the input does: then the daemon is shutting down, or loads this program
     * again.
     */
    while (getline(&line, &room, stdin) > 0) {
        struct text message = {line, strlen(line)};
        struct text kind = member(message, "kind");
        if (is(kind, "command") || is(kind, "query"))
            answer(message);
    }
    free(line);
    return 0;
}
