#!/usr/bin/env bash
# Proves the HTTP listener of a running daemon with what others made: `cargo xtask http` calls it
# with MAINSPRING (the daemon's program) and HTTP_TARGET (a folder that is kept between runs). More
# words choose checks by a part of their names. The last line of the output reads "N passed, M
# failed, K skipped". See README.md.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export MAINSPRING=${MAINSPRING:-$here/../../../target/debug/mainspring}
export HTTP_TARGET=${HTTP_TARGET:-$here/../../../target/http}
mkdir -p "$HTTP_TARGET"

# install LIST COMMAND...: once for each state of the list.
install() {
    cmp -s "$here/$1" "$HTTP_TARGET/installed-$1" && return
    "${@:2}" >"$HTTP_TARGET/install.log" 2>&1 && cp "$here/$1" "$HTTP_TARGET/installed-$1" && return
    echo "cannot install what $1 lists:"
    tail -n 5 "$HTTP_TARGET/install.log"
    return 1
}

python_tools() {
    python3 -m venv "$HTTP_TARGET/venv" && "$HTTP_TARGET/venv/bin/pip" install --quiet -r "$here/requirements.txt"
}

node_tools() {
    mkdir -p "$HTTP_TARGET/node" && cp "$here/package.json" "$here/asyncapi.mjs" "$HTTP_TARGET/node" &&
        cd "$HTTP_TARGET/node" && npm install --no-audit --no-fund --ignore-scripts --loglevel=error
}

if ! install requirements.txt python_tools; then
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
(install package.json node_tools) || true
cp "$here/asyncapi.mjs" "$HTTP_TARGET/node/" 2>/dev/null
exec "$HTTP_TARGET/venv/bin/python" "$here/run.py" "$@"
