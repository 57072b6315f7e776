/* {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard output, one JSON object a line. */

#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A piece of the line. JSON strings keep their quotes and escapes, so that they can be put into an answer as they are. */
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

/* The daemon sends nothing but sound JSON, so the end of a value can be found by counting brackets. */
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

static void greet(struct text message, struct text id) {
    static unsigned long said;
    struct text name = member(member(message, "data"), "name");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long now_ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (name.length < 2) /* The schema in the manifest does not let that through. */
        return;
    printf("{\"kind\":\"reply\",\"type\":\"{{Type}}.Greet\",\"data\":{\"text\":\"Hello, %.*s!\"},"
           "\"metadata\":{\"id\":\"{{name}}-%ld-%lld-%lu\",\"timestamp\":%lld,\"causation\":%.*s}}\n",
           (int)(name.length - 2), name.start + 1, (long)getpid(), now_ms, ++said, now_ms, (int)id.length, id.start);
    fflush(stdout);
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    /* The loop ends when the input does: then the daemon is shutting down, or loads this program again. */
    while (getline(&line, &room, stdin) > 0) {
        struct text message = {line, strlen(line)};
        struct text type = member(message, "type");
        if (is(type, "{{Type}}.Greet"))
            greet(message, member(member(message, "metadata"), "id"));
        else /* Standard error goes to the daemon's log. */
            fprintf(stderr, "unexpected: %s", line);
    }
    free(line);
    return 0;
}
