# shellcheck shell=bash
# Sourced by the bench-* scripts and kill-and-compare: a state directory of their own, clocks,
# medians, and the one line a figure is printed as:
#
#   name value unit goal verdict        verdict: met, missed, or info (no goal)
#
# After `begin`, $work is a temporary directory, MUSTER_HOME lies in it, and every muster process
# that belongs to it ends with the script. `finish` exits 0 only when no goal was missed.
set -uo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MUSTER=$(readlink -f "${MUSTER:-$source/build/release/bin/muster}")
missed=0

die() { echo "$(basename "$0"): $*" >&2; exit 2; }

begin() { # PROGRAM… that must be there
  local program
  [ -x "$MUSTER" ] || die "no $MUSTER: build it with scripts/build release, or set MUSTER"
  for program in "$@"; do
    command -v "$program" >/dev/null || die "needs $program (see scripts/packages)"
  done
  work=$(mktemp -d "${TMPDIR:-/tmp}/muster-measure-XXXXXX")
  export MUSTER_HOME=$work/home
  unset MUSTER_CONFIG
  trap end EXIT
  trap 'exit 130' INT TERM
}

# After `begin`, for clusters: $work lies in memory, if there is enough of it and this is root.
# Hosts have a disk each; on one disk for all of them a measurement is about that disk.
in_memory() { # MIB
  local free
  free=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
  [ "$(id -u)" -eq 0 ] && [ "${free:-0}" -ge $(($1 * 2)) ] || return 0
  mount -t tmpfs -o "size=100%" tmpfs "$work" 2>/dev/null && in_memory=yes
}
in_memory=

# Polls; fails when it does not come.
comes_true() { # SECONDS COMMAND…
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.02
  done
}

# After `begin`: muster takes podman where there is one.
only_runtime() { # podman or docker
  [ "$1" = docker ] || return 0
  mkdir "$work/path"
  find -L /usr/local/bin /usr/bin /usr/sbin -maxdepth 1 -type f -executable ! -name 'podman*' \
    -exec ln -sf -t "$work/path" {} + 2>/dev/null
  PATH=$work/path
}

# What does not come ends the script; `late`, where there is one, says more about it.
until_true() { # SECONDS COMMAND…
  comes_true "$@" && return
  ! declare -F late >/dev/null || late >&2
  die "not within $1 s: ${*:2}"
}

# For scripts in a network and with mounts of their own (`unshare -m -n`), where no other process
# is: PID GROUP - COMMAND of each.
processes() {
  ps -eo pid=,pgid=,netns=,args= |
    awk -v own="$(readlink /proc/self/ns/net | tr -cd 0-9)" '$3 == own { $3 = "-"; print }'
}
all_end() {
  # shellcheck disable=SC2046
  ! kill -9 $(processes | awk -v self=$$ '$1 != self && !/ -$/ { print $1 }') 2>/dev/null
}
# After `begin`: `lo`, a home directory and a store of podman's that are this script's alone.
stand_apart() {
  ip link set lo up
  mkdir -p "$work"/{lib,run,tmp,user/.docker,user/.config/containers}
  mkdir -p /var/lib/containers /run/containers /run/libpod
  mount --bind "$work/lib" /var/lib/containers
  mount --bind "$work/run" /run/containers
  mount --bind "$work/tmp" /run/libpod
  mount -t tmpfs tmpfs /dev/shm # podman's locks, which go with its store
  export HOME=$work/user
  unset REGISTRY_AUTH_FILE DOCKER_CONFIG
}
come_back() {
  comes_true 10 all_end
  umount -lR /var/lib/containers 2>/dev/null
}

# Scripts that hold more than processes (a cluster) define this.
release() { :; }

end() {
  local status=$? pid
  set +e
  trap - EXIT
  for pid in $(controller_pids) $(agent_pids); do kill -9 "$pid" 2>/dev/null; done
  release
  [ -z "$in_memory" ] || umount "$work"
  rm -rf "$work"
  exit "$status"
}

finish() {
  [ "$missed" -eq 0 ]
  exit
}

controller_pids() {
  pgrep -f '[m]uster controller' | while read -r pid; do
    { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
      grep -qxF "MUSTER_HOME=$MUSTER_HOME" && echo "$pid"
  done
  true
}
agent_pids() { pgrep -f "[m]uster.* agent serve .*$MUSTER_HOME/" || true; }

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.4f\n", b - a }'; }

# Wall seconds of a command; its output goes to $work/out. A failure ends the script.
seconds_of() {
  local begun
  begun=$(now)
  "$@" >"$work/out" 2>&1 </dev/null || { tail -n 20 "$work/out" >&2; die "failed: $*"; }
  since "$begun"
}

median() { # numbers on stdin
  sort -g | awk '{ a[NR] = $1 } END {
    if (NR) printf "%.4g\n", NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'
}

# The figures of a program that prints `name value unit goal`; one that fails ends the script.
figures_of() { # PROGRAM ARGUMENT…
  local figures name value unit goal
  figures=$("$@") || die "failed: $*"
  [ -n "$figures" ] || die "no figures: $*"
  while read -r name value unit goal; do figure "$name" "$value" "$unit" "$goal"; done <<<"$figures"
}

figure() { # NAME VALUE UNIT GOAL; the goal is <=N, >=N, >N or -
  local verdict
  verdict=$(awk -v value="$2" -v goal="$4" 'BEGIN {
    limit = goal
    gsub(/[<>=]/, "", limit)
    if (goal == "-") print "info"
    else if (value == "") print "missed"
    else if (goal ~ /^<=/) print (value + 0 <= limit + 0) ? "met" : "missed"
    else if (goal ~ /^>=/) print (value + 0 >= limit + 0) ? "met" : "missed"
    else print (value + 0 > limit + 0) ? "met" : "missed"
  }')
  [ "$verdict" = missed ] && missed=$((missed + 1))
  echo "$1 $2 $3 $4 $verdict"
}
