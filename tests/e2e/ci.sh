#!/usr/bin/env bash
# The pipelines of docs/ci.md: their lines, run by a plain sh one after the other as a runner does,
# against jobs of this machine that succeed, fail and are invalid.
. "$(dirname "$0")/harness.sh"
page="$source/docs/ci.md"
export JOB

awk '/^```/ {on = 0} /^```yaml/ {n++; on = 1} on && n == 1 && sub(/^ *run: /, "")' "$page" \
  >"$work/github"
awk '/^```/ {on = 0} /^```yaml/ {n++; on = 1}
  on && n == 2 && /^  [a-z_]+:/ {part = $1}
  on && n == 2 && part ~ /script:/ && sub(/^    - /, "")' "$page" >"$work/gitlab"
[ "$(wc -l <"$work/github")" -eq 4 ] || fail "$page: its GitHub part has other steps"
[ "$(wc -l <"$work/gitlab")" -eq 6 ] || fail "$page: its GitLab part has other lines"
mkdir "$work/bin" && ln -s "$MUSTER" "$work/bin/muster"
PATH="$work/bin:$PATH"

step() {  # step CODE FILE PATTERN: the one line of FILE with PATTERN
  grep -F -- "$3" "$work/$2" >"$work/line" || fail "no line with '$3' in $2"
  [ "$(wc -l <"$work/line")" -eq 1 ] || fail "several lines with '$3' in $2"
  expect "$1" sh -e "$work/line"
}

cd "$work" || exit 1
checkout() {  # checkout COMMAND: a fresh one, with the job file that a push brings
  rm -rf ci
  job_file job.yml <<YAML
command: $1
outputs: {model: {type: uri_folder}}
environment: azureml:host
compute: local
muster: {restart: {attempts: 0}}
YAML
}

for pipeline in github gitlab; do
  JOB=$pipeline-good
  checkout 'echo trained; echo weights >${{outputs.model}}/w'
  step 0 $pipeline "muster validate"
  step 0 $pipeline "muster run"
  grep -q '"status": "Completed"' ci/report.json || fail "no report of $JOB"

  step 90 $pipeline "muster run"  # the same step again: refused, followed by its name
  expect 0 muster logs -f "$JOB"

  JOB=$pipeline-bad
  checkout 'echo out of cheese; exit 3; echo ${{outputs.model}}'
  step 3 $pipeline "muster run"
  grep -q '"exit_code": 3' ci/report.json || fail "no report of $JOB"
  if [ $pipeline = github ]; then
    step 1 github "muster cancel"
    step 0 github "muster explain"
  else
    step 0 gitlab "muster cancel"
    for line in explain logs download; do step 0 gitlab "muster $line"; done
  fi
  grep -q "exited with code 3" ci/explain.txt || fail "explain.txt does not say why"
  grep -q "out of cheese" ci/logs.txt || fail "logs.txt has no output"

  checkout x && echo "comand: y" >>job.yml
  step 90 $pipeline "muster validate"
done
JOB=github-good
mkdir ci
step 0 github "muster download"
[ "$(cat ci/github-good/outputs/model/w)" = weights ] || fail "no output of $JOB"

# A cancelled pipeline interrupts the step and then cancels the job.
JOB=github-cancelled
checkout 'echo begun; sleep 300; echo ${{outputs.model}}'
grep -F "muster run" github >line
sh -e line >/dev/null 2>&1 &
until_true 60 grep -qs begun "$MUSTER_HOME/jobs/$JOB/attempt-0/rank-0.log"
pkill -TERM -P $! -x muster || fail "the step does not run"
wait $!
[ $? -eq 130 ] || fail "the interrupted step did not end with 130"
step 0 github "muster cancel"
no_process_of "$JOB" || fail "ranks of $JOB still run"
