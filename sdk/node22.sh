#!/usr/bin/env bash
# Prints the path of Node 22, which runs TypeScript as it is. It is installed once, from npm, below
# the folder that is named (target/sdk if none is): whoever comes second waits for the first.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../target/sdk}/node22
version=22.23.3
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)
program=$folder/node_modules/node/bin/node
(
  flock 9
  if [ "$("$program" --version 2>/dev/null)" != "v$version" ]; then
    echo '{"private": true}' >"$folder/package.json"
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "node@$version" >"$folder/log" 2>&1 ||
      { cat "$folder/log" >&2 && exit 1; }
  fi
) 9>"$folder/lock"
"$program" --version >/dev/null
echo "$program"
