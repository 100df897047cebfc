#!/usr/bin/env bash
# What waits for a machine with a GPU, in the order in which it is worth knowing. Every step runs,
# those that failed are named last, and the logs are in the folder that is given.
#
#   tools/on_gpu.sh cuda results/     with the Python that PYTHON names (python3)
set -uo pipefail
platform=${1:?a platform: cuda or rocm}
logs=${2:?a folder for the logs}
python=${PYTHON:-python3}
cd "$(dirname "${BASH_SOURCE[0]}")/.." && mkdir -p "$logs" || exit 1
tests=("$python" -m pytest -q -p no:cacheprovider "--require-device=$platform")
failed=()

step() {
  local name=$1 start=$SECONDS
  shift
  "$@" >"$logs/$name.log" 2>&1 || failed+=("$name")
  printf '%s: %s s, %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$logs/$name.log")"
}

# Donation, the handoff between streams and the shared pool: all that runs programs rests on them.
step as-read "${tests[@]}" tests/gpu/test_engine.py
step tests "${tests[@]}" tests/gpu --ignore=tests/gpu/test_engine.py
step kit "$python" -m devrt conform "$platform@devrt-$platform"
[[ $platform == cuda ]] && step kit-of-xla "$python" -m devrt conform cuda@jax-cuda13-pjrt
[[ $platform == cuda ]] && step bench "$python" -m bench gpu --no-install
if [[ $platform != cuda ]]; then
  printf 'sanitizer: not run, there is none for %s\n' "$platform"
elif ! command -v compute-sanitizer >/dev/null; then
  printf 'sanitizer: NOT RUN, compute-sanitizer is not installed\n'
else
  # Some calls fail on purpose: for lack of memory, or behind a kernel's last parameter.
  step sanitizer compute-sanitizer --error-exitcode 9 --report-api-errors no "${tests[@]}" \
    tests/gpu -k "not closing and not xlas"
fi
((${#failed[@]})) || exit 0
printf 'FAILED: %s\n' "${failed[@]}"
exit 1
