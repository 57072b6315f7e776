# {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard
# output, one JSON object a line.
#
# sed and awk take a message apart. Values stay escaped as JSON has them, so that they can be put
# into an answer as they are. For anything more, use jq.

# Prints every member of the message $1 on a line of its own: its path, a space, and its value as
# JSON has it, such as
#     metadata.id "q1"
# Spaces between the parts of a message, and the order of its members, mean nothing. Arrays are left
# out.
members() {
    printf '%s\n' "$1" | LC_ALL=C sed -E 's/^[[:space:]]*//; s/("([^"\\]|\\.)*"|[][{}:,]|[^][{}:,"[:space:]]+)[[:space:]]*/\1\
/g' | LC_ALL=C awk '
        /^[[{]$/ { path[depth + 1] = path[depth] key "."; depth++; key = ""; is_value = 0; next }
        /^[]}]$/ { depth--; next }
        /^:$/ { key = substr(last, 2, length(last) - 2); is_value = 1; next }
        /^,$/ { is_value = 0; next }
        { last = $0; if (is_value) print substr(path[depth] key, 2), $0 }'
}

# member PATH: the value of a member of the current message; a string still has its quotes
member() {
    printf '%s\n' "$members" | sed -n "s/^$1 //p"
}

# unquoted PATH: a string without its quotes
unquoted() {
    member "$1" | sed 's/^"//; s/"$//'
}

# say KIND TYPE DATA: says a message that the current one caused
said=0
say() {
    said=$((said + 1))
    printf '{"kind":"%s","type":"%s","data":%s,"metadata":{"id":"%s-%s-%s","timestamp":%s000,"causation":%s}}\n' \
        "$1" "$2" "$3" "{{name}}" "$$-$started" "$said" "$(date +%s)" "$(member metadata.id)"
}

started=$(date +%s)
met=0

# The loop ends when the input does: then the daemon is shutting down, or loads this program again.
while IFS= read -r message; do
    members=$(members "$message")
    case $(member kind) in
    '"command"' | '"query"') ;;
    *) continue ;;
    esac
    type=$(unquoted type)
    case $type in
    {{Type}}.Greet) say reply "$type" "{\"text\":\"Hello, $(unquoted data.name)!\"}" ;;
    {{Type}}.Meet)
        met=$((met + 1))
        say event {{Type}}.Met "{\"name\":$(member data.name),\"met\":$met}"
        say reply "$type" "{\"met\":$met}"
        ;;
    *)
        # Standard output is for messages; standard error goes to the daemon's log.
        printf 'unexpected: %s\n' "$message" >&2
        say error "$type" "{\"code\":404,\"message\":\"$type is not known here\"}"
        ;;
    esac
done
