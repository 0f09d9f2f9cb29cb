# shellcheck shell=bash disable=SC2154
# Sourced after measure.sh by container-drill, staging-drill, outage-drill, bench-data: a registry
# with a login and Azure's blobs (Azurite) behind an account key or a signature, both by TLS and
# under names, on an address that sandbox hosts reach too.
#
# The names and the certificate are those of this process and of what it starts: it has to be in a
# mount namespace of its own (`unshare -m`). The secrets are planted: $work/secrets has a line for
# each form in which one may be written down, and a watch looks for them in all processes.

readonly blob_host=acct.blob.core.test registry_host=registry.core.test
readonly authorities=/etc/ssl/certs/ca-certificates.crt # hosts need those of $work, too
blob_port=$((16100 + $$ % 400))
registry=$registry_host:$((16500 + $$ % 300))
key=$(head -c 32 /dev/urandom | base64 -w 0)
password=planted-$(head -c 18 /dev/urandom | base64 -w 0 | tr '+/' 'xy')
servers=()

skip() { echo "skipped: $*"; exit 0; }
# Root, Azurite (its program goes to $azurite), these and what is used below.
need() { # PROGRAM…
  local program
  [ "$(id -u)" -eq 0 ] || skip "no root, for namespaces"
  azurite=${MUSTER_AZURITE:-$(command -v azurite-blob || true)}
  [ -x "$azurite" ] || skip "no azurite"
  for program in podman skopeo docker-registry rclone openssl perl ip /usr/bin/python3 "$@"; do
    command -v "$program" >/dev/null || skip "no $program"
  done
}

in_own_namespaces() { # THE SCRIPT'S ARGUMENTS: of network and mounts
  [ -z "${in_namespace:-}" ] || return 0
  unshare -m -n true 2>/dev/null || skip "no namespaces for this user"
  in_namespace=1 exec unshare -m -n --propagation private "$0" "$@"
}

make_names() {
  cp /etc/hosts "$work/hosts"
  mount --bind "$work/hosts" /etc/hosts
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$blob_host" -keyout "$work/tls.key" \
    -addext "subjectAltName=DNS:$blob_host,DNS:$registry_host" -out "$work/tls.pem" 2>/dev/null
  cat "$authorities" "$work/tls.pem" >"$work/authorities.pem"
  mount --bind "$work/authorities.pem" "$authorities"
}

# The login is that of $HOME, and the store's name `az:` for rclone, by `az`.
serve_registry_and_blobs() { # ADDRESS FILE: the hosts' names for themselves
  local login
  echo "$1 $blob_host $registry_host" | tee -a "$2" >>"$work/hosts"
  cat >"$work/registry.yml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: "$1:${registry#*:}", tls: {certificate: $work/tls.pem, key: $work/tls.key}}
auth: {htpasswd: {realm: lab, path: $work/users}}
YAML
  printf %s "$password" |
    perl -e 'print "ann:", crypt(<STDIN>, q($2y$05$abcdefghijklmnopqrstuu))' >"$work/users"
  login=$(printf 'ann:%s' "$password" | base64 -w 0)
  mkdir -p "$HOME/.docker"
  printf '{"auths": {"%s": {"auth": "%s"}}}' "$registry" "$login" >"$HOME/.docker/config.json"
  serve_registry
  AZURITE_ACCOUNTS="acct:$key" "$azurite" --location "$work/azurite" --blobHost "$1" \
    --blobPort "$blob_port" --cert "$work/tls.pem" --key "$work/tls.key" --disableTelemetry \
    --skipApiVersionCheck --debug "$work/azurite.log" >"$work/azurite.out" 2>&1 &
  azurite_pid=$!
  servers+=("$azurite_pid")
  disown "$azurite_pid"
  printf '%s\n' "[az]" "type = azureblob" "account = acct" "key = $key" \
    "endpoint = blob.core.test:$blob_port" >"$work/rclone.conf"
  printf '%s\n' "name: blob" "type: azure_blob" "account_name: acct" "container_name: cont" \
    "endpoint: 'core.test:$blob_port'" "credentials: {account_key: '$key'}" >"$work/store.yml"
  signature=$(signature_of_store)
  printf '%s\n' "name: signed" "type: azure_blob" "account_name: acct" "container_name: cont" \
    "endpoint: 'core.test:$blob_port'" "credentials: {sas_token: '$signature'}" >"$work/signed.yml"
  printf '%s\n' "${signature##*sig=}" \
    "$(sed 's/%2B/+/g; s,%2F,/,g; s/%3D//' <<<"${signature##*sig=}")" \
    "${key%=}" "$(sed 's/+/%2B/g; s,/,%2F,g' <<<"${key%=}")" "$password" "${login%=}" \
    >"$work/secrets"
  until_true 180 grep -q "successfully listen" "$work/azurite.out"
  until_true 30 registry_listens "$1"
}
registry_listens() { bash -c "exec 3<>/dev/tcp/$1/${registry#*:}" 2>/dev/null; } # ADDRESS
serve_registry() {
  docker-registry serve "$work/registry.yml" >>"$work/registry.log" 2>&1 &
  registry_pid=$!
  servers+=("$registry_pid")
  disown "$registry_pid"
}
# For the container, as Azure's documents define it (service SAS, version 2020-12-06).
signature_of_store() {
  /usr/bin/python3 -c '
import base64, hashlib, hmac, sys, urllib.parse
fields = ["rcwl", "", "2099-01-01T00:00:00Z", "/blob/acct/cont", "", "", "https", "2020-12-06",
          "c", "", "", "", "", "", "", ""]
digest = hmac.new(base64.b64decode(sys.stdin.read()), "\n".join(fields).encode(), hashlib.sha256)
print(urllib.parse.urlencode({"sp": fields[0], "se": fields[2], "spr": fields[6], "sv": fields[7],
                              "sr": "c", "sig": base64.b64encode(digest.digest()).decode()}))
' <<<"$key"
}

# ---- this machine as a target of one or more nodes, with the stores `blob` and `signed`

# After `begin`, in namespaces of network and mounts that are the script's own.
make_site() { # NODES [MORE LINES OF THE CLUSTER FILE]
  stand_apart
  make_names
  serve_registry_and_blobs 127.0.0.1 /dev/null
  printf '%s\n' "default: here" "compute:" \
    "  here: {transport: local, nodes: [$1], remote_home: $work/nodes}" "${@:2}" >"$work/site.yml"
  export MUSTER_CONFIG=$work/site.yml
  az mkdir az:cont
  for store in store signed; do
    "$MUSTER" datastore create -f "$work/$store.yml" >"$work/out" 2>&1 || die "$(cat "$work/out")"
  done
}
fuse_mounts() { awk '/ - fuse/ { print $5 }' /proc/self/mountinfo | grep "^$work/" || true; }
no_mount_is_left() { [ -z "$(fuse_mounts)" ]; }

# ---- what holds

checks=0
check() { # TEXT COMMAND…
  checks=$((checks + 1))
  "${@:2}" >"$work/check" 2>&1 && echo "holds  $1" && return
  echo "FAILS  $1"
  sed 's/^/         /' "$work/check"
  missed=$((missed + 1))
}

# ---- the secrets

begin_watch() { # SECONDS between two looks; a planted word shows that the watch sees
  canary=canary-$RANDOM$RANDOM$RANDOM
  echo "$canary" >>"$work/secrets"
  CANARY=$canary sleep 7200 &
  servers+=($!)
  watch_processes "$1" &
  servers+=($!)
  disown -a
}
watch_processes() { # SECONDS: until $work/over; what was seen, and the names of all programs
  local file
  : >"$work/seen"
  while [ ! -e "$work/over" ]; do
    grep -lsaFf "$work/secrets" /proc/[0-9]*/cmdline /proc/[0-9]*/environ >"$work/hits" || true
    while read -r file; do
      [ "$file" = "/proc/$azurite_pid/environ" ] ||
        echo "$file $(cat "${file%/*}/comm" 2>/dev/null)"
    done <"$work/hits" | sort -u -o "$work/seen" - "$work/seen"
    sort -u -o "$work/names" <(cat /proc/[0-9]*/comm "$work/names" 2>/dev/null)
    echo >>"$work/looks"
    sleep "$1"
  done
}
watch_was_awake() { # NAME…: these programs were seen, too
  local name
  cat "$work/seen" "$work/names"
  for name; do grep -qx "$name" "$work/names" || return; done
  grep -q ' sleep$' "$work/seen"
}
in_no_process() { ! grep -v ' sleep$' "$work/seen" | sort -u | grep .; }
keep_answers() { # JOB: whatever muster tells of it
  local verb
  for verb in status lineage explain "job show --name"; do
    # shellcheck disable=SC2086
    "$MUSTER" $verb "$1" -o json
  done >>"$work/answers" 2>&1
  { "$MUSTER" explain "$1"; "$MUSTER" status "$1"; "$MUSTER" logs "$1"; } >>"$work/answers" 2>&1
}
in_no_file_here() { # of muster's, but those in which they are kept; a planted one is found
  echo "$canary" >"$MUSTER_HOME/planted"
  grep -rlaFf "$work/secrets" --exclude-dir=secrets --exclude=registry.json "$MUSTER_HOME" \
    "$work/nodes" "$work/answers" >"$work/found" || true
  cat "$work/found"
  [ "$(cat "$work/found")" = "$MUSTER_HOME/planted" ]
}
no_secret_was_told() { # NAME OF A PROGRAM…: three checks
  touch "$work/over"
  check "the watch saw a planted word, and: $*" watch_was_awake "$@"
  check "no secret in a process: $(wc -l <"$work/looks") looks at all of them" in_no_process
  check "no secret in logs, journal, answers and files of muster" in_no_file_here
}

az() { rclone --config "$work/rclone.conf" "$@"; }

end_registry_and_blobs() {
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null
  umount /etc/hosts "$authorities" 2>/dev/null
}

# An image of this machine's python3 and what it needs.
make_python_image() { # FILE
  local python
  python=$(/usr/bin/python3 -c 'import os; print(os.path.dirname(os.__file__))')
  mkdir -p "$work/empty/tmp"
  {
    ldd /usr/bin/python3 /bin/sh "$python"/lib-dynload/*.so | grep -o '/[^ ]* (0x' | cut -d' ' -f1
    printf '%s\n' /usr/bin/python3 /bin/sh "$python"
  } | sort -u | tar -C / -Ph --transform 's,^/,,' --exclude="$python/config-*" \
    --exclude="$python/test" --exclude="$python/dist-packages" -T - -cf "$1"
  tar -C "$work/empty" -rf "$1" tmp
}

# The same with python3-torch: all of Debian's packages that it depends on are twice as much.
make_torch_image() { # FILE
  local torch python
  torch=$(/usr/bin/python3 -c 'import torch; print(torch.__path__[0])')
  python=$(/usr/bin/python3 -c 'import os; print(os.path.dirname(os.__file__))')
  mkdir -p "$work/empty/tmp"
  {
    ldd /usr/bin/python3 /bin/sh "$torch"/*.so "$python"/lib-dynload/*.so |
      grep -o '/[^ ]* (0x' | cut -d' ' -f1
    printf '%s\n' /usr/bin/python3 /bin/sh "$python" "$torch" "${torch%/*}/typing_extensions.py"
  } | sort -u | tar -C / -Ph --transform 's,^/,,' --exclude='torch/bin/[!t]*' \
    --exclude='torch/bin/test*' --exclude='torch/include' --exclude='torch/test' \
    --exclude='lib/libtorch_cpu.so' --exclude='lib/libtorch_python.so' \
    --exclude='lib/libcaffe2_*' --exclude="$python/config-*" --exclude="$python/test" \
    --exclude="$python/dist-packages" -T - -cf "$1"
  tar -C "$work/empty" -rf "$1" tmp
}

# In the registry, and not in this machine's own store.
offer() { # TAR NAME
  local of_own=(podman --root "$work/podman/root" --runroot "$work/podman/run")
  "${of_own[@]}" import "$1" localhost/drill:1 >"$work/out" 2>&1 || die "$(tail -n 3 "$work/out")"
  "${of_own[@]}" push --quiet localhost/drill:1 "docker://$registry/$2" >"$work/out" 2>&1 ||
    die "$(tail -n 3 "$work/out")"
  "${of_own[@]}" rmi --force localhost/drill:1 >/dev/null
}
