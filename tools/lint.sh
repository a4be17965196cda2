#!/usr/bin/env bash
# Checks the rules of the house that a compiler does not. `make lint` builds the objects first, then runs this.
#
#   lint.sh [-v]      -v: also lists what is over the comfortable sizes
#
# Prints one line per violation, FILE: RULE, and exits with 1 when there is any.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
verbose=no
[ "${1:-}" = -v ] && verbose=yes
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
obj=${BUILD:-build/release}/obj
log=$(mktemp)
trap 'rm -f "$log"' EXIT
complain() { echo "$1" | tee -a "$log"; }
complain_all() { tee -a "$log"; } # lines on standard input

# Sizes that are over a limit for a reason.
allowed_sizes() {
  case $1 in
    # the public interface spells its arguments out
    src/engine/model_api.c:*parameters* | src/engine/session.c:*parameters*) return 0 ;;
    # kernels take their numbers as plain arguments: structs would be memory traffic in the innermost calls
    src/backend/cpu/scalar/float_scalar.c:*parameters* | src/backend/cpu/simd/rows_tmpl.h:*parameters*) return 0 ;;
    # one value, its place in the message, its range
    src/base/json.c:*parameters* | src/file/safetensors.c:*parameters*) return 0 ;;
    # stands in for a kernel
    tests/spec/test_rows.c:*parameters*) return 0 ;;
    # the vendor's functions have the parameters they have
    emulator/aclnn/*:*parameters* | emulator/core/copy.c:*parameters*) return 0 ;;
    # a writer of test files mirrors the fields of the format
    tests/support/*:*parameters* | tests/ops/test_ops.c:*parameters* | tests/emulator/*:*parameters*) return 0 ;;
    *) return 1 ;;
  esac
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard 'src/*.[ch]' 'cmd/*.[ch]' 'include/*.h' 'emulator/*.[ch]' 'tests/*.[ch]' 'examples/*.[ch]' | sort)
[ ${#sources[@]} -gt 0 ] || { echo "lint.sh: git lists no sources here; nothing was checked" >&2 && exit 1; }
mapfile -t library < <(printf '%s\n' "${sources[@]}" | grep '^src/')

# ---- who may include whom ------------------------------------------------------------------------------------------------
allowed_for() {
  case $1 in
    src/base/*) echo base ;;
    src/tensor/*) echo base tensor ;;
    src/file/*) echo base tensor file ;;
    src/text/*) echo base file text ;;
    src/op/*) echo base tensor op ;;
    src/backend/cpu/*) echo base tensor op backend/cpu ;;
    src/backend/ascend/*) echo base tensor op backend/ascend cann ;;
    src/backend/cost/*) echo base tensor op backend/cost ;;
    src/comm/*) echo base tensor op comm ;;
    src/model/*) echo base tensor file op comm model ;;
    src/cache/*) echo base tensor op cache ;;
    src/spec/*) echo base tensor op model cache spec ;;
    src/engine/backends.c) echo base tensor file text op comm model cache spec engine backend/cpu backend/cost backend/ascend tally.h ;;
    src/engine/*) echo base tensor file text op comm model cache spec engine tally.h ;;
    emulator/include/*) echo cann ;;
    emulator/*) echo base cann emulator ;; # independent of the backends it checks
    cmd/*) echo base cmd tally.h ;;
    include/* | examples/*) echo ;;
    *) echo any ;;
  esac
}
check_includes() {
  local file allowed include folder
  for file in "${sources[@]}"; do
    allowed=$(allowed_for "$file")
    [ "$allowed" = any ] && continue
    while read -r include; do
      case $include in
        backend/*/*) folder=$(echo "$include" | cut -d/ -f1,2) ;;
        */*) folder=${include%%/*} ;;
        *) folder=$include ;;
      esac
      case " $allowed " in
        *" $folder "*) ;;
        *) complain "$file: may not include \"$include\"; allowed here: ${allowed:-nothing of ours}" ;;
      esac
    done < <(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file")
  done
}

# ---- sizes: a file under 600 lines (at most 1000), a function under 60 (at most 120), at most 6 parameters ---------------
check_sizes() {
  local file
  for file in "${sources[@]}"; do
    awk -v file="$file" -v verbose="$verbose" '
      function params(s,   i, c, depth, n, text) {
        text = substr(s, index(s, "("))
        for (i = 1; i <= length(text); i++) {
          c = substr(text, i, 1)
          if (c == "(") depth++
          if (c == ")" && --depth == 0) break
          if (c == "," && depth == 1) n++
        }
        return n + 1
      }
      function finish() {
        lines = NR - start + 1
        if (lines > 120) print file ":" start ": a function of " lines " lines; 120 at most"
        else if (lines > 60 && verbose == "yes") print file ":" start ": note: a function of " lines " lines"
      }
      { sub(/[ \t]*\/\/.*$/, "") }
      /^[A-Za-z_].*\(/ && !/^(typedef|#|struct.*=|enum|extern)/ && !/;$/ && !/=/ { head = ""; start = NR; in_head = 1 }
      in_head { head = head $0
        if (/;$/) in_head = 0
        else if (/\{$/) { in_head = 0; in_body = 1
          if (params(head) > 6) print file ":" start ": a function with " params(head) " parameters; 6 at most"
        } else if (/\{.*\}$/) { in_head = 0
          if (params(head) > 6) print file ":" start ": a function with " params(head) " parameters; 6 at most" } }
      in_body && /^}/ { finish(); in_body = 0 }
      END {
        if (NR > 1000) print file ": " NR " lines; 1000 at most"
        else if (NR > 600 && verbose == "yes") print file ": note: " NR " lines"
      }' "$file"
  done | while read -r line; do
    case $line in
      *': note: '*) echo "$line" ;;
      *) allowed_sizes "$line" || complain "$line" ;;
    esac
  done
}

# ---- every header compiles alone; the public one as C++ too --------------------------------------------------------------
isa_flags() { # as in mk/isa.mk; fails for another architecture's headers
  local avx512="-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c"
  case $1 in
    *_neon.h | *_dotprod.h | *_i8mm.h) [ "$(uname -m)" = aarch64 ] && echo -march=armv8.2-a+dotprod+i8mm ;;
    *_avx*.h) [ "$(uname -m)" = x86_64 ] || return 1 ;;&
    *_avx2.h) echo -mavx2 -mfma -mf16c ;;
    *_avx512.h) echo "$avx512" ;;
    *_avx512vnni.h) echo "$avx512 -mavx512vnni" ;;
    *_avx512bf16.h) echo "$avx512 -mavx512vnni -mavx512bf16" ;;
    *) return 0 ;;
  esac
}
check_headers() {
  local file flags
  # shellcheck disable=SC2046  # the libraries' flags are words
  flags=$(pkg-config --cflags jansson libpcre2-8 libutf8proc)
  for file in "${sources[@]}"; do
    case $file in *_tmpl.h | *.c | tests/simde/*) continue ;; esac # SIMDe need not be installed
    isa_flags "$file" >/dev/null || continue
    # shellcheck disable=SC2046,SC2086
    "${cc[@]}" -std=c11 -D_GNU_SOURCE -Iinclude -Isrc -I. -Iemulator/include $flags $(isa_flags "$file") -Wall -Wextra -Werror -Wno-unused-function \
      -fsyntax-only -include "$file" -x c /dev/null 2>/dev/null || complain "$file: does not compile alone"
  done
  if command -v c++ >/dev/null; then
    c++ -fsyntax-only -Wall -Wextra -Werror -x c++ -include include/tally.h /dev/null || complain "include/tally.h: is no valid C++"
  fi
}

# ---- what the objects define and call ------------------------------------------------------------------------------------
check_writable() { # .data.rel.ro holds constants with addresses in them
  local object
  while read -r object; do
    nm --format=sysv "$object" | awk -F'|' -v o="${object#"$obj"/}" '
      { gsub(/ /, "", $1); gsub(/ /, "", $7) }
      $7 ~ /^(\.data|\.bss|\*COM\*|\.tdata|\.tbss)/ && $7 !~ /^\.data\.rel\.ro/ && $1 !~ /^\./ {
        sub(/\.o$/, ".c", o); print o ": writable variable " $1 " outside of a function or static in one" }'
  done < <(find "$obj/src" "$obj/cmd" -name '*.o' 2>/dev/null) | complain_all
}

# Prints "file symbol" for every undefined symbol of an object that a source file of today made.
calls() {
  local file object
  for file in "$@"; do
    object=$obj/${file%.c}.o
    [ -e "$object" ] || continue
    nm -u --format=posix "$object" | awk -v f="$file" '{ print f, $1 }'
  done
}
check_calls() {
  local file symbol
  while read -r file symbol; do
    case $symbol in
      exit | _exit | abort | quick_exit) complain "$file: calls $symbol; the library returns a status" ;;
      getenv | secure_getenv)
        [ "$file" = src/base/env.c ] || complain "$file: calls $symbol; only src/base/env.c reads the environment" ;;
      printf | puts | putchar | fprintf | vfprintf | fputs | fputc | stdout | stderr | perror | __printf_chk | __fprintf_chk)
        complain "$file: prints ($symbol); the library returns sentences" ;;
      malloc | calloc | realloc | reallocarray | aligned_alloc | posix_memalign | strdup)
        case $file in src/op/* | src/backend/*/x86/* | src/backend/*/simd/* | src/backend/*/scalar/* | src/backend/*/arm/*)
          complain "$file: calls $symbol; lists live in arenas and kernels work in the workspace" ;;
        esac ;;
      exp | expf | exp2 | exp2f | log | logf | log2 | log10 | sin | sinf | cos | cosf | sincos | sincosf | tanh | tanhf | pow | powf)
        case $file in src/backend/cpu/*) complain "$file: calls $symbol of libm; use base/elementary.h (docs/exactness.md)" ;; esac ;;
      strtok | rand | srand | localtime | gmtime | setlocale | strerror_l)
        complain "$file: calls $symbol, which keeps hidden state" ;;
    esac
  done < <(calls "${library[@]}" | sort -u)
}

# ---- text ----------------------------------------------------------------------------------------------------------------
check_text() {
  local file
  for file in "${sources[@]}" Makefile mk/*.mk scripts/*.sh tools/*.sh bench/*.sh; do
    LC_ALL=C grep -nP '[^\x00-\x7f]' "$file" | head -1 | grep -q . && case $file in
      tests/* | src/text/*) ;; # tests and tables of text need other characters
      *) complain "$file: holds characters outside of ASCII" ;;
    esac
    grep -qP '[ \t]+$' "$file" && complain "$file: has blanks at the end of a line"
    [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ] && complain "$file: does not end with a newline"
  done
  return 0
}

check_format() {
  local tool
  tool=$(command -v clang-format-14 || command -v clang-format) || tool=
  if [ -z "$tool" ] || ! "$tool" --version | grep -q 'version 14\.'; then
    echo "lint.sh: clang-format 14 is not here; formatting is not checked" >&2
    return
  fi
  printf '%s\n' "${sources[@]}" | xargs -n 16 "$tool" --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should.*/\1/p' |
    sort | uniq -c | awk '{ print $2 ": is not formatted (" $1 " places); run clang-format -i" }' | complain_all
}

check_scripts() {
  if command -v shellcheck >/dev/null; then
    shellcheck -f gcc scripts/*.sh tools/*.sh bench/*.sh .ci/run | complain_all
  else
    echo "lint.sh: shellcheck is not here; scripts are not checked" >&2
  fi
}

check_includes
check_sizes
check_headers
check_writable
check_calls
check_text
check_format
check_scripts
n=$(wc -l <"$log")
echo "lint: $n violation(s) in ${#sources[@]} files"
[ "$n" -eq 0 ]
