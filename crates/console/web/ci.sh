#!/usr/bin/env bash
# Checks the page's types, proves that the assets come from the sources, and tests the page in a
# browser: `cargo xtask console` calls it with MAINSPRING (the daemon's program), MAINSPRING_GUESTS
# and CONSOLE_TARGET (a folder for screenshots). `ci.sh build` builds ../assets and nothing else;
# `ci.sh measure` measures what an open console costs; more words choose tests by a part of their
# names.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
for program in node npm; do
    if ! command -v "$program" >/dev/null; then
        echo "missing: $program; the console is not tested"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done
export CONSOLE_TARGET=${CONSOLE_TARGET:-$here/../../../target/console}
# The tools, as the lock file has them; installed when that changed.
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.installed
fi
if [ "${1:-}" = build ]; then
    exec node build.mjs
fi
if [ "${1:-}" = measure ]; then
    shift
    exec node test/measure.mjs "$@"
fi
exec node test/run.mjs "$@"
