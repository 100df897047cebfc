#!/usr/bin/env bash
# Builds and runs the C++ tests: plain, with ASan and UBSan, and with TSan.
#
#   tools/native_tests.sh            all three
#   tools/native_tests.sh tsan       one of: plain asan tsan
#
# Warnings are errors in the plain build only: instrumented code makes gcc see false ones.
# Each has its own build folder under build/native-tests (or $DEVRT_NATIVE_BUILD).
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
  ctest --test-dir "$folder/$mode" --output-on-failure --timeout 60
done
