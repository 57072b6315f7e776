#!/usr/bin/env bash
# Builds, packs and tests the SDK: `cargo xtask sdk typescript` calls it with MAINSPRING (the
# daemon's program) and SDK_TARGET (a folder to install into). `ci.sh build` formats the sources and
# brings dist/ up to date, `ci.sh prepare` packs and installs the package, and nothing else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for program in node npm python3; do
    if ! command -v "$program" >/dev/null; then
        echo "missing: $program, which the TypeScript SDK is tested with"
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    fi
done
export SDK_TARGET=${SDK_TARGET:-$here/../../target/sdk/typescript}
exec node "$here/dev/ci.mjs" "$@"
