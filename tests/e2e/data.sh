#!/usr/bin/env bash
# Data of stores: a real one, over the network of this machine, read through the nodes' caches and
# written to; what changes meanwhile, what is away, and where no secret may be.
. "$(dirname "$0")/harness.sh"
command -v rclone >/dev/null || skip "no rclone"

readonly port=16841
readonly password="planted-$RANDOM$RANDOM$RANDOM"
store="$work/store"
server=""
mkdir -p "$store"

serve() {
  rclone serve webdav "$store" --addr 127.0.0.1:$port --user ann --pass "$password" \
    --log-level DEBUG --vfs-cache-mode off --dir-cache-time 0 >"$work/dav.log" 2>&1 &
  server=$!
  until_true 10 grep -q "WebDav Server started" "$work/dav.log"
}
stop_serving() { kill "$server"; wait "$server" 2>/dev/null; server=""; }
trap 'status=$?; [ -n "$server" ] && kill "$server"; (exit "$status"); finish' EXIT
reads() { grep -c ": GET from" "$work/dav.log"; }
serve

mkdir -p "$store/train/deep er"
head -c 3000000 /dev/urandom >"$store/train/big.bin"
echo one >"$store/train/deep er/a b.txt"
echo line >"$store/train/$(printf 'line\nfeed')"
echo 1,2,3 >"$store/iris.csv"
sums=$(cd "$store/train" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)

cat >"$work/cluster.yml" <<YAML
default: two
compute:
  two: {transport: local, nodes: [h1, h2], remote_home: $work/nodes}
datastores:
  shared: {type: local, path: $store/train}
YAML
export MUSTER_CONFIG="$work/cluster.yml"
secret=$(rclone obscure "$password")
cat >"$work/dav.yml" <<YAML
name: dav
type: rclone
remote: webdav
options: {url: "http://127.0.0.1:$port", vendor: other, user: ann}
credentials: {pass: $secret}
YAML
expect 0 "$MUSTER" datastore create -f "$work/dav.yml" -o json
has out '"pass": "***"'
expect 90 "$MUSTER" datastore create -f "$work/dav.yml"
has err "exists"
expect 0 "$MUSTER" datastore list
has out dav
has out shared
[ "$(stat -c %a "$MUSTER_HOME"/secrets/dav-*)" = 600 ] || fail "secrets can be read by others"

# What is in no process, file or answer while a job's data are brought.
watch_for_secrets() {
  while [ -e "$work" ] && [ ! -e "$work/enough" ]; do
    for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do
      case $(readlink "${file%/*}/exe") in *bash | *grep) continue ;; esac
      [ "${file#/proc/"$server"/}" = "$file" ] || continue
      grep -qasF -e "$password" -e "$secret" "$file" && echo "$file: $(tr '\0' ' ' <"$file")"
    done
  done >"$work/leaks" 2>/dev/null
}
watch_for_secrets &
watcher=$!

job_file read.yml <<YAML
command: cd "\${{inputs.data}}" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
environment: azureml:host
resources: {instance_count: 2}
inputs:
  data: {type: uri_folder, path: azureml://datastores/dav/paths/train}
YAML
expect 0 "$MUSTER" plan "$work/read.yml"
has out "3 files, 2.9 MiB from dav: train, copied to each of 2 nodes"
has out "5.7 MiB in all"
has out "h1, h2: not cached, fits"
[ ! -e "$work/nodes/data" ] || fail "plan made a cache"
expect 0 "$MUSTER" run "$work/read.yml" --name first
has err "inputs.data: 3 files, 2.9 MiB from dav: train"
[ "$(grep -c "${sums%% *}" "$work/out")" = 2 ] || fail "a node read other bytes: $(cat "$work/out")"
before=$(reads)
[ "$before" -ge 3 ] || fail "nothing was fetched from the store"
expect 0 "$MUSTER" plan "$work/read.yml"
has out "h1, h2: cached"
expect 0 "$MUSTER" plan "$work/read.yml" -o json --query needs
has out '"h2": "cached"'
{ cat "$work/cluster.yml"; echo 'data: {size: 1mb}'; } >"$work/small.yml"
expect 0 "$MUSTER" plan "$work/read.yml" --cluster "$work/small.yml" \
  --set muster.data.data=stage --set inputs.data.path=azureml://datastores/dav/paths/
has err "warning: inputs.data: h1: does not fit: the cache may take 976.6 KiB"
expect 0 "$MUSTER" run "$work/read.yml" --name second
[ "$(reads)" = "$before" ] || fail "a second job fetched the data again"
touch "$work/enough"; wait "$watcher"
[ ! -s "$work/leaks" ] || fail "secrets in a process: $(cat "$work/leaks")"
expect 0 "$MUSTER" status first -o json
cp "$work/out" "$work/shown"
grep -q '"data_version": "[0-9a-f]\{64\}"' "$MUSTER_HOME/jobs/first/spec.json" || fail "no version"

# One file; a store that all nodes see.
job_file one.yml <<YAML
command: cat "\${{inputs.iris}}" "\${{inputs.here}}/deep er/a b.txt"; echo at "\${{inputs.here}}"
environment: azureml:host
inputs:
  iris: {type: uri_file, path: azureml://datastores/dav/paths/iris.csv}
  here: {path: azureml://datastores/shared/paths/}
YAML
expect 0 "$MUSTER" run "$work/one.yml" --name one
has out 1,2,3
has out "at $store/train"
expect 90 "$MUSTER" run "$work/one.yml" --set inputs.iris.path=azureml://datastores/dov/paths/x
has err "did you mean 'dav'?"

# What is replaced between submission and start is found.
echo first >"$store/late.txt"
begin_long_job holds "$work/cluster.yml" two h1
job_file late.yml <<YAML
command: cat "\${{inputs.late}}"
environment: azureml:host
muster: {placement: {include: [h1]}}
inputs:
  late: {type: uri_file, path: azureml://datastores/dav/paths/late.txt}
YAML
expect 0 "$MUSTER" submit "$work/late.yml" --name late
echo another content >"$store/late.txt"
expect 0 "$MUSTER" cancel holds
expect 92 "$MUSTER" wait late
expect 0 "$MUSTER" explain late
has out "changed since the job was submitted: 'late.txt'"

# Outputs: to the store and into the catalogue; back again by their name.
job_file write.yml <<YAML
command: |
  mkdir -p "\${{outputs.model}}/w"; echo weights >"\${{outputs.model}}/w/0.bin"
  echo one file >"\${{outputs.note}}"
environment: azureml:host
outputs:
  model: {path: "azureml://datastores/dav/paths/models/\${{name}}", name: net}
  note: {type: uri_file, path: azureml://datastores/dav/paths/notes/it.txt}
YAML
expect 0 "$MUSTER" run "$work/write.yml" --name writes
[ "$(cat "$store/models/writes/w/0.bin")" = weights ] || fail "the output is not in the store"
[ "$(cat "$store/notes/it.txt")" = "one file" ] || fail "the output of one file is not there"
expect 0 "$MUSTER" data show net -o json
has out azureml://datastores/dav/paths/models/writes
job_file again.yml <<YAML
command: cat "\${{inputs.net}}/w/0.bin" "\${{inputs.job}}/w/0.bin"
environment: azureml:host
inputs:
  net: {path: azureml:net@latest}
  job: {path: azureml://jobs/writes/outputs/model}
YAML
expect 0 "$MUSTER" run "$work/again.yml" --name again
[ "$(grep -c weights "$work/out")" = 2 ] || fail "the output cannot be read again"
expect 1 "$MUSTER" data label net:7 good
has err "has no version '7'"
expect 2 "$MUSTER" data label net good
expect 0 "$MUSTER" data label net:1 good
expect 0 "$MUSTER" data show net@good -o json --query labels
has out good
expect 0 "$MUSTER" run "$work/again.yml" --name labelled --set inputs.net.path=azureml:net@good
[ "$(grep -c weights "$work/out")" = 2 ] || fail "the data of a label cannot be read"
expect 0 "$MUSTER" data label net good --remove
expect 90 "$MUSTER" run "$work/again.yml" --set inputs.net.path=azureml:net@good

# A store that is away when the job ends: nothing is lost.
job_file away.yml <<YAML
command: |
  echo kept >"\${{outputs.model}}/x"
  touch $work/ran
  until [ -e $work/go ]; do sleep 0.1; done
environment: azureml:host
outputs:
  model: {path: azureml://datastores/dav/paths/away}
YAML
expect 0 "$MUSTER" submit "$work/away.yml" --name away
until_true 20 test -e "$work/ran"
stop_serving
touch "$work/go"
expect 90 "$MUSTER" run "$work/read.yml" --name nowhere
has err "connection refused"
expect 92 "$MUSTER" wait away
has err "muster resume away --upload"
[ "$(cat "$MUSTER_HOME/jobs/away/outputs/model/x")" = kept ] || fail "the output is lost"
serve
expect 0 "$MUSTER" resume away --upload
[ "$(cat "$store/away/x")" = kept ] || fail "the output was not copied again"

if grep -rqaF -e "$password" -e "$secret" --exclude-dir=secrets "$MUSTER_HOME" "$work/nodes" \
  "$work/shown"; then
  fail "a secret is in $(grep -rlaF -e "$password" -e "$secret" --exclude-dir=secrets \
    "$MUSTER_HOME" "$work/nodes")"
fi
# A name that is not there, of each kind.
for verb in show archive restore; do
  expect 1 "$MUSTER" data $verb none
  expect 1 "$MUSTER" environment $verb --name none
  has err "there is no environment 'none'"
done
expect 1 "$MUSTER" datastore show none
expect 1 "$MUSTER" datastore delete none
expect 0 "$MUSTER" datastore delete dav
[ -z "$(ls "$MUSTER_HOME/secrets")" ] || fail "the secrets of a deleted store are kept"
echo ok
