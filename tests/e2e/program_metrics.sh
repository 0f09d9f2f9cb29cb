#!/usr/bin/env bash
# Programs that have never heard of muster: what they write for TensorBoard, Lightning, the Trainer
# and into MLflow's table, and what they print, is shown while they run and kept with the attempt.
. "$(dirname "$0")/harness.sh"
python=/usr/bin/python3
[ -x "$python" ] || skip "no python3"

mkdir "$work/code"
cat >"$work/code/events.py" <<'PYTHON'
import os, struct, sys, time

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

def record(payload):
    length = struct.pack("<Q", len(payload))
    return length + crc32c(length) + payload + crc32c(payload)

def event(tag, step, value):
    scalar = b"\n" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\n" + bytes([len(scalar)]) + scalar
    return record(b"\t" + struct.pack("<d", time.time()) + bytes([0x10, step]) +
                  b"*" + bytes([len(summary)]) + summary)

rank = int(os.environ["RANK"])
os.makedirs("runs/one", exist_ok=True)
with open(f"runs/one/events.out.tfevents.176424000{rank}.host.{os.getpid()}.0", "ab") as file:
    for step in range(1, 41):
        file.write(event(b"Loss/train", step, 100 * rank + 4 / step))
        file.flush()
        if rank == 0:
            print(f"iteration {step}: accuracy {step / 64}", flush=True)
if rank == 0:
    with open("runs/events.out.tfevents.1764240000.host.1", "wb") as file:
        file.write(event(b"good", 1, 0.5) + event(b"bad", 2, 0.5)[:-1] + b"?")
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
PYTHON
job_file events.yml <<YAML
command: $python events.py $work/go
code: $work/code
compute: azureml:local-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
muster:
  metrics: {regex: ['iteration (?P<step>\d+): accuracy (?P<accuracy>\S+)']}
YAML
"$MUSTER" run "$work/events.yml" --name events >"$work/run.out" 2>"$work/run.err" </dev/null &
runner=$!
shows_loss() { "$MUSTER" status events 2>/dev/null | grep -q "^progress .*step 40 .*loss 0.1000"; }
until_true 60 shows_loss
: >"$work/watch.out"
COLUMNS=120 timeout 20 "$python" -c 'import pty, sys; pty.spawn(sys.argv[1:])' \
  "$MUSTER" status events --watch >"$work/watch.out" 2>&1 </dev/null &
watcher=$!
until_true 20 grep -q "step 40 .*loss 0.1000" "$work/watch.out"
touch "$work/go"
wait "$runner" || { cat "$work/run.err"; fail "the job failed"; }
wait "$watcher"
[ "$("$MUSTER" status events -o tsv --query steps)" = 40 ] || fail "the job has no last step"
metrics="$MUSTER_HOME/jobs/events/attempt-0/metrics.jsonl"
"$python" - "$metrics" <<'PYTHON' || { cat "$metrics"; fail "these are not the metrics"; }
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
of = lambda name: {line["step"]: line[name] for line in lines if name in line}
assert of("loss") == of("one/Loss/train") and len(of("loss")) == 40
assert of("loss")[40] == 0.1 and max(of("loss").values()) == 4  # one rank's alone
assert of("accuracy") == {step: step / 64 for step in range(1, 41)}
assert of("good") == {1: 0.5} and not of("bad")
PYTHON
grep -q "tfevents.1764240000.host.1: damaged at byte" "$work/run.err" ||
  { cat "$work/run.err"; fail "nobody said that a file is damaged"; }

# Without MLflow: a warning, and what is written to the table is read all the same.
cat >"$work/code/mlflow_rows.py" <<'PYTHON'
import json, os, sqlite3, time
os.makedirs("lightning_logs/version_0")
with open("lightning_logs/version_0/metrics.csv", "w") as file:
    file.write("epoch,step,val_acc\r\n0,2,0.5\r\n0,3,nan\r\n")
os.makedirs("out/checkpoint-3")
with open("out/checkpoint-3/trainer_state.json", "w") as file:
    json.dump({"global_step": 3, "log_history": [{"step": 3, "grad_norm": 1.5}]}, file)
path = os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///")
with sqlite3.connect(path) as base:
    base.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)")
    for step in range(1, 4):
        base.execute("INSERT INTO metrics VALUES ('loss', ?, ?, 'r', ?, 0)",
                     (1 / step, int(time.time() * 1000), step))
PYTHON
job_file mlflow.yml <<YAML
command: $python -I mlflow_rows.py
code: $work/code
compute: azureml:local-cluster
muster: {metrics: {mlflow: true}}
YAML
expect 0 "$MUSTER" run "$work/mlflow.yml" --name mlflow
if ! "$python" -c 'import mlflow' 2>/dev/null; then
  grep -q 'metrics.mlflow: .* failed' "$work/out" || fail "nobody said that MLflow is not there"
fi
metrics="$MUSTER_HOME/jobs/mlflow/attempt-0/metrics.jsonl"
for part in '{"loss":0.5,"step":2,"version_0/epoch":0.0,"version_0/val_acc":0.5}' \
  '{"grad_norm":1.5,"loss":0.3333333333333333,"step":3,' '"version_0/val_acc":null}'; do
  grep -qF "$part" "$metrics" || { cat "$metrics"; fail "no $part"; }
done
