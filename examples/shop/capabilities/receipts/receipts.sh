# Prints a receipt for every order that was paid: a capability as a shell script.
# Messages are one JSON object a line; sed and awk take them apart.

count=0

# Prints every member of the message $1 on a line of its own: its path, a space, and its value as
# JSON has it, such as
#     data.order "o-1"
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

# say KIND TYPE DATA: what the current message caused
said=0
say() {
    said=$((said + 1))
    printf '{"kind":"%s","type":"%s","data":%s,"metadata":{"id":"receipts-%s-%s","timestamp":%s000,"causation":%s}}\n' \
        "$1" "$2" "$3" "$$" "$said" "$(date +%s)" "$(member metadata.id)"
}

while IFS= read -r message; do
    members=$(members "$message")
    case $(member type) in
    '"Order.Paid"')
        count=$((count + 1))
        order=$(member data.order)
        echo "receipt $count for $order" >&2
        say event Receipt.Printed "{\"order\":$order,\"number\":$count}"
        ;;
    '"Receipt.Count"')
        say reply Receipt.Count "{\"count\":$count}"
        ;;
    esac
done
