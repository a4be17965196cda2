#!/usr/bin/env bash
# Installs what tally needs, as root; otherwise, or where there is no known package manager, says what is missing.
#
#   deps.sh [--check] [build] [test] [fetch] [arm] [simde]     default: build test
#
#   build   C compiler, GNU make, pkg-config, jansson, PCRE2, utf8proc
#   test    cmocka
#   fetch   python3 with pip, which fetches models from PyPI
#   arm     for `make check-arm`: cross compiler, qemu, and the libraries for arm64 (adds that architecture; Debian, Ubuntu)
#   simde   for `make check-simde`: SIMDe
#
# --check installs nothing. Exit code 0: everything is there.
set -euo pipefail

check=no
groups=()
for arg in "$@"; do
  case $arg in
    --check) check=yes ;;
    build | test | fetch | arm | simde) groups+=("$arg") ;;
    *)
      echo "deps.sh: '$arg' is none of --check, build, test, fetch, arm, simde" >&2
      exit 2
      ;;
  esac
done
[ ${#groups[@]} -gt 0 ] || groups=(build test)

has_command() { command -v "$1" >/dev/null 2>&1; }
has_library() { has_command pkg-config && pkg-config --exists "$1"; }

# Each line of a group: the test, its argument, the package of Debian and Ubuntu, the package of openEuler and Fedora.
needs() {
  case $1 in
    build)
      echo "has_command cc gcc gcc"
      echo "has_command ld binutils binutils"
      echo "has_header stdio.h libc6-dev glibc-devel"
      echo "has_command make make make"
      echo "has_command pkg-config pkg-config pkgconf"
      echo "has_library jansson libjansson-dev jansson-devel"
      echo "has_library libpcre2-8 libpcre2-dev pcre2-devel"
      echo "has_library libutf8proc libutf8proc-dev utf8proc-devel"
      ;;
    test) echo "has_library cmocka libcmocka-dev libcmocka-devel" ;;
    fetch)
      echo "has_command python3 python3 python3"
      echo "has_pip pip python3-pip python3-pip"
      ;;
    arm) # no names of openEuler and Fedora: their repositories are of one architecture
      echo "has_command aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu gcc-aarch64-linux-gnu"
      echo "has_arm_header stdio.h libc6-dev-arm64-cross (glibc-devel-for-aarch64)"
      echo "has_command qemu-aarch64 qemu-user qemu-user"
      echo "has_arm_library jansson libjansson-dev:arm64 (jansson-for-aarch64)"
      echo "has_arm_library libpcre2-8 libpcre2-dev:arm64 (pcre2-for-aarch64)"
      echo "has_arm_library libutf8proc libutf8proc-dev:arm64 (utf8proc-for-aarch64)"
      echo "has_arm_library cmocka libcmocka-dev:arm64 (cmocka-for-aarch64)"
      ;;
    simde) echo "has_header simde/x86/avx512.h libsimde-dev simde-devel" ;;
  esac
}
has_arm_header() { echo "#include <$1>" | aarch64-linux-gnu-gcc -E - >/dev/null 2>&1; }
has_arm_library() { has_command pkg-config && PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig pkg-config --exists "$1"; }
has_header() { has_command cc && echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
has_pip() { has_command python3 && python3 -m pip --version >/dev/null 2>&1; }

if has_command apt-get; then
  column=3 manager="apt-get install"
elif has_command dnf; then
  column=4 manager="dnf install"
elif has_command yum; then
  column=4 manager="yum install"
else
  column=4 manager=
fi

missing() { # packages that are needed and not there, one a line
  local group row
  for group in "${groups[@]}"; do
    while read -r -a row; do
      "${row[0]}" "${row[1]}" || echo "${row[$((column - 1))]}"
    done < <(needs "$group")
  done
}

mapfile -t packages < <(missing)
[ ${#packages[@]} -gt 0 ] || exit 0

case "${packages[*]}" in *-for-aarch64*) manager= ;; esac
advice="missing: ${packages[*]}"
if [ -n "$manager" ]; then
  advice+=$'\n'"install with (as root): $manager ${packages[*]}"
else
  advice+=" (names of openEuler and Fedora; this script cannot install them here)"
fi
if [ "$check" = yes ] || [ "$(id -u)" != 0 ] || [ -z "$manager" ]; then
  echo "$advice" >&2
  exit 1
fi

echo "installing ${packages[*]}" >&2
if [ "$column" = 3 ]; then
  export DEBIAN_FRONTEND=noninteractive
  case " ${packages[*]}" in *:arm64*) dpkg --add-architecture arm64 ;; esac
  apt-get update -qq </dev/null >&2
  apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null
else
  ${manager%% *} install -y -q "${packages[@]}" </dev/null >/dev/null
fi
hash -r
mapfile -t packages < <(missing)
if [ ${#packages[@]} -gt 0 ]; then
  echo "still missing after the installation: ${packages[*]}" >&2
  exit 1
fi
