#!/usr/bin/env bash
# Builds and runs the C++ tests: plain, with ASan and UBSan, and with TSan.
#
#   tools/native_tests.sh            all three
#   tools/native_tests.sh tsan       one of: plain asan tsan
#
# Warnings are errors in the plain build only: instrumented code makes gcc see false ones.
# Each has its own build folder under build/native-tests (or $DEVRT_NATIVE_BUILD). The last line
# sums up: "N passed, N failed".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${DEVRT_NATIVE_BUILD:-$root/build/native-tests}
modes=("$@")
[ ${#modes[@]} -gt 0 ] || modes=(plain asan tsan)
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:allocator_may_return_null=1}

passed=0
failed=0
for mode in "${modes[@]}"; do
  case $mode in
    plain) sanitizers="" werror=ON ;;
    asan) sanitizers="address,undefined" werror=OFF ;;
    tsan) sanitizers="thread" werror=OFF ;;
    *) echo "unknown mode '$mode': use plain, asan or tsan" >&2; exit 2 ;;
  esac
  echo "== $mode"
  cmake -S "$root/packages/devrt-cpu" -B "$folder/$mode" "${generator[@]}" \
    -DDEVRT_CPU_TESTS=ON -DDEVRT_WERROR=$werror \
    -DDEVRT_SANITIZE="$sanitizers" >/dev/null
  cmake --build "$folder/$mode" --parallel
  status=0
  output=$(timeout 400 "$folder/$mode/tests/native/devrt_native_tests" 2>&1) || status=$?
  printf '%s\n' "$output"
  if [[ $output =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  elif [ "$status" -eq 0 ]; then
    status=1
  fi
  if [ "$status" -ne 0 ] && [ "${BASH_REMATCH[2]:-0}" -eq 0 ]; then
    failed=$((failed + 1))  # a sanitizer, a crash or the time limit, not a check
    echo "the $mode run ended with status $status"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
