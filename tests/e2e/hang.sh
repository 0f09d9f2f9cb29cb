#!/usr/bin/env bash
# A rank that is stopped is named, the attempt ends with class hang and the job continues elsewhere;
# a slow run is warned of and left alone; with `hang.timeout: off` nothing is done at all; three
# hangs in a row end the job with 95.
. "$(dirname "$0")/harness.sh"
rank="$(dirname "$MUSTER")/stepping_rank"
[ -x "$rank" ] || skip "stepping_rank is not built"

# hang_job NAME ARGUMENTS-OF-THE-RANK MUSTER-SETTINGS
hang_job() {
  job_file "$1.yml" <<YAML
command: exec $rank $work/$1 $2
compute: azureml:local-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
resources: {instance_count: 2}
muster: {restart: {delay: 0}, reschedule: {attempts: 10}, $3}
YAML
  expect 0 "$MUSTER" submit "$work/$1.yml" --name "$1"
}
asked() { "$MUSTER" status "$1" -o tsv --query "$2" 2>/dev/null; }
is() { [ "$(asked "$1" "$2")" = "$3" ]; }
heartbeats() {  # of all ranks of the newest attempt
  cat "$MUSTER_HOME"/nodes/run/*/*/attempts/"$1"/"$2"/vitals/heartbeat-* 2>/dev/null
}
reached() { [ "$(heartbeats "$1" "$2" | sort -n | tail -n 1)" -ge "$3" ] 2>/dev/null; }
pid_of() { # JOB RANK
  local pid
  for pid in $(job_pids "$1"); do
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "RANK=$2" && echo "$pid" && return
  done
}

hang_job stopped 200 'no_progress: {cycles: 9}'
hang_job off 200 'hang: {timeout: "off"}'
hang_job slow 200 'no_progress: {cycles: 9}'
until_true 60 reached stopped 0 30
kill -STOP "$(pid_of stopped 1)"
until_true 60 reached off 0 5
kill -STOP "$(pid_of off 1)"
until_true 60 reached slow 0 30
touch "$work/slow.slow"

# What a rank does that is not stopped, and where in its program.
hang_job held 200 'no_progress: {cycles: 9}'
hang_job asleep 200 'no_progress: {cycles: 9}'
until_true 60 reached held 0 80
mkfifo "$work/held.held.2"
until_true 60 reached asleep 0 80
touch "$work/asleep.asleep.1"
until_true 60 is asleep 'attempts[0].stall.kind' suspect
tells() { "$MUSTER" explain "$1" >"$work/out" && grep -q "$2" "$work/out"; }
until_true 30 tells asleep 'evidence: rank 1 on .*asleep (S)'
if command -v eu-stack >/dev/null; then until_true 30 tells asleep 'eu-stack: .*sleep'; fi
rm "$work/asleep.asleep.1"
until_true 60 is asleep 'attempts[0].stall' ''
touch "$work/asleep.stop"
until_true 60 is asleep status Completed
until_true 90 is held 'attempts[0].stall.rank' 2
expect 0 "$MUSTER" explain held
has out "suspect: rank 2 on"
has out "is in uninterruptible sleep (state D"
exec 9<>"$work/held.held.2"; rm "$work/held.held.2"
until_true 60 is held 'attempts[0].stall' ''
touch "$work/held.stop"
until_true 60 is held status Completed

until_true 20 is stopped 'attempts[0].stall.rank' 1
until_true 60 is stopped 'attempts[0].class' hang
is stopped 'attempts[0].first_failure.rank' 1 || fail "rank 1 is not named"
until_true 60 reached stopped 1 5
touch "$work/stopped.stop"
until_true 60 is stopped status Completed
expect 0 "$MUSTER" explain stopped
has out "hung: rank 1 on"
has out "is stopped by a signal (state T"
has out "evidence: rank 1 on"

until_true 60 is slow 'attempts[0].stall.kind' slow
expect 0 "$MUSTER" status slow
has out "is usual"
rm "$work/slow.slow"
until_true 60 is slow 'attempts[0].stall' ''
is slow 'length(attempts)' 1 || fail "the slow run was restarted"
touch "$work/slow.stop"
until_true 60 is slow status Completed

is off 'attempts[0].status' running || fail "the watch was off"
kill -CONT "$(pid_of off 1)"
touch "$work/off.stop"
until_true 60 is off status Completed

# No step ever again, three times.
hang_job thrice "200" 'hang: {timeout: 3s, first_step: 30s}, no_progress: {cycles: 9}'
for attempt in 0 1 2; do
  until_true 60 reached thrice $attempt 3
  for r in 0 1 2 3; do kill -STOP "$(pid_of thrice $r)"; done
  until_true 60 is thrice "attempts[$attempt].class" hang
done
until_true 60 is thrice exit_code 95
