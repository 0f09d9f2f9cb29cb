#!/usr/bin/env bash
# State directories that cannot be used are named; two controllers never serve one.
. "$(dirname "$0")/harness.sh"

job_file true.yml <<'YAML'
command: "true"
YAML

# Two at once: one serves, the other steps aside.
"$MUSTER" controller --detached & "$MUSTER" controller --detached & wait
until_true 10 test -S "$MUSTER_HOME/controller.sock"
[ "$(controller_pids | wc -l)" -eq 1 ] || fail "$(controller_pids | wc -l) controllers"
expect 0 "$MUSTER" run "$work/true.yml"

# A store of a newer version is refused, by readers and by the controller.
kill $(controller_pids); until_true 10 no_controller
if command -v sqlite3 >/dev/null; then
  version=$(sqlite3 "$MUSTER_HOME/muster.db" 'PRAGMA user_version')
  sqlite3 "$MUSTER_HOME/muster.db" 'PRAGMA user_version=99'
  expect 99 "$MUSTER" status
  has err "newer muster"
  expect 99 "$MUSTER" status some-job
  has err "newer muster"
  expect 99 "$MUSTER" run "$work/true.yml"
  has err "newer muster"
  [ "$(grep -c "newer muster" "$MUSTER_HOME/controller.log")" -eq 1 ] || fail "started repeatedly"
  sqlite3 "$MUSTER_HOME/muster.db" "PRAGMA user_version=$version"
  expect 0 "$MUSTER" run "$work/true.yml"
fi

# A controller whose home is removed leaves, and does not touch what takes its place.
first_home=$MUSTER_HOME
export MUSTER_HOME="$work/removed"
expect 0 "$MUSTER" run "$work/true.yml"
removed=$(controller_pids)
rm -rf "$MUSTER_HOME"
expect 0 "$MUSTER" run "$work/true.yml"
gone() { ! kill -0 "$removed" 2>/dev/null; }
until_true 15 gone
[ -S "$MUSTER_HOME/controller.sock" ] || fail "the next controller has lost its socket"
kill $(controller_pids)
until_true 10 no_controller
export MUSTER_HOME=$first_home

# A home that is a file is no empty store.
MUSTER_HOME="$work/true.yml" expect 99 "$MUSTER" list
has err "true.yml"

[ "$(id -u)" -eq 0 ] || skip "mounting a small file system needs root"
first_home=$MUSTER_HOME
mkdir "$work/small" && mount -t tmpfs -o size=256k tmpfs "$work/small" 2>/dev/null \
  || skip "cannot mount"
export MUSTER_HOME="$work/small/home"
mkdir -p "$MUSTER_HOME"
head -c 10000000 /dev/zero >"$work/small/fill" 2>/dev/null
expect 99 "$MUSTER" run "$work/true.yml"
has err "space"
rm "$work/small/fill"
mount -o remount,ro "$work/small"
expect 99 "$MUSTER" run "$work/true.yml"
has err "MUSTER_HOME"
umount -l "$work/small"

# What was copied to a place that cannot be written is readable there.
export MUSTER_HOME=$first_home
kill $(controller_pids)
until_true 10 no_controller
mkdir "$work/still" && cp "$MUSTER_HOME/muster.db" "$work/still"
mount --bind "$work/still" "$work/still" && mount -o remount,bind,ro "$work/still"
MUSTER_HOME="$work/still" expect 0 "$MUSTER" list
has out "Completed"
umount -l "$work/still"
export MUSTER_HOME=$first_home
