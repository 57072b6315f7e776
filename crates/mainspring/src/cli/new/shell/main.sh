# {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard output, one JSON object a line.
#
# sed cuts out the two fields that are needed, still escaped as JSON has them, so that they can be put into an answer as they are. For anything
# more, use jq.

string='"(([^"\\]|\\.)*)"'

# The id of a message, which is in its metadata.
id_of() {
    printf '%s\n' "$1" | sed -nE "s/.*\"metadata\": *\{(.*[{, ])?\"id\": *$string.*/\2/p"
}

# The name in the data; the schema in the manifest lets nothing else be there.
name_of() {
    printf '%s\n' "$1" | sed -nE "s/.*\"data\": *\{ *\"name\": *$string *\}.*/\1/p"
}

# reply TYPE DATA CAUSE
said=0
reply() {
    said=$((said + 1))
    printf '{"kind":"reply","type":"%s","data":%s,"metadata":{"id":"%s-%s-%s","timestamp":%s000,"causation":"%s"}}\n' \
        "$1" "$2" "{{name}}" "$$-$started" "$said" "$(date +%s)" "$3"
}

started=$(date +%s)

# The loop ends when the input does: then the daemon is shutting down, or loads this program again.
while IFS= read -r message; do
    case $message in
    *'"type":"{{Type}}.Greet"'*) reply {{Type}}.Greet "{\"text\":\"Hello, $(name_of "$message")!\"}" "$(id_of "$message")" ;;
    # Standard error goes to the daemon's log.
    *) printf 'unexpected: %s\n' "$message" >&2 ;;
    esac
done
