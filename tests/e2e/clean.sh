#!/usr/bin/env bash
# What a job leaves: on its node nothing that a resume can bring again, here what the settings keep.
. "$(dirname "$0")/harness.sh"
command -v sqlite3 >/dev/null || skip "needs sqlite3"
export XDG_CONFIG_HOME="$work/config"
mkdir -p "$work/code" "$XDG_CONFIG_HOME/muster"
echo hello >"$work/code/main.txt"

job_file job.yml <<'YAML'
command: |
  cat main.txt; echo result >outputs/result
  mkdir "$MUSTER_CHECKPOINT_DIR/s1"; exit "$(cat code)"
code: code
compute: azureml:local
muster: {restart: {attempts: 0}}
YAML
on_node() { find "$MUSTER_HOME/nodes/jobs" -path "*/$1/*" -name "$2"; }
is_gone() { [ -z "$(on_node "$1" "$2")" ]; }

echo 0 >"$work/code/code"
expect 0 "$MUSTER" run "$work/job.yml" --name good
echo 3 >"$work/code/code"
expect 3 "$MUSTER" run "$work/job.yml" --name bad
for job in good bad; do
  until_true 20 is_gone "$job" main.txt
  [ -d "$MUSTER_HOME/jobs/$job/ckpt/s1" ] || fail "the checkpoint of $job is gone"
  [ -f "$MUSTER_HOME/jobs/$job/outputs/result" ] || fail "no result of $job"
done
[ -n "$(on_node bad result)" ] || fail "an output that a resume may need is gone"

# Nothing is old yet; with the clock of the records turned back, one job is.
expect 0 "$MUSTER" clean
has err "nothing to remove"
sqlite3 "$MUSTER_HOME/muster.db" \
  "UPDATE job SET ended_ms = ended_ms - 7800000000 WHERE name = 'bad'"
expect 0 "$MUSTER" clean --dry-run
has out "would remove records of jobs"
expect 0 "$MUSTER" explain bad
expect 0 "$MUSTER" clean
expect 1 "$MUSTER" explain bad
has err "were removed (journal in retention.yml)"
expect 1 "$MUSTER" resume bad
has err "cannot be resumed"
expect 0 "$MUSTER" status bad -o json
has out '"code": 3'
expect 0 "$MUSTER" logs bad
has out hello
expect 0 "$MUSTER" explain good

# A settings file that cannot be meant removes nothing.
echo "journal: 1m" >"$XDG_CONFIG_HOME/muster/retention.yml"
expect 90 "$MUSTER" clean
has err "at least 1d"
