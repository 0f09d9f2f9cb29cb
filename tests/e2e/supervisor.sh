#!/usr/bin/env bash
# A job survives the death of its controller though nobody types anything; of two supervisors one
# serves; who is told to end ends, and is not started again.
. "$(dirname "$0")/harness.sh"

job_file long.yml <<YAML
command: echo begun; until [ -e $work/over ]; do sleep 0.1; done; echo done
YAML
expect 0 "$MUSTER" submit "$work/long.yml" --name long
until_true 20 grep -qs begun "$MUSTER_HOME/jobs/long/attempt-0/rank-0.log"
rank=$(job_pids long | head -n 1)
says() { grep -qF -- "$2" "$MUSTER_HOME/controller.log" || fail "no '$2' in controller.log ($1)"; }
is_one() { [ "$("$1" | wc -l)" -eq 1 ]; }
serves_anew() { local now; now=$(serving_pids); [ -n "$now" ] && [ "$now" != "$1" ]; }

# kill -9 of the controller: another one serves within a moment, by itself.
first=$(serving_pids); supervisor=$(supervisor_pids)
kill -9 "$first"
until_true 10 serves_anew "$first"
is_same_supervisor() { [ "$(supervisor_pids)" = "$supervisor" ]; }
is_same_supervisor || fail "the supervisor changed"
says "restart" "was killed by signal 9; it is started again"
adopted() { "$MUSTER" nodes 2>/dev/null | grep -q ' up '; }
until_true 20 adopted

# kill -9 of the supervisor: the controller goes on, the next command gives it another one, which
# does not serve beside it.
second=$(serving_pids)
kill -9 "$supervisor"
until_true 10 eval '[ -z "$(supervisor_pids)" ]'
[ "$(serving_pids)" = "$second" ] || fail "the controller did not outlive its supervisor"
"$MUSTER" nodes >/dev/null & "$MUSTER" status >/dev/null & "$MUSTER" nodes >/dev/null & wait
until_true 10 is_one supervisor_pids
[ "$(serving_pids)" = "$second" ] || fail "a second controller beside the first"
kill -9 "$second"
until_true 10 serves_anew "$second"
until_true 10 is_one serving_pids

# kill -9 of both: the next command, here one that only reads, says what is the matter and mends it.
supervisor=$(supervisor_pids); third=$(serving_pids)
kill -9 "$supervisor" "$third"
until_true 10 no_controller
expect 0 "$MUSTER" list
has err "no controller has served job long since"
has err "ranks end by"
has err "one has been started"
has out "Running"
until_true 10 is_one serving_pids
until_true 10 is_one supervisor_pids
expect 0 "$MUSTER" status long -o json
has out '"Running"'
[ ! -s "$work/err" ] || fail "a job that is served is told of as one that is not"

# A controller that cannot start is not started again and again; it serves once it can.
supervisor=$(supervisor_pids); fourth=$(serving_pids)
kill -STOP "$supervisor"
kill -9 "$fourth"
mkdir "$work/kept" && mv "$MUSTER_HOME"/muster.db* "$work/kept"
printf 'no database at all, only words\n%.0s' $(seq 200) >"$MUSTER_HOME/muster.db"
kill -CONT "$supervisor"
starts() { grep -c "it is started again" "$MUSTER_HOME/controller.log"; }
before=$(starts)
until_true 10 eval '[ "$(starts)" -ge $((before + 3)) ]'
begun=$SECONDS
until_true 10 eval '[ $((SECONDS - begun)) -ge 3 ]'
[ "$(starts)" -le $((before + 8)) ] || fail "started $(($(starts) - before)) times within seconds"
kill -STOP "$supervisor"
until_true 10 eval '[ -z "$(serving_pids)" ]'
mv "$work"/kept/* "$MUSTER_HOME"
kill -CONT "$supervisor"
until_true 20 eval 'tail -n 1 "$MUSTER_HOME/controller.log" | grep -q " serves "'

# What all this was for: the same process, the same attempt, nothing lost.
kill -0 "$rank" || fail "the rank did not survive"
touch "$work/over"
is_completed() { "$MUSTER" status long -o json 2>/dev/null | grep -q '"Completed"'; }
until_true 30 is_completed
printf 'begun\ndone\n' | cmp - "$MUSTER_HOME/jobs/long/attempt-0/rank-0.log" || fail "output"
[ ! -e "$MUSTER_HOME/jobs/long/attempt-1" ] || fail "a second attempt"

# Told to end they end, whoever of them is told, and nobody starts them again.
kill "$(serving_pids)"
until_true 10 no_controller
expect 0 "$MUSTER" nodes
kill "$(supervisor_pids)"
until_true 10 no_controller
[ ! -e "$MUSTER_HOME/controller.sock" ] || fail "the socket is left"
expect 0 "$MUSTER" nodes
expect 0 "$MUSTER" controller --stop
has err "the controller is stopped"
no_controller || fail "--stop returned before the end"
expect 0 "$MUSTER" controller --stop
has err "no controller was running"

# One that was started in the foreground ends as one, though a command came by meanwhile.
"$MUSTER" controller & foreground=$!
until_true 10 test -S "$MUSTER_HOME/controller.sock"
expect 0 "$MUSTER" nodes
kill "$foreground"
until_true 10 no_controller

# A list of jobs that have all ended needs nobody.
expect 0 "$MUSTER" list
no_controller || fail "a controller was started for nothing"
