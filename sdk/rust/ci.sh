#!/usr/bin/env bash
# The Rust SDK: conformance of a capability, of the blocking client and of that on tokio. MAINSPRING
# is the daemon's program, SDK_TARGET a folder that is kept between runs (see
# sdk/conformance/README.md). The last line of the output reads "N passed, M failed, K skipped".
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export MAINSPRING=${MAINSPRING:-$root/target/debug/mainspring}
target=${SDK_TARGET:-$root/target/sdk/rust}
mkdir -p "$target" && target=$(cd "$target" && pwd)
passed=0 failed=0 skipped=0
cd "$root" || exit 1
# run NAME COMMAND...: runs a command, shows its output, counts what it counts, or the command as
# one test.
run() {
  local name=$1 status=0 output="$target/output" p f s
  shift
  "$@" >"$output" 2>&1 || status=$?
  cat "$output"
  p=$(grep -oE '[0-9]+ passed' "$output" | awk '{n += $1} END {print n}')
  f=$(grep -oE '[0-9]+ failed' "$output" | awk '{n += $1} END {print n}')
  s=$(grep -oE '[0-9]+ skipped' "$output" | awk '{n += $1} END {print n}')
  if [ -z "$p$f$s" ]; then p=$((status == 0)); fi
  if [ "$status" != 0 ] && [ "${f:-0}" = 0 ]; then f=1; fi
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))
  echo "rust: $name: $([ "$status" = 0 ] && echo ok || echo FAILED)"
}

# Its own tests and the examples of its READMEs are tests of the workspace. So are these programs:
# whoever tests the workspace has built them beside the daemon.
programs=$(dirname "$MAINSPRING")/examples
run "programs of the suite" ls "$programs"/conformance_{capability,client,client_tokio}
for client in conformance_client conformance_client_tokio; do
  run "$client" python3 sdk/conformance/run.py --daemon "$MAINSPRING" --name "rust ${client#conformance_}" \
    --capability "$programs/conformance_capability" --client "$programs/$client"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
