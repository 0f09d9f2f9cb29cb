#!/usr/bin/env bash
# Sizes at both ends: code folders with nothing in them, and a gigabyte of output in one line, which
# must pass through agent and controller whole and in little memory.
. "$(dirname "$0")/harness.sh"

line_bytes=1073741824
# Windows and queues of one connection hold some ten megabytes; a line held whole is a gigabyte.
memory_max_kib=$((96 * 1024))

mkdir "$work/empty" "$work/nothing-inside"
: >"$work/nothing-inside/none"
for code in empty nothing-inside; do
  job_file "$code.yml" <<YAML
command: ls -A; test ! -s none && echo ran
code: $code
YAML
  expect 0 "$MUSTER" run "$work/$code.yml" --name "$code"
  has out "ran"
done
[ "$(grep -cx none "$work/out")" -eq 1 ] || fail "the empty file did not arrive"

job_file line.yml <<YAML
command: |
  head -c $line_bytes /dev/zero | tr '\0' 'x'
  until [ -e "$work/measured" ]; do sleep 0.05; done
YAML
"$MUSTER" run "$work/line.yml" --name line 2>"$work/err" >"$work/line" &
runner=$!
log="$MUSTER_HOME/jobs/line/attempt-0/rank-0.log"
is_whole() { [ "$(stat -c %s "$1" 2>/dev/null)" = "$line_bytes" ]; }
until_true 60 is_whole "$log"
until_true 60 is_whole "$work/line"
for pid in $(controller_pids) $(agent_pids); do
  peak_kib=$(awk '/^VmHWM:/ {print $2}' "/proc/$pid/status")
  [ "${peak_kib:-0}" -gt 0 ] || fail "the memory of process $pid is not known"
  name=$(cat "/proc/$pid/comm")
  echo "$name: at most $peak_kib KiB"
  [ "$peak_kib" -lt "$memory_max_kib" ] || fail "$name took more than $memory_max_kib KiB"
done
touch "$work/measured"
wait "$runner" || fail "the run ended with $?"
head -c "$line_bytes" /dev/zero | tr '\0' 'x' | cmp - "$log" || fail "the log differs"
cmp "$log" "$work/line" || fail "stdout differs from the log"
