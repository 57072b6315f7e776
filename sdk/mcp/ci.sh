#!/usr/bin/env bash
# What others made to test servers of the Model Context Protocol, against the bridge; and what they
# do not look for. See README.md. MAINSPRING is the daemon's program, SDK_TARGET a folder that is
# kept between runs (see sdk/conformance/README.md). The last line of the output reads "N passed, M
# failed, K skipped".
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mainspring=${MAINSPRING:-$here/../../target/debug/mainspring}
target=${SDK_TARGET:-$here/../../target/sdk/mcp}
guests=${MAINSPRING_GUESTS:-$here/../../target/guests}
mkdir -p "$target" && target=$(cd "$target" && pwd)
unset MAINSPRING_SOCKET MAINSPRING_TCP
suite=@modelcontextprotocol/conformance@0.2.0-alpha.12
inspector=@modelcontextprotocol/inspector@2.12.0
python_client=mcp==2.3.0
token=a-token-of-the-suite-0123456789
work=$(mktemp -d "${TMPDIR:-/tmp}/ms-mcp-XXXXXX")
: >"$work/tally"
started=()

# note PASSED FAILED: counts.
note() { echo "$1 $2" >>"$work/tally"; }

# run NAME COMMAND...: runs a command, shows its output if it fails and the end of it if not, and
# counts "N passed" or the command.
run() {
  local name=$1 status=0 output passed
  shift
  output=$(mktemp "$work/output-XXXXXX")
  timeout 300 "$@" >"$output" 2>&1 || status=$?
  passed=$(grep -oE '[0-9]+ passed' "$output" | tail -1 | cut -d' ' -f1)
  note "${passed:-$((status == 0))}" $((status != 0))
  if [ "$status" = 0 ]; then
    echo "ok   mcp: $name: ${passed:-1} passed"
  else
    { cat "$output" && echo "FAIL mcp: $name ($status)"; } 2>&1
  fi
}

# install WHAT FILE COMMAND...: once; what cannot be installed is a failure.
install() {
  local want=$1 mark="$target/installed-$2" log
  [ "$(cat "$mark" 2>/dev/null)" = "$want" ] && return
  log=$(mktemp "$work/install-XXXXXX")
  if "${@:3}" >"$log" 2>&1; then
    echo "$want" >"$mark"
  else
    cat "$log" && echo "FAIL mcp: cannot install $want" && note 0 1
    return 1
  fi
}

# wait_for COMMAND...: until it succeeds; at most 60 s.
wait_for() {
  for _ in $(seq 600); do "$@" && return; sleep 0.1; done
  return 1
}

finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT

start_daemon() {
  mkdir "$work/test" && cp "$here/fixture.py" "$here/capability.json" "$work/test"
  printf 'manifests = ["*/capability.json"]\n[[listen]]\nunix = "app.sock"\n' >"$work/mainspring.toml"
  (cd "$work" && exec "$mainspring" up) >"$work/daemon.log" 2>&1 &
  started+=($!)
  printf 'This is the content of the static text resource.' >"$work/static.txt"
  base64 -d >"$work/static.png" <<<iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==
}

# The bridge by HTTP with the names that the suite wants; prints nothing, sets url.
start_bridge() {
  local tools=() tool port
  for tool in SimpleText ImageContent AudioContent EmbeddedResource MultipleContentTypes ErrorHandling ToolWithProgress \
    LoggingTool StreamingElicitation TriggerToolChange; do
    tools+=(--tool "test$(sed 's/[A-Z]/_\L&/g' <<<"$tool")=Test.$tool")
  done
  tools+=(--tool json_schema_2020_12_tool=Test.JsonSchema)
  MAINSPRING_MCP_TOKEN=$token "$mainspring" mcp --socket "$work/app.sock" --http 127.0.0.1:0 "${tools[@]}" \
    --document "test://static-text=$work/static.txt" --document "test://static-binary=$work/static.png" 2>"$work/bridge.log" &
  started+=($!)
  wait_for grep -q 'http://' "$work/bridge.log"
  port=$(grep -oE '127.0.0.1:[0-9]+' "$work/bridge.log" | head -1 | cut -d: -f2)
  "$node" "$here/proxy.mjs" "$port" "$token" >"$work/proxy.log" &
  started+=($!)
  wait_for test -s "$work/proxy.log"
  url=http://127.0.0.1:$(cat "$work/proxy.log")/mcp
}

inspect() { "$node" "$target/npm/node_modules/.bin/mcp-inspector" --cli "$mainspring" mcp --socket "$work/app.sock" "$@"; }

# What comes from npm: the official suite in both eras, and the inspector.
of_npm() {
  local revision
  for revision in 2026-07-28 2025-11-25; do
    run "conformance $revision" "$node" "$target/npm/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" \
      --requirements $revision --expected-failures "$here/baseline-$revision.yml" -o "$work/results"
  done
  export -f inspect && export node target mainspring work
  run "inspector lists tools" bash -c 'inspect --method tools/list | grep Memory_Set'
  run "inspector calls a tool" bash -c 'inspect --method tools/call --tool-name Test_Echo --tool-arg text=hello | grep hello'
}

# The example in a folder of its own: what its programs need is named from there.
agent() {
  local port folder=$work/agent
  cp -r "$here/../../examples/agent" "$folder" && cp "$guests/fetch.wasm" "$folder/capabilities/pages/"
  port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
  sed -i "s/7788/$port/g" "$folder/mainspring.toml" "$folder/capabilities/pages/capability.json"
  sed -i "s#../../../../sdk#$here/..#" "$folder/capabilities/notes/capability.json"
  rm -rf "$folder/capabilities/calendar/node_modules" && mkdir -p "$folder/capabilities/calendar/node_modules/@mainspring"
  ln -s "$here/../typescript" "$folder/capabilities/calendar/node_modules/@mainspring/sdk"
  (cd "$folder" && PATH="$(dirname "$node"):$PATH" exec "$mainspring" up) >"$work/agent.log" 2>&1 &
  local daemon=$!
  wait_for test -S "$folder/agent.sock"
  run "agent" "$python" "$here/agent.py" "$mainspring" "$folder" "$guests/fetch.wasm"
  kill $daemon && wait $daemon
}

of_python() {
  mkdir "$work/adapter" "$work/bridge"
  run "python client" "$python" "$here/client.py" "$mainspring" "$work"
  run "bridge" "$python" "$here/bridge.py" "$mainspring" "$work/bridge"
  run "adapter" "$python" "$here/adapter.py" "$mainspring" "$work/adapter"
  agent
}

mkdir -p "$target/npm" && [ -f "$target/npm/package.json" ] || echo '{"private": true}' >"$target/npm/package.json"
install "$python_client" python sh -c "python3 -m venv '$target/venv' && '$target/venv/bin/pip' install -q '$python_client'" &
pip=$!
start_daemon
python=$target/venv/bin/python
if node=$("$here/../node22.sh" "$(dirname "$target")") && wait_for test -S "$work/app.sock"; then
  start_bridge
  (
    install "$suite $inspector" npm \
      npm install --prefix "$target/npm" --no-audit --no-fund --loglevel=error "$suite" "$inspector" && of_npm
  ) &
  suites=$!
  wait $pip && of_python
  wait $suites
else
  note 0 1 && echo "FAIL mcp: there is no Node 22, or the daemon does not start: $(tail -5 "$work/daemon.log")"
fi
awk '{p += $1; f += $2} END {print p " passed, " f " failed, 0 skipped"; exit f > 0}' "$work/tally"
