#!/usr/bin/env bash
# Values arrive byte for byte and never stand on a command line.
. "$(dirname "$0")/harness.sh"

python3 - "$work" <<'PY' 2>/dev/null || skip "needs python3"
import json, sys
values = {
    "QUOTES": "it's \"quoted\" `uname` $(uname) $HOME \\ end",
    "LINES": "first\nsecond\n\tthird ",
    "STARS": "* ? [a-z] ; & | < > ! # ~",
    "UNICODE": "h\u00e9llo \u4e16\u754c",
    "LONG": "x" * 100000,
    "EMPTY": "",
}
with open(sys.argv[1] + "/look.py", "w") as look:
    look.write("import json, os, sys\n"
               "names = sys.argv[1:]\n"
               "json.dump({k: os.environ[k] for k in names}, open('outputs/seen.json', 'w'))\n")
job = {
    "command": "python3 look.py %s; ps axo args > outputs/ps" % " ".join(values),
    "environment_variables": values,
    "code": "code",
}
json.dump(values, open(sys.argv[1] + "/wanted.json", "w"))
json.dump(job, open(sys.argv[1] + "/env.yml", "w"))
PY
mkdir "$work/code"
mv "$work/look.py" "$work/code/"
expect 0 "$MUSTER" run "$work/env.yml" --name env
expect 0 "$MUSTER" download env -p "$work/results" --all
seen=$(find "$work/results" "$MUSTER_HOME/jobs/env" -name seen.json | head -n 1)
[ -n "$seen" ] || fail "no output file came back"
python3 - "$work/wanted.json" "$seen" <<'PY' || fail "values differ"
import json, sys
wanted, seen = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(wanted != seen)
PY
processes=$(find "$work/results" "$MUSTER_HOME/jobs/env" -name ps | head -n 1)
[ -n "$processes" ] || fail "no list of processes came back"
if grep -q "xxxxxxxxxx" "$processes"; then fail "a value on a command line"; fi

# muster.py: a program tells its steps and marks a checkpoint of a format that nobody knows; the
# next attempt is given it.
cat >"$work/code/steps.py" <<'PY'
import os, sys
import muster
begin = muster.resume_from()
print("resumes from", begin and os.path.basename(begin), flush=True)
for step in range(40, 43):
    muster.heartbeat(step)
    muster.metrics(step, loss=1 / step)
path = os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], "own.state")
open(path, "w").write("mine")
muster.checkpoint_saved(path, 42)
sys.exit(0 if begin else 1)
PY
job_file steps.yml <<'YAML'
command: python3 steps.py
code: code
environment_variables: {PYTHONPATH: /no/such/folder}
muster: {restart: {delay: 0}}
YAML
expect 0 "$MUSTER" run "$work/steps.yml" --name steps
has out "resumes from None"
has out "resumes from own.state"
expect 0 "$MUSTER" checkpoint list steps
has out "marker"
expect 0 "$MUSTER" status steps -o tsv --query "attempts[1].last_step"
[ "$(cat "$work/out")" = 42 ] || fail "at step $(cat "$work/out")"
