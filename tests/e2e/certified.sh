#!/usr/bin/env bash
# A rank that computes wrongly ends its attempt with 3. A job that wants certified checkpoints goes
# back to the newest one of these, past newer ones, and ends as a run left alone.
. "$(dirname "$0")/harness.sh"
: "${MUSTER_TRAIN:?the muster-train executable}"
command -v mpirun >/dev/null || skip "needs Open MPI"
export OMP_NUM_THREADS=1

for i in $(seq 1 2000); do echo "$i: the quick brown fox jumps over the lazy dog $((i * i))"; done \
  >"$work/text.txt"
# Certified is what 20 steps have followed without a doubt: at step 58 that of step 35.
job() { # NAME FAULT [SETTING]
  job_file "$1.yml" <<YAML
command: >-
  $MUSTER_TRAIN --data $work/text.txt --steps 80 --layers 1 --width 32 --heads 2 --context 32
  --batch 12 --checkpoint-every 5 --keep 20 --step-delay-ms 20 $2 --out \${{outputs.model}}
compute: azureml:local-cluster
distribution: {type: mpi, process_count_per_instance: 1}
resources: {instance_count: 3}
outputs: {model: {type: uri_folder}}
muster:
  checkpoint: {path: $work/ckpt-$1}
  restart: {delay: 0}
  ${3:-}
YAML
}
same_weights() { # NAME
  cmp "$(find "$MUSTER_HOME/jobs/calm/outputs" -name model.safetensors)" \
    "$(find "$MUSTER_HOME/jobs/$1/outputs" -name model.safetensors)" || fail "the weights differ"
}
job calm ""
expect 0 "$MUSTER" run "$work/calm.yml" --name calm

# Found before the weights are touched. The job asks for certified ones itself.
job odd "--flip-at-step 58 --fail-rank 1 --flip-in gradient" "resume: {from: certified}"
expect 0 "$MUSTER" run "$work/odd.yml" --name odd
expect 0 "$MUSTER" status odd -o json --query '{from: attempts[1].resumed_from_step}'
has out '"from": 35'
expect 0 "$MUSTER" explain odd
has out "attempt 1 resumes from step 35: newest certified checkpoint"
same_weights odd

# Found when the ranks compare. No word of the user is needed, and the node of the rank is left out.
job late "--flip-at-step 63 --fail-rank 1 --replica-check-every 31"
expect 0 "$MUSTER" run "$work/late.yml" --name late
expect 0 "$MUSTER" explain late
has out "attempt 0 ended: rank 1 on local-1 "
has out "exclude_node"
has out "never again on local-1"
has out "attempt 1 resumes from step 35: newest certified checkpoint: rank 1 on local-1"
same_weights late

# Asked for by its user; anything else is no place to go back to.
expect 2 "$MUSTER" resume odd --from sane
has err "expected a step or \`certified\`, got sane"
expect 2 "$MUSTER" resume odd --from ""
has err "expected a step or \`certified\`, got nothing"
# A step is gone back to for real: its ranks go on after it, to the same end.
expect 0 "$MUSTER" resume calm --from 70 --follow
grep -h "^step \|step 7[0-9]/80" "$MUSTER_HOME"/jobs/calm/attempt-1/*.log >"$work/steps"
grep -q "step 7[1-5]/80" "$work/steps" && ! grep -q "step [1-6]\?[0-9]/80" "$work/steps" ||
  { cat "$work/steps"; fail "it did not go on after step 70"; }
expect 1 "$MUSTER" resume calm --from 999 --follow
has err "holds no checkpoint of step 999; there are "
expect 0 "$MUSTER" resume odd --from certified --follow
expect 0 "$MUSTER" explain odd
has out "resume requested from a certified checkpoint"
has out "newest certified checkpoint: it was requested"

# A step that there is no checkpoint of changes nothing.
expect 0 "$MUSTER" status odd -o json
cp "$work/out" "$work/before"
expect 1 "$MUSTER" resume odd --from 999
expect 0 "$MUSTER" status odd -o json
cmp "$work/out" "$work/before" || fail "the job has changed"
