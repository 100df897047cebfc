#!/usr/bin/env bash
# Builds and runs the C++ tests: plain, with ASan and UBSan, and with TSan.
#
#   tools/native_tests.sh            all three
#   tools/native_tests.sh tsan       one of: plain asan tsan
#
# Warnings are errors in the plain build only: instrumented code makes gcc see false ones.
# DEVRT_NATIVE_PACKAGES="cuda" leaves the others out; DEVRT_SIMULATOR_SEEDS says under how many
# seeds each planted bug is looked for. Each has its own build folder under build/native-tests (or $DEVRT_NATIVE_BUILD). The last line
# sums up: "N passed, N failed".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${DEVRT_NATIVE_BUILD:-$root/build/native-tests}
modes=("$@")
[ ${#modes[@]} -gt 0 ] || modes=(plain asan tsan)
declare -A executables=([cpu]=native [cuda]=gpu [rocm]=rocm)
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:allocator_may_return_null=1}

passed=0
failed=0

# One part of the cases for each processor: most wait more than they compute.
parts=$(nproc)
((parts <= 8)) || parts=8
# An interrupt does not reach what runs in the background.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# Runs an executable's cases, the parts side by side, and adds to the sums what a part printed.
run_parts() {
  local executable=$1 what=$2 part status output pids=()
  for ((part = 0; part < parts; part++)); do
    timeout "${DEVRT_NATIVE_TIMEOUT:-900}" "$executable" "" $part $parts >"$executable.$part" 2>&1 &
    pids+=($!)
  done
  for ((part = 0; part < parts; part++)); do
    status=0
    wait "${pids[part]}" || status=$?
    output=$(<"$executable.$part")
    printf '%s\n' "$output"
    if [[ $output =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
      passed=$((passed + BASH_REMATCH[1]))
      failed=$((failed + BASH_REMATCH[2]))
    elif [ "$status" -eq 0 ]; then
      status=1
    fi
    if [ "$status" -ne 0 ] && [ "${BASH_REMATCH[2]:-0}" -eq 0 ]; then
      failed=$((failed + 1))  # a sanitizer, a crash or the time limit, not a check
      echo "$what ended with status $status"
    fi
  done
}

# Builds and runs the tests of a package in one mode.
run_tests() {
  local mode=$1 package=$2 build=$folder/$1-$2
  echo "== $mode, $package"
  cmake -S "$root/packages/devrt-$package" -B "$build" "${generator[@]}" \
    -DDEVRT_${package^^}_TESTS=ON -DDEVRT_WERROR=$werror \
    -DDEVRT_SANITIZE="$sanitizers" >/dev/null
  cmake --build "$build" --parallel
  run_parts "$build/tests/native/devrt_${executables[$package]}_tests" "the $mode run of $package"
}

for mode in "${modes[@]}"; do
  case $mode in
    plain) sanitizers="" werror=ON ;;
    asan) sanitizers="address,undefined" werror=OFF ;;
    tsan) sanitizers="thread" werror=OFF ;;
    *) echo "unknown mode '$mode': use plain, asan or tsan" >&2; exit 2 ;;
  esac
  for package in ${DEVRT_NATIVE_PACKAGES:-cpu cuda rocm}; do
    run_tests "$mode" $package
  done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
