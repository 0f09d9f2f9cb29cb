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
for name in calm odd; do
  fault=""
  [ "$name" = calm ] || fault="--flip-at-step 58 --fail-rank 1 --flip-in gradient"
  job_file "$name.yml" <<YAML
command: >-
  $MUSTER_TRAIN --data $work/text.txt --steps 80 --layers 1 --width 32 --heads 2 --context 32
  --batch 12 --checkpoint-every 5 --keep 20 --step-delay-ms 20 $fault --out \${{outputs.model}}
compute: azureml:local-cluster
distribution: {type: mpi, process_count_per_instance: 1}
resources: {instance_count: 3}
outputs: {model: {type: uri_folder}}
muster:
  checkpoint: {path: $work/ckpt-$name}
  restart: {delay: 0}
  resume: {from: certified}
YAML
done
expect 0 "$MUSTER" run "$work/calm.yml" --name calm
expect 0 "$MUSTER" run "$work/odd.yml" --name odd
expect 0 "$MUSTER" status odd -o json --query '{from: attempts[1].resumed_from_step}'
has out '"from": 35'
expect 0 "$MUSTER" explain odd
has out "attempt 1 resumes from step 35: newest certified checkpoint"
a=$(find "$MUSTER_HOME/jobs/calm/outputs" -name model.safetensors)
b=$(find "$MUSTER_HOME/jobs/odd/outputs" -name model.safetensors)
cmp "$a" "$b" || fail "the weights differ"

# Asked for by its user; anything else is no place to go back to.
expect 2 "$MUSTER" resume odd --from sane
has err "expected a step or \`certified\`, got sane"
expect 0 "$MUSTER" resume odd --from certified --follow
expect 0 "$MUSTER" explain odd
has out "asked to resume from a certified checkpoint"
has out "newest certified checkpoint: it was asked for"
