#!/usr/bin/env bash
# What others made to test servers of the Model Context Protocol, against the bridge. See README.md.
# MAINSPRING is the daemon's program, SDK_TARGET a folder that is kept between runs (see sdk/conformance/README.md).
# The last line of the output reads "N passed, M failed, K skipped".
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mainspring=${MAINSPRING:-$here/../../target/debug/mainspring}
target=${SDK_TARGET:-$here/../../target/sdk/mcp}
mkdir -p "$target" && target=$(cd "$target" && pwd)
unset MAINSPRING_SOCKET MAINSPRING_TCP
passed=0 failed=0 skipped=0
suite=@modelcontextprotocol/conformance@0.2.0-alpha.12
inspector=@modelcontextprotocol/inspector@2.12.0
python_client=mcp==2.3.0
token=a-token-of-the-suite-0123456789

# count NAME STATUS OUTPUT: adds "N passed, M failed, K skipped" of an output, or the command as one test.
count() {
  local name=$1 status=$2 output=$3 p f
  p=$(grep -oE '[0-9]+ passed' "$output" | tail -1 | cut -d' ' -f1)
  f=0
  [ -z "$p" ] && p=$((status == 0))
  [ "$status" != 0 ] && f=1
  passed=$((passed + p)) failed=$((failed + f))
  echo "mcp: $name: $([ "$status" = 0 ] && echo ok || echo FAILED)"
}

# run NAME COMMAND...: runs a command, shows the end of its output, counts it.
run() {
  local name=$1 status=0 output="$target/output"
  shift
  timeout 300 "$@" >"$output" 2>&1 || status=$?
  if [ "$status" = 0 ]; then tail -n 5 "$output"; else cat "$output"; fi
  count "$name" $status "$output"
}

# install WHAT COMMAND...: once; without a network what needs it is skipped.
install() {
  local want=$1 mark="$target/installed-$2"
  [ "$(cat "$mark" 2>/dev/null)" = "$want" ] && return
  "${@:3}" >"$target/output" 2>&1 && echo "$want" >"$mark"
}

started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
}

work=$(mktemp -d "${TMPDIR:-/tmp}/ms-mcp-XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$here/fixture.py" "$here/capability.json" "$work"
printf 'manifests = ["capability.json"]\n[[listen]]\nunix = "app.sock"\n' >"$work/mainspring.toml"
(cd "$work" && exec "$mainspring" up) >"$work/daemon.log" 2>&1 &
started+=($!)
printf 'This is the content of the static text resource.' >"$work/static.txt"
base64 -d >"$work/static.png" <<<iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==
for _ in $(seq 100); do [ -S "$work/app.sock" ] && break; sleep 0.1; done

mkdir -p "$target/npm" && cd "$target/npm"
[ -f package.json ] || echo '{"private": true}' >package.json
if install "$suite $inspector" npm npm install --no-audit --no-fund --loglevel=error "$suite" "$inspector" node@22; then
  node=$target/npm/node_modules/node/bin/node
  tools=()
  for tool in SimpleText ImageContent AudioContent EmbeddedResource MultipleContentTypes ErrorHandling ToolWithProgress \
    LoggingTool StreamingElicitation; do
    tools+=(--tool "test$(sed 's/[A-Z]/_\L&/g' <<<"$tool")=Test.$tool")
  done
  MAINSPRING_MCP_TOKEN=$token "$mainspring" mcp --socket "$work/app.sock" --http 127.0.0.1:0 "${tools[@]}" \
    --document "test://static-text=$work/static.txt" --document "test://static-binary=$work/static.png" 2>"$work/bridge.log" &
  started+=($!)
  for _ in $(seq 100); do grep -q 'http://' "$work/bridge.log" && break; sleep 0.1; done
  port=$(grep -oE '127.0.0.1:[0-9]+' "$work/bridge.log" | head -1 | cut -d: -f2)
  "$node" "$here/proxy.mjs" "$port" "$token" >"$work/proxy.log" &
  started+=($!)
  for _ in $(seq 100); do [ -s "$work/proxy.log" ] && break; sleep 0.1; done
  url=http://127.0.0.1:$(cat "$work/proxy.log")/mcp
  for revision in 2026-07-28 2025-11-25; do
    run "conformance $revision" "$node" node_modules/@modelcontextprotocol/conformance/dist/index.js server --url "$url" \
      --requirements $revision --expected-failures "$here/baseline-$revision.yml" -o "$work/results"
  done
  inspect() { "$node" "$target/npm/node_modules/.bin/mcp-inspector" --cli "$mainspring" mcp --socket "$work/app.sock" "$@"; }
  export -f inspect && export node target mainspring work
  run "inspector lists tools" bash -c 'inspect --method tools/list | grep Memory_Set'
  run "inspector calls a tool" bash -c 'inspect --method tools/call --tool-name Test_Echo --tool-arg text=hello | grep hello'
else
  skipped=$((skipped + 4)) && echo "mcp: the suite and the inspector cannot be installed here"
fi

if install "$python_client" python sh -c "python3 -m venv '$target/venv' && '$target/venv/bin/pip' install -q '$python_client'"; then
  run "python client" "$target/venv/bin/python" "$here/client.py" "$mainspring" "$work"
  mkdir "$work/adapter"
  run "adapter" "$target/venv/bin/python" "$here/adapter.py" "$mainspring" "$work/adapter"
  # The example in a folder of its own: what its programs need is named from there.
  guest=$here/../../target/guests/fetch.wasm
  if [ -f "$guest" ] && [ -n "${node:-}" ]; then
    cp -r "$here/../../examples/agent" "$work/agent" && cp "$guest" "$work/agent/capabilities/pages/"
    agent_port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    sed -i "s/7788/$agent_port/g" "$work/agent/mainspring.toml" "$work/agent/capabilities/pages/capability.json"
    sed -i "s#../../../../sdk#$here/..#" "$work/agent/capabilities/notes/capability.json"
    rm -rf "$work/agent/capabilities/calendar/node_modules" && mkdir -p "$work/agent/capabilities/calendar/node_modules/@mainspring"
    ln -s "$here/../typescript" "$work/agent/capabilities/calendar/node_modules/@mainspring/sdk"
    (cd "$work/agent" && PATH="$(dirname "$node"):$PATH" exec "$mainspring" up) >"$work/agent.log" 2>&1 &
    started+=($!)
    for _ in $(seq 300); do [ -S "$work/agent/agent.sock" ] && break; sleep 0.1; done
    run "agent" "$target/venv/bin/python" "$here/agent.py" "$mainspring" "$work/agent"
  else
    skipped=$((skipped + 1)) && echo "mcp: the example needs target/guests (cargo xtask guests) and Node 22"
  fi
else
  skipped=$((skipped + 3)) && echo "mcp: the Python client cannot be installed here"
fi
finish
