#!/usr/bin/env bash
# A killed rank costs the steps since the last checkpoint and nothing else: the weights at the end
# are those of a run that was left alone. The agent and the controller are killed too.
. "$(dirname "$0")/harness.sh"
train="$(dirname "$MUSTER")/muster-train"
[ -x "$train" ] || skip "muster-train is not built"
command -v mpirun >/dev/null || skip "needs Open MPI"

for i in $(seq 1 2000); do echo "$i: the quick brown fox jumps over the lazy dog $((i * i))"; done \
  >"$work/text.txt"
mkdir "$work/code"; cp "$work/text.txt" "$work/code/"
for name in calm storm; do
  job_file $name.yml <<YAML
command: >-
  $train --data text.txt --steps 60 --layers 1 --width 32 --heads 2 --context 32 --batch 8
  --checkpoint-every 5 --step-delay-ms 40 --out \${{outputs.model}}
code: code
compute: azureml:local-cluster
distribution: {type: mpi, process_count_per_instance: 1}
resources: {instance_count: 2}
outputs: {model: {type: uri_folder}}
muster: {restart: {delay: 0, attempts: 10}, reschedule: {attempts: 10}}
YAML
done
expect 0 "$MUSTER" run "$work/calm.yml" --name calm
expect 0 "$MUSTER" submit "$work/storm.yml" --name storm

last_step() {
  local step
  step=$(tail -qn 1 "$MUSTER_HOME"/jobs/storm/attempt-*/metrics.jsonl 2>/dev/null \
    | grep -o '"step": *[0-9]*' | grep -o '[0-9]*$' | sort -n | tail -n 1)
  echo "${step:-0}"
}
reaches() { [ "$(last_step)" -ge "$1" ]; }
until_true 60 reaches 8
kill -9 "$(job_pids storm | while read -r p; do
  tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "^$train" && echo "$p"; done | tail -n 1)"
until_true 60 reaches 20
kill -9 $(controller_pids)
"$MUSTER" logs -f storm >/dev/null 2>&1 &  # the next command starts a controller, which takes over
until_true 60 reaches 25
kill -9 "$(agent_pids | tail -n 1)"
"$MUSTER" logs -f storm >/dev/null 2>"$work/err"
"$MUSTER" status storm -o json >"$work/out"
has out '"Completed"'
a=$(find "$MUSTER_HOME/jobs/calm/outputs" -name model.safetensors)
b=$(find "$MUSTER_HOME/jobs/storm/outputs" -name model.safetensors)
cmp "$a" "$b" || fail "the weights differ"
"$MUSTER" explain storm >"$work/out"
has out "SIGKILL"
has out "resumes from step"
