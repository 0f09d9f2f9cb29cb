#!/usr/bin/env bash
# State directories that cannot be used are named; two controllers never serve one.
. "$(dirname "$0")/harness.sh"

job_file true.yml <<'YAML'
command: "true"
YAML

# Two at once: one serves, the other steps aside.
"$MUSTER" controller --detached & "$MUSTER" controller --detached & wait
until_true 10 test -S "$MUSTER_HOME/controller.sock"
for kind in supervisor serving; do
  [ "$("${kind}_pids" | wc -l)" -eq 1 ] || fail "$kind: $("${kind}_pids" | wc -l) processes"
done
(umask 0; expect 0 "$MUSTER" run "$work/true.yml") || exit 1

# What muster writes about jobs is for their owner's eyes, whatever the mask.
for_others=$(find "$MUSTER_HOME" -maxdepth 1 -type f -perm /077
  find "$MUSTER_HOME"/jobs -name 'spec.*' -perm /077 -o -path '*/attempt-*' -type f -perm /077)
[ -z "$for_others" ] || fail "others may read $for_others"

# A state directory that others may write to is refused by every verb that would use it.
chmod 777 "$MUSTER_HOME"
for verb in list status nodes "run $work/true.yml" "controller --detached" "controller --stop"; do
  expect 99 "$MUSTER" $verb
  has err "may be written to by others (mode 0777)"
done
chmod 700 "$MUSTER_HOME"

# An empty store is not taken for a new one where jobs are.
"$MUSTER" controller --stop 2>"$work/err" || fail "--stop"
no_controller || fail "a controller is left after --stop"
mkdir "$work/cut" && cp -a "$MUSTER_HOME/." "$work/cut" && : >"$work/cut/muster.db"
rm -f "$work"/cut/muster.db-*
for verb in list "run $work/true.yml"; do
  MUSTER_HOME="$work/cut" expect 99 "$MUSTER" $verb
  has err "is empty, and there are jobs in"
done
[ ! -s "$work/cut/muster.db" ] || fail "the empty store was written to"
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
removed=$(serving_pids)
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

[ "$(id -u)" -eq 0 ] || skip "other users, and mounting a small file system, need root"
# Another user's state directory is refused, and so is one in /tmp for who has no home.
theirs="$work/theirs"; mkdir -m 700 "$theirs"; chown 54321:54321 "$theirs"
MUSTER_HOME="$theirs" expect 99 "$MUSTER" run "$work/true.yml"
has err "a directory of user (uid 54321) with mode 0700, and this is user root (uid 0)"
[ -z "$(ls -A "$theirs")" ] || fail "something was put into another user's directory"
as_another() { setpriv --reuid=54321 --regid=54321 --clear-groups "$@"; }
if as_another test -x "$MUSTER"; then
  expect 99 as_another env -u HOME -u XDG_STATE_HOME -u MUSTER_HOME "$MUSTER" nodes
  has err "set MUSTER_HOME"
  [ -z "$(find /tmp/.local -user 54321 2>/dev/null)" ] || fail "a state directory was made in /tmp"
fi
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
