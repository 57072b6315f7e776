# Prints a receipt for every order that was paid: a capability as a shell script.
# Messages are one JSON object a line; the few fields needed here are cut out by sed.

count=0

# The value of a member of this message whose value is plain text: field NAME
field() {
    printf '%s\n' "$message" | sed -n "s/.*\"$1\": *\"\([^\"\\\\]*\)\".*/\1/p"
}

# The id is a member of the metadata; data may have one of its own.
id_of_message() {
    printf '%s\n' "$message" | sed -n 's/.*"metadata": *{[^}]*"id": *"\([^"\\]*\)".*/\1/p'
}

# say KIND TYPE DATA: what this message caused
said=0
say() {
    said=$((said + 1))
    printf '{"kind":"%s","type":"%s","data":%s,"metadata":{"id":"receipts-%s-%s","timestamp":%s000,"causation":"%s"}}\n' \
        "$1" "$2" "$3" "$$" "$said" "$(date +%s)" "$(id_of_message)"
}

while IFS= read -r message; do
    case $message in
    *'"type":"Order.Paid"'*)
        count=$((count + 1))
        order=$(field order)
        echo "receipt $count for $order" >&2
        say event Receipt.Printed "{\"order\":\"$order\",\"number\":$count}"
        ;;
    *'"type":"Receipt.Count"'*)
        say reply Receipt.Count "{\"count\":$count}"
        ;;
    esac
done
