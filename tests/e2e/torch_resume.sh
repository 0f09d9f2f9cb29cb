#!/usr/bin/env bash
# An unmodified PyTorch program that saves with torch.save and resumes by itself: killed again and
# again it ends with the weights of a run that was left alone. One that never saves, and one that
# starts over each time, are given up after three restarts.
#
#   KILLS=20 tests/e2e/torch_resume.sh
. "$(dirname "$0")/harness.sh"
kills=${KILLS:-4}
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch.distributed' 2>/dev/null || skip "no python3-torch"

mkdir "$work/code"
cp "$(dirname "$0")/../programs/ddp.py" "$work/code/"
a_job() { # NAME STEPS HOW
  job_file "$1.yml" <<YAML
command: $python ddp.py \$MUSTER_CHECKPOINT_DIR $2 $3
code: $work/code
compute: azureml:local-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
environment_variables: {USE_LIBUV: "0", OMP_NUM_THREADS: "1"}
muster: {restart: {delay: 0, attempts: 100}, reschedule: {attempts: 100}}
YAML
}
steps=$((kills * 60 + 60))
step_of() {
  sed -n 's/^.*step //p' "$MUSTER_HOME/jobs/$1"/attempt-*/rank-0.log 2>/dev/null |
    sort -n | tail -n 1
}
reaches() { local step; step=$(step_of "$1"); [ "${step:-0}" -ge "$2" ]; }
kill_rank() { # NAME
  local pid
  pid=$(job_pids "$1" | while read -r p; do
    tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q "ddp.py" && echo "$p"; done | shuf -n 1)
  kill -9 "$pid"
}
weights() { cat "$MUSTER_HOME/jobs/$1"/attempt-*/rank-0.log | grep -o 'weights .*' | tail -n 1; }

a_job calm "$steps" resume
expect 0 "$MUSTER" run "$work/calm.yml" --name calm
a_job storm "$steps" resume
expect 0 "$MUSTER" submit "$work/storm.yml" --name storm
for kill in $(seq "$kills"); do
  until_true 90 reaches storm $((kill * 60 - 30 + RANDOM % 30))
  kill_rank storm
done
expect 0 "$MUSTER" wait storm
[ -n "$(weights calm)" ] && [ "$(weights calm)" = "$(weights storm)" ] ||
  fail "weights differ: $(weights calm) and $(weights storm)"
expect 0 "$MUSTER" explain storm
has out "resumes from ckpt.pt: newest complete checkpoint (torch)"
expect 0 "$MUSTER" checkpoint list storm
has out "COMPLETE"
has out "newest usable"
has out "ckpt.pt"

expect 1 "$MUSTER" checkpoint verify storm
has err "another program's (torch): see muster checkpoint list storm"
! "$MUSTER" resume storm --from certified 2>"$work/err" || fail "resumed from certified"
has err "another program's (torch)"
expect 1 "$MUSTER" resume storm --from 77
has err "has not one complete checkpoint of step 77"
expect 0 "$MUSTER" resume storm --from 0  # the beginning
expect 0 "$MUSTER" cancel storm --grace 1s

for how in never-save start-over; do
  a_job "$how" 400 "$how"
  expect 0 "$MUSTER" submit "$work/$how.yml" --name "$how"
  for kill in 1 2 3 4; do
    attempt=$MUSTER_HOME/jobs/$how/attempt-$((kill - 1))/rank-0.log
    until_true 60 grep -qs "step $((kill == 1 ? 32 : 7))$" "$attempt"
    kill_rank "$how"
  done
  expect 93 "$MUSTER" wait "$how"
  expect 0 "$MUSTER" explain "$how"
  has out "3 restarts without"
done
exit 0
