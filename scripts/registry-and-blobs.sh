# shellcheck shell=bash disable=SC2154
# Sourced by container-drill, after measure.sh: a registry with a login and Azure's blobs (Azurite)
# behind an account key, both by TLS and under names, on an address that sandbox hosts reach too.
#
# The names and the certificate are those of this process and of what it starts: it has to be in a
# mount namespace of its own (`unshare -m`). The secrets are planted: $work/secrets has a line for
# each form in which one may be written down.

readonly blob_host=acct.blob.core.test registry_host=registry.core.test
readonly authorities=/etc/ssl/certs/ca-certificates.crt # hosts need those of $work, too
blob_port=$((16100 + $$ % 400))
registry=$registry_host:$((16500 + $$ % 300))
key=$(head -c 32 /dev/urandom | base64 -w 0)
password=planted-$(head -c 18 /dev/urandom | base64 -w 0 | tr '+/' 'xy')
servers=()

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
  docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 &
  servers+=($!)
  AZURITE_ACCOUNTS="acct:$key" "$azurite" --location "$work/azurite" --blobHost "$1" \
    --blobPort "$blob_port" --cert "$work/tls.pem" --key "$work/tls.key" --disableTelemetry \
    --skipApiVersionCheck --debug "$work/azurite.log" >"$work/azurite.out" 2>&1 &
  azurite_pid=$!
  servers+=("$azurite_pid")
  printf '%s\n' "[az]" "type = azureblob" "account = acct" "key = $key" \
    "endpoint = blob.core.test:$blob_port" >"$work/rclone.conf"
  printf '%s\n' "name: blob" "type: azure_blob" "account_name: acct" "container_name: cont" \
    "endpoint: 'core.test:$blob_port'" "credentials: {account_key: '$key'}" >"$work/store.yml"
  printf '%s\n' "${key%=}" "$(sed 's/+/%2B/g; s,/,%2F,g' <<<"${key%=}")" "$password" "${login%=}" \
    >"$work/secrets"
  until_true 60 grep -q "successfully listen" "$work/azurite.out"
  until_true 30 bash -c "exec 3<>/dev/tcp/$1/${registry#*:}" 2>/dev/null
}

az() { rclone --config "$work/rclone.conf" "$@"; }

end_registry_and_blobs() {
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null
  umount /etc/hosts "$authorities" 2>/dev/null
}

# An image of this machine's python3-torch and what it needs: all of Debian's packages that it
# depends on are twice as much.
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
