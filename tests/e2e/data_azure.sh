#!/usr/bin/env bash
# Azure's blobs, as Azurite serves them over TLS under the account's name: by key, by signature, as
# anybody, by address; outputs back. MUSTER_AZURITE: its program, where it is not in PATH.
[ "${in_namespace:-}" ] || in_namespace=1 exec unshare -m --propagation private "$0" "$@"
. "$(dirname "$0")/harness.sh"
azurite=${MUSTER_AZURITE:-$(command -v azurite-blob)} || skip "no azurite"
[ -x "$azurite" ] || skip "no azurite"
for program in rclone openssl python3; do
  command -v "$program" >/dev/null || skip "no $program"
done
readonly port=16842 host=acct.blob.core.test
key=$(head -c 32 /dev/urandom | base64 -w 0)

{ cat /etc/hosts; echo "127.0.0.1 $host"; } >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts || skip "no mount namespace"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$host" \
  -addext "subjectAltName=DNS:$host" -keyout "$work/tls.key" -out "$work/tls.pem" 2>/dev/null
export SSL_CERT_FILE="$work/tls.pem"
AZURITE_ACCOUNTS="acct:$key" "$azurite" --location "$work/azurite" --blobPort $port \
  --cert "$work/tls.pem" --key "$work/tls.key" --disableTelemetry --skipApiVersionCheck \
  --debug "$work/azurite.log" >"$work/azurite.out" 2>&1 &
server=$!
trap 'status=$?; kill "$server" 2>/dev/null; (exit "$status"); finish' EXIT
until_true 30 grep -q "successfully listen" "$work/azurite.out"

cat >"$work/rclone.conf" <<CONF
[az]
type = azureblob
account = acct
key = $key
endpoint = blob.core.test:$port
CONF
az() { rclone --config "$work/rclone.conf" "$@"; }
mkdir -p "$work/data/deep er"
head -c 2000000 /dev/urandom >"$work/data/big.bin"
for i in $(seq 50); do echo "$i" >"$work/data/deep er/$i"; done
az mkdir az:cont || fail "no container: $(tail -n 5 "$work/azurite.out")"
az copy "$work/data" az:cont/train
sums=$(cd "$work/data" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)

# A signature for the container, as Azure's documents define it (service SAS, version 2020-12-06).
signed() {  # signed PERMISSIONS
  python3 - "$key" "$1" <<'PY'
import base64, hashlib, hmac, sys, urllib.parse
permissions, expiry, version = sys.argv[2], "2099-01-01T00:00:00Z", "2020-12-06"
fields = [permissions, "", expiry, "/blob/acct/cont", "", "", "https", version, "c", "", "", "", "",
          "", "", ""]
digest = hmac.new(base64.b64decode(sys.argv[1]), "\n".join(fields).encode(), hashlib.sha256)
print(urllib.parse.urlencode({"sp": permissions, "se": expiry, "spr": "https", "sv": version,
                              "sr": "c", "sig": base64.b64encode(digest.digest()).decode()}))
PY
}
sas=$(signed rcwl)

cat >"$work/cluster.yml" <<YAML
default: one
compute:
  one: {transport: local, nodes: [h1], remote_home: $work/nodes}
  two: {transport: local, nodes: [h1, h2], remote_home: $work/nodes}
YAML
export MUSTER_CONFIG="$work/cluster.yml"
blob="{name: blob, type: azure_blob, account_name: acct, container_name: cont"
blob="$blob, endpoint: 'core.test:$port', credentials: "
echo "$blob {account_key: '$key'}}" >"$work/key.yml"
echo "$blob {sas_token: '$sas'}}" >"$work/sas.yml"
expect 0 "$MUSTER" datastore create -f "$work/key.yml"
job_file read.yml <<YAML
command: |
  cd "\${{inputs.data}}" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
  mkdir -p "\${{outputs.out}}" && cp big.bin "\${{outputs.out}}/copy.bin"
environment: azureml:host
inputs:
  data: {path: azureml://datastores/blob/paths/train}
outputs:
  out: {path: "azureml://datastores/blob/paths/out/\${{name}}"}
YAML
expect 0 "$MUSTER" run "$work/read.yml" --name bykey
has out "${sums%% *}"
gets() { grep -c "RequestMethod=GET.*train/" "$work/azurite.log"; }
before=$(gets)
expect 0 "$MUSTER" run "$work/read.yml" --name again
[ "$(gets)" = "$before" ] || fail "a second job fetched the data again"
expect 0 "$MUSTER" datastore update -f "$work/sas.yml"
rm -rf "$work/nodes"/*/data "$work/nodes/data"
expect 0 "$MUSTER" run "$work/read.yml" --name bysas \
  --set inputs.data.path="wasbs://cont@acct.blob.core.test:$port/train"
has out "${sums%% *}"
expect 0 "$MUSTER" run "$work/read.yml" --name byurl \
  --set inputs.data.path="https://acct.blob.core.test:$port/cont/train"
for job in bykey again bysas byurl; do
  az cat "az:cont/out/$job/copy.bin" | cmp - "$work/data/big.bin" || fail "no output of $job"
done

# Mode rw_mount on a path that has content: both nodes see it and write; what nobody wrote is not
# touched. The agent of one is killed before its files are collected: they arrive, and are seen.
expect 0 "$MUSTER" datastore update -f "$work/key.yml"
az copy "$work/data" az:cont/shared
job_file shared.yml <<YAML
command: |
  cd "\${{outputs.state}}"
  sha256sum <big.bin
  echo "rank \$RANK finds \$(cat "deep er/7")"
  if [ "\$RANK" = 1 ] && [ ! -e new.bin ]; then
    echo changed >"deep er/7"
    head -c 3000000 /dev/urandom >new.bin
    cp new.bin $work/new.bin
  fi
  touch $work/wrote-\$RANK
  until [ -e $work/go ]; do sleep 0.1; done
environment: azureml:host
compute: azureml:two
resources: {instance_count: 2}
distribution: {type: pytorch}
outputs:
  state: {mode: rw_mount, path: azureml://datastores/blob/paths/shared}
YAML
expect 0 "$MUSTER" plan "$work/shared.yml"
has out outputs.state
untouched() {
  az lsf -R --files-only --format pt az:cont/shared | grep -v -e new.bin -e "deep er/7;"
}
before=$(untouched)
expect 0 "$MUSTER" submit "$work/shared.yml" --name shared
until_true 60 test -e "$work/wrote-0" -a -e "$work/wrote-1"
agent=$(pgrep -f "[m]uster.* agent serve .*$work/nodes.*--node h2( |\$)" | head -n 1)
kill -9 "$agent" || fail "no agent of h2"
touch "$work/go"
expect 0 "$MUSTER" wait shared
expect 0 "$MUSTER" logs shared
[ "$(grep -c "$(sha256sum <"$work/data/big.bin")" "$work/out")" -ge 2 ] ||
  fail "other bytes were read"
expect 0 "$MUSTER" logs shared --attempt 1
has out "rank 0 finds changed"
has out "rank 1 finds changed"
az cat az:cont/shared/new.bin | cmp - "$work/new.bin" || fail "a pending file did not arrive"
[ "$(az cat "az:cont/shared/deep er/7")" = changed ] || fail "a changed file did not arrive"
[ "$(untouched)" = "$before" ] || fail "what nobody wrote was written: $(untouched)"
[ "$(find "$MUSTER_HOME/jobs/shared/outputs" -type f | wc -l)" = 2 ] ||
  fail "what nobody wrote came back"

# A store that lets nobody write: the job fails and its files are kept.
echo "$blob {sas_token: '$(signed rl)'}}" >"$work/read.sas.yml"
expect 0 "$MUSTER" datastore update -f "$work/read.sas.yml"
expect 92 "$MUSTER" run "$work/shared.yml" --name refuses --set resources.instance_count=1 \
  --set "command=echo mine >\${{outputs.state}}/mine"
has err "muster resume refuses --upload"
expect 0 "$MUSTER" datastore update -f "$work/key.yml"
expect 0 "$MUSTER" resume refuses --upload
[ "$(az cat az:cont/shared/mine)" = mine ] || fail "the file was not copied later"

# With a default datastore: logs and ./outputs are there, too.
echo "default_datastore: blob" >>"$work/cluster.yml"
job_file logs.yml <<YAML
command: echo kept >outputs/x.txt; seq 300000
environment: azureml:host
YAML
expect 0 "$MUSTER" run "$work/logs.yml" --name logs
[ "$(az cat az:cont/azureml/logs/outputs/x.txt)" = kept ] || fail "no ./outputs in the store"
expect 0 "$MUSTER" logs logs
az cat az:cont/azureml/logs/logs/attempt-0/rank-0.log | cmp - <(seq 300000) ||
  fail "the log in the store is not whole"

# A wrong signature fails, and is not told.
echo "$blob {sas_token: '${sas%sig=*}sig=d3JvbmdzaWduYXR1cmU%3D'}}" >"$work/sas.yml"
expect 0 "$MUSTER" datastore update -f "$work/sas.yml"
expect 90 "$MUSTER" run "$work/read.yml" --name refused
has err "cannot list"
grep -qF d3JvbmdzaWduYXR1cmU "$work/err" && fail "the signature is told: $(cat "$work/err")"
signature=${sas##*sig=}
if grep -rqaF -e "$key" -e "$signature" --exclude-dir=secrets "$MUSTER_HOME" "$work/nodes"; then
  fail "a secret is in a file"
fi
echo ok
