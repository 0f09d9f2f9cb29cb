#!/usr/bin/env bash
# Every byte a rank writes reaches its log, in order: a huge line, bytes that are no text, both
# streams, a stream opened anew, and output in the middle of which the controller is killed.
. "$(dirname "$0")/harness.sh"

job_file line.yml <<'YAML'
command: head -c 100000000 /dev/zero | tr '\0' 'x'; printf 'end\n'
YAML
expect 0 "$MUSTER" run "$work/line.yml" --name line -o json
log="$MUSTER_HOME/jobs/line/attempt-0/rank-0.log"
[ "$(stat -c %s "$log")" -eq 100000004 ] || fail "the log has $(stat -c %s "$log") bytes"
[ "$(tail -c 4 "$log")" = "end" ] || fail "the end is missing"

job_file bytes.yml <<'YAML'
command: printf '\377\376 not \200 text\n'; printf 'to stderr\n' >&2
YAML
expect 0 "$MUSTER" run "$work/bytes.yml" --name bytes
printf '\377\376 not \200 text\nto stderr\n' \
  | cmp - "$MUSTER_HOME/jobs/bytes/attempt-0/rank-0.log" || fail "bytes differ"

job_file open.yml <<'YAML'
command: printf 'no end'; exit 3
YAML
"$MUSTER" run "$work/open.yml" --name open >"$work/both" 2>&1 || true
grep -q '^no end$' "$work/both" || { cat "$work/both"; fail "a sentence in the middle of a line"; }

job_file anew.yml <<'YAML'
command: echo before; sleep 0.5; echo warned > /dev/stderr; sleep 0.5; echo after
YAML
expect 0 "$MUSTER" run "$work/anew.yml" --name anew
printf 'before\nwarned\nafter\n' \
  | cmp - "$MUSTER_HOME/jobs/anew/attempt-0/rank-0.log" || fail "a stream opened anew lost output"

job_file count.yml <<'YAML'
command: >-
  for i in $(seq 1 20000); do
  echo "$RANK_NAME line $i"; test $((i % 200)) -ne 0 || sleep 0.02; done
compute: azureml:local-cluster
resources: {instance_count: 2}
YAML
expect 0 "$MUSTER" submit "$work/count.yml" --name count
log="$MUSTER_HOME/jobs/count/attempt-0/rank-0.log"
for _ in 1 2 3; do
  until_true 20 test -s "$log"
  sleep 0.3
  kill -9 $(controller_pids)
  "$MUSTER" logs -f count >/dev/null 2>&1 &
  sleep 0.3
done
"$MUSTER" logs -f count >"$work/followed" 2>"$work/err" || fail "logs -f"
for rank in 0 1; do
  seq 1 20000 | sed "s/^/ line /" \
    | cmp - "$MUSTER_HOME/jobs/count/attempt-0/rank-$rank.log" || fail "rank $rank lost output"
done
"$MUSTER" status count -o json | grep -q '"Completed"' || fail "not completed"

# A reader that goes away early ends the command, not the job.
"$MUSTER" logs count | head -n 1 >"$work/out"
has out "line 1"
