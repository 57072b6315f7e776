# Tests {{name}} as the daemon sees it: `sh test.sh` in this folder, in the sandbox of `mainspring
# run`.

cd "$(dirname "$0")" || exit 1

# check WORDS QUERY: what is said to the query has these words.
check() {
    said=$(printf '%s\n' "$2" | mainspring run main.wasm 2>/dev/null)
    case $said in
    *"$1"*) ;;
    *)
        printf 'expected %s\nin %s\n' "$1" "$said" >&2
        exit 1
        ;;
    esac
}

query='{"kind":"query","type":"{{Type}}.Greet","data":{"name":"Ada"},"metadata":{"id":"q1","timestamp":0}}'
check '"kind":"reply"' "$query"
check '"data":{"text":"Hello, Ada!"}' "$query"
check '"causation":"q1"' "$query"

# Others put spaces between the parts, and the members in another order.
query='{"metadata": {"timestamp": 0, "id": "q2"}, "type" : "{{Type}}.Greet", "data": { "name": "Ada" }, "kind": "query"}'
check '"data":{"text":"Hello, Ada!"}' "$query"
check '"causation":"q2"' "$query"

command='{"kind":"command","type":"{{Type}}.Meet","data":{"name":"Ada"},"metadata":{"id":"c1","timestamp":0}}'
check '"kind":"event","type":"{{Type}}.Met","data":{"name":"Ada","met":1}' "$command"
check '"kind":"reply","type":"{{Type}}.Meet","data":{"met":1}' "$command"

check '"kind":"error","type":"{{Type}}.Unknown","data":{"code":404' \
    '{"kind":"query","type":"{{Type}}.Unknown","data":{},"metadata":{"id":"u1","timestamp":0}}'
echo "all is well"
