#!/usr/bin/env bash
# Everything of the Python SDK: package, tests against the installed package, README, types,
# conformance. MAINSPRING is the daemon's program, SDK_TARGET a folder that is kept between runs
# (see sdk/conformance/README.md). The last line of the output reads "N passed, M failed, K
# skipped".
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export MAINSPRING=${MAINSPRING:-$here/../../target/debug/mainspring}
target=${SDK_TARGET:-$here/../../target/sdk/python}
python=${PYTHON:-python3}
unset PYTHONPATH
mkdir -p "$target" && target=$(cd "$target" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ms-python-XXXXXX")
trap 'rm -rf "$work"' EXIT
: >"$work/tally"

# run NAME COMMAND...: runs a command, shows its output, counts "N passed, M failed, K skipped" in
# it, or the command as one test.
run() {
  local name=$1 status=0 output p f s
  shift
  output=$(mktemp "$work/output-XXXXXX")
  "$@" >"$output" 2>&1 || status=$?
  p=$(grep -oE '[0-9]+ passed' "$output" | tail -1 | cut -d' ' -f1)
  f=$(grep -oE '[0-9]+ failed' "$output" | tail -1 | cut -d' ' -f1)
  s=$(grep -oE '[0-9]+ skipped' "$output" | tail -1 | cut -d' ' -f1)
  if [ -z "$p$f$s" ]; then p=$((status == 0)); fi
  if [ "$status" != 0 ] && [ "${f:-0}" = 0 ]; then f=1; fi
  echo "${p:-0} ${f:-0} ${s:-0}" >>"$work/tally"
  if [ "$status" = 0 ]; then echo "ok   python: $name: ${p:-0} passed"; else { cat "$output" && echo "FAIL python: $name"; }; fi
}

# tools VENV PACKAGES...: a virtual environment with packages, made once.
tools() {
  local venv=$1 want="${*:2}"
  [ "$(cat "$venv/packages" 2>/dev/null)" = "$want" ] && return
  rm -rf "$venv" && "$python" -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check "${@:2}" && echo "$want" >"$venv/packages"
}

tools "$target/tools" build==1.6.1 flit_core==4.2.0 pytest==9.2.0 mypy==2.4.1 pyright==1.1.414 ruff==0.17.4 pydantic==2.14.3 msgspec==0.22.0 ||
  { echo "0 passed, 1 failed, 0 skipped" && exit 1; }
bin=$target/tools/bin

# The package: built as the registry wants it, and nothing is tested that is not in it.
rm -rf "$target/dist" "$target/work" && cp -r "$here" "$target/work" && find "$target/work" -name __pycache__ -prune -exec rm -rf {} +
run "package" "$bin/python" -m build --no-isolation --outdir "$target/dist" "$target/work"
wheel=$(ls "$target"/dist/*.whl) && "$bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps "$wheel"
rm -rf "$target/work/src"

own_tests() {
  cd "$target/work" || return
  run "package holds what it should" "$bin/python" -m pytest -q tests/test_package.py --package "$target/dist"
  run "tests" "$bin/python" -m pytest -q tests --ignore tests/test_package.py
}

style() {
  cd "$here" || return
  run "format" "$bin/ruff" format --check --no-cache
  run "lint" "$bin/ruff" check --no-cache
  run "mypy" "$bin/mypy" --cache-dir "$target/mypy"
  # pyright brings a program of its own by npm.
  run "pyright" "$bin/pyright" --pythonpath "$bin/python"
}

# Every other Python that is here, without any other package. (A shim of pyenv may have no Python
# behind it.)
find_python() {
  local candidate
  for candidate in "$(command -v "python$1")" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    [ -x "$candidate" ] && "$candidate" -m pip --version >/dev/null 2>&1 && echo "$candidate" && return
  done
  return 1
}

other_versions() {
  local ours version other
  cd "$target/work" || return
  ours=$("$bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for version in 3.10 3.11 3.12 3.13 3.14; do
    [ "$version" != "$ours" ] && other=$(find_python $version) || continue
    python=$other tools "$target/python$version" pytest==9.2.0 || continue
    "$target/python$version/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps "$wheel"
    # What is about other packages (pydantic, msgspec) has none here.
    run "tests on $version" "$target/python$version/bin/python" -m pytest -q tests --ignore tests/test_package.py \
      --ignore tests/test_readme.py -k "not pydantic and not msgspec"
  done
}

conformance() {
  local face
  for face in "" _sync; do
    run "conformance$face" "$bin/python" "$here/../conformance/run.py" --daemon "$MAINSPRING" --name "python$face" \
      --capability "$bin/python $here/conformance/capability$face.py" --client "$bin/python $here/conformance/client$face.py"
  done
}

# Side by side: much of the time each waits.
(own_tests) &
(style && other_versions) &
(conformance) &
wait
awk '{p += $1; f += $2; s += $3} END {print p " passed, " f " failed, " s " skipped"; exit f > 0}' "$work/tally"
