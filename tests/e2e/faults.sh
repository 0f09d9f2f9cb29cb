#!/usr/bin/env bash
# What goes wrong in a job or in a submission has a message and an exit code of its own. Elsewhere:
# a missing program or interpreter, signals, limits (exit_codes.sh); ranks that ignore SIGTERM or
# detach while they are cancelled (cancel.sh); bytes that are no text (output.sh); state directories
# that are full, read-only or served twice (homes.sh).
. "$(dirname "$0")/harness.sh"

job_file hello.yml <<'YAML'
command: echo hello
environment: azureml:host
YAML

# Code: none there, an empty folder, a script that may not be run or has no interpreter.
job_file code.yml <<'YAML'
command: ls -A; ./start
code: code
environment: azureml:host
muster: {restart: {attempts: 0}}
YAML
expect 90 "$MUSTER" run "$work/code.yml"
has err "code.yml:2:7: error: code: there is no directory"
mkdir "$work/code"
expect 127 "$MUSTER" run "$work/code.yml"
has err "./start: No such file"
echo 'echo started' >"$work/code/start"
expect 126 "$MUSTER" run "$work/code.yml"
has err "./start: Permission denied"
printf '#!/no/such/interpreter\n' >"$work/code/start"
chmod +x "$work/code/start"
expect 127 "$MUSTER" run "$work/code.yml"
has err "./start"

# A rank that ignores SIGTERM at its time limit is killed; a child that it leaves behind is too.
job_file stubborn.yml <<'YAML'
command: "trap '' TERM; while :; do sleep 0.1; done"
environment: azureml:host
limits: {timeout: 1}
muster: {stop: {grace: 1}}
YAML
expect 98 "$MUSTER" run "$work/stubborn.yml" --name stubborn
has err "limits.timeout of 1 s is over"
no_process_of stubborn || fail "left behind: $(job_pids stubborn)"
job_file detached.yml <<'YAML'
command: (setsid sh -c 'trap "" TERM HUP; exec sleep 300' >/dev/null 2>&1 &) ; echo over
environment: azureml:host
YAML
expect 0 "$MUSTER" run "$work/detached.yml" --name detached
until_true 20 no_process_of detached

# Last words that are no text are told as text, on the terminal and in JSON.
job_file words.yml <<'YAML'
command: printf 'bad \377\200 end\n'; exit 3
environment: azureml:host
muster: {restart: {attempts: 0}}
YAML
expect 3 "$MUSTER" run "$work/words.yml" --name words
"$MUSTER" explain words | iconv -f UTF-8 -t UTF-8 >"$work/out" || fail "explain is not UTF-8"
has out "end"

# Files that are no job.
mkdir "$work/folder"
expect 90 "$MUSTER" run "$work/folder"
has err "it is a directory"
head -c 300 /dev/urandom >"$work/noise.yml"
printf '\377' >>"$work/noise.yml"
expect 90 "$MUSTER" run "$work/noise.yml"
head -c 3000000 /dev/zero | tr '\0' 'a' >"$work/huge.yml"
expect 90 "$MUSTER" run "$work/huge.yml"
has err "larger than 1024 KiB"
: >"$work/empty.yml"
for verb in validate run submit plan; do
  expect 90 "$MUSTER" $verb "$work/empty.yml"
  has err "error: the file is empty"
done
printf 'compute: {lab: {nodes: ["n[01-16]"]}}\n' >"$work/lab.yml"
expect 0 "$MUSTER" validate "$work/lab.yml"
has out "lab.yml: ok (cluster, 16 nodes)"
expect 90 "$MUSTER" run "$work/lab.yml"
has err "the file is a cluster, not a job"
expect 90 "$MUSTER" validate --for azure "$work/code.yml"
has err "code.yml:4:1: error: Azure ML: muster: there is no such key"

# A submission that is killed does not take its job's name with it; a run does.
mkdir -p "$MUSTER_HOME/jobs/killed"
: >"$MUSTER_HOME/jobs/killed/spec.yml"
expect 0 "$MUSTER" run "$work/hello.yml" --name killed
expect 90 "$MUSTER" run "$work/hello.yml" --name killed
has err "exists"
mkdir -p "$MUSTER_HOME/jobs/kept/attempt-0"
expect 90 "$MUSTER" run "$work/hello.yml" --name kept

# What a job does not have is named, not waited for.
expect 1 "$MUSTER" logs killed --attempt 7
has err "has attempts 0 to 0, not 7"
expect 1 "$MUSTER" logs killed --rank 7 -f
has err "has ranks 0 to 0, not 7"
expect 1 "$MUSTER" download killed --output-name ..
has err "has no output"

expect 0 "$MUSTER" download killed -p "$work/none"
has err "job killed left no outputs"
[ ! -e "$work/none" ] || fail "folders of nothing"

# Results are fetched again over those that are there, links among them.
job_file outputs.yml <<'YAML'
command: mkdir outputs/a; echo 1 > outputs/a/file; ln -s file outputs/a/link
environment: azureml:host
YAML
expect 0 "$MUSTER" run "$work/outputs.yml" --name outputs
for _ in 1 2; do
  expect 0 "$MUSTER" download outputs -p "$work/got"
  has out "1 files"
done
[ "$(readlink "$work/got/outputs/outputs/a/link")" = file ] || fail "the link is not there"

# exec: a command that is not there, one that ends before it has read its input, tags meanwhile.
job_file long.yml <<'YAML'
command: sleep 600
environment: azureml:host
YAML
expect 0 "$MUSTER" submit "$work/long.yml" --name long
running() { "$MUSTER" status long -o json | grep -q '"Running"'; }
until_true 20 running
expect 92 "$MUSTER" exec long -- no-such-program
has err "there is no program 'no-such-program'"
[ "$(grep -c . "$work/err")" -eq 1 ] || fail "more than one message"
head -c 20000000 /dev/zero | "$MUSTER" exec long -- sh -c 'exit 7' 2>"$work/err"
[ "${PIPESTATUS[1]}" -eq 7 ] || { cat "$work/err"; fail "exec did not end with 7"; }
# Who waits for its node has no rank yet, and says what for.
expect 0 "$MUSTER" submit "$work/long.yml" --name behind
waits() { "$MUSTER" status behind | grep -q "^reason .*waits for 1 of 1 node"; }
until_true 20 waits
expect 92 "$MUSTER" exec behind -- true
has err "job behind is not running yet: it is Queued: waits for 1 of 1 node"
expect 0 "$MUSTER" cancel behind
expect 2 "$MUSTER" drain local --reason " "
has err "say why"
expect 0 "$MUSTER" job update -n long --set tags.team=vision
expect 0 "$MUSTER" cancel long
[ "$("$MUSTER" status long --query tags.team)" = vision ] || fail "the tag is gone"
