# Builds {{name}}: `sh build.sh` in this folder.
#
# It takes the first of these that is there: the compiler that $WASI_CC names; the clang of wasi-sdk
# ($WASI_SDK_PATH, or /opt/wasi-sdk); zig; clang with the wasi-libc of the system.

cd "$(dirname "$0")" || exit 1
flags="-O2 -Wall -o main.wasm main.c"
sdk=${WASI_SDK_PATH:-/opt/wasi-sdk}

if [ -n "$WASI_CC" ]; then
    set -- $WASI_CC
elif [ -x "$sdk/bin/clang" ]; then
    set -- "$sdk/bin/clang"
elif command -v zig >/dev/null; then
    set -- zig cc -target wasm32-wasi
elif command -v clang >/dev/null && [ -e /usr/lib/wasm32-wasi/libc.a ]; then
    set -- clang --target=wasm32-wasi --sysroot=/usr
else
    echo "there is no compiler for WASI here: install wasi-sdk or zig, or name one in WASI_CC" >&2
    exit 1
fi
exec "$@" $flags
