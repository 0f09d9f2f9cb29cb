#!/usr/bin/env bash
# `muster health` on recorded roots: verdicts and exit codes, forms for monitors, Slurm's hooks with
# a scontrol that writes down what it is told, profiles from a host, records.
. "$(dirname "$0")/harness.sh"

root="$work/root"
port="$root/sys/class/infiniband/mlx5_0/ports/1"
mkdir -p "$port" "$root/proc/sys/kernel/random" "$root/dev" "$root/.probes"
echo n17 >"$root/proc/sys/kernel/hostname"
echo 6f1d0f3c-0000-4000-8000-000000000001 >"$root/proc/sys/kernel/random/boot_id"
echo "86400.25 700000.00" >"$root/proc/uptime"
echo "MemTotal: 1000000 kB" >"$root/proc/meminfo"
echo >"$root/dev/kmsg"
echo "4: ACTIVE" >"$port/state"
echo "5: LinkUp" >"$port/phys_state"
echo "400 Gb/sec (4X NDR)" >"$port/rate"
echo InfiniBand >"$port/link_layer"
echo 0x10 >"$port/lid"; echo 0x1 >"$port/sm_lid"
cat >"$work/site.yml" <<'YAML'
profile: site
gpu: {count: 0}
ib: {ports: ["mlx5_0:1"], rate_gbps: 400, width: 4X}
required: [ib.state]
YAML
health=("$MUSTER" health --root "$root" --profile "$work/site.yml" --check "ib.state")

# ---- verdicts
expect 0 "${health[@]}"
has out "1 check passed, 0 failed, 0 unknown"
has out "n17 is ready"
expect 3 "$MUSTER" health --root "$root" --profile "$work/site.yml" --check host.edac
has out "n17 is unknown: nothing was checked"
expect 0 "$MUSTER" health run --root "$root" --profile "$work/site.yml" --check ib.state --all
has out "4: ACTIVE"
echo "1: DOWN" >"$port/state"
expect 3 "${health[@]}" --quick
has out "n17 is unknown"
expect 1 "${health[@]}"
has out "(3 looks)"
has out "n17 unavailable: muster:node:ib.state:mlx5_0:1"
expect 1 "${health[@]}" -o json --query verdict.state
has out '"drained"'
for look in 1 2; do expect 3 "${health[@]}" --quick --state "$work/kept.state"; sleep 1; done
expect 1 "${health[@]}" --quick --state "$work/kept.state"
[ "$(stat -c %a "$work/kept.state")" = 600 ] || fail "the state is not its owner's alone"
echo "{" >"$work/kept.state"
expect 3 "${health[@]}" --quick --state "$work/kept.state"
has err "starting with empty state"

# ---- a source that hangs
rm "$port/state"; mkfifo "$port/state"
expect 3 "${health[@]}"
has out "hung: /sys/class/infiniband/mlx5_0/ports/1/state: no answer within"
rm "$port/state"; echo "1: DOWN" >"$port/state"

# ---- monitors
expect 2 "${health[@]}" -o nagios
has out "MUSTER CRITICAL - ib.state mlx5_0:1 1: DOWN (expected 4: ACTIVE) |"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "a plugin's answer is one line"
expect 1 "${health[@]}" -o jsonl
has out '{"ts":"20'
has out '"check":"ib.state","device":"mlx5_0:1"'
expect 1 "${health[@]}" -o none --prometheus-file "$work/muster.prom"
grep -q '^muster_health_check{check="ib.state",device="mlx5_0:1"} 2$' "$work/muster.prom" ||
  fail "no metric: $(cat "$work/muster.prom")"
ls "$work" | grep -q 'muster.prom.' && fail "a temporary file was left"
expect 99 "${health[@]}" -o none --prometheus-file "$work/no/such/muster.prom"
"${health[@]}" --all | head -1 >/dev/null || true

# ---- names of devices are text from elsewhere
printf '1: DOWN \033[2J\n' >"$port/state"
"${health[@]}" --quick >"$work/out" 2>&1
grep -q $'\033' "$work/out" && fail "a control character came through"
echo "4: ACTIVE" >"$port/state"

# ---- profiles
printf 'profile: x\nhost: {cpu: 3}\n' >"$work/bad.yml"
expect 90 "$MUSTER" health --root "$root" --profile "$work/bad.yml"
has err "bad.yml:2:8: error: unknown key 'cpu' in 'host'; did you mean 'cpus'?"
expect 90 "$MUSTER" health --root "$root" --profile ND96isr_H100_v6
has err "did you mean 'ND96isr_H100_v5'?"
expect 2 "$MUSTER" health --check ib.stat
has err "did you mean 'ib.state'?"
expect 0 "$MUSTER" health profiles
has out ND96isr_H100_v5
expect 0 "$MUSTER" health profiles ND96isr_H100_v5
has out "nvlinks: 18"
expect 0 "$MUSTER" health checks --profile ND96isr_H100_v5 -o tsv
has out ib.state
expect 0 "$MUSTER" health learn --root "$root" --name mine -o "$work/mine.yml"
has err "skipped: host.cpus"
grep -q "mem_kb: 1000000" "$work/mine.yml" || fail "nothing was learned: $(cat "$work/mine.yml")"
expect 0 "$MUSTER" health --root "$root" --profile "$work/mine.yml" --check "host.mem"
expect 2 "$MUSTER" health learn --root "$root" -o "$work/mine.yml"

# ---- a record says the same
echo "2: INIT" >"$port/state"
expect 0 "$MUSTER" health record "$work/copy" --root "$root" --profile "$work/site.yml"
same() { sed -E 's/"(ts|first_seen|duration_ms)":("[^"]*"|[0-9.]+),?//g' "$work/out" | sort; }
# The disks below a root are this machine's: their space changes.
of=(--quick -o jsonl --check 'ib.*' --check 'host.[mr]*' --check 'gpu.*')
"$MUSTER" health --root "$root" --profile "$work/site.yml" "${of[@]}" >"$work/out"
same >"$work/first"
"$MUSTER" health --root "$work/copy" --profile "$work/copy/profile.yml" "${of[@]}" >"$work/out"
same >"$work/second"
[ -s "$work/first" ] || fail "nothing was found"
diff "$work/first" "$work/second" || fail "the record says something else"
expect 99 "$MUSTER" health record "$work/copy" --root "$root"
has err "it is not empty"

# ---- Slurm
cat >"$work/scontrol" <<'SH'
#!/usr/bin/env bash
{ printf '%s' "$1"; shift; printf '|%s' "$@"; echo; } >>"$(dirname "$0")/told"
[ "$1" = node ] && cat "$(dirname "$0")/shown"
exit 0
SH
chmod +x "$work/scontrol"
slurm=("${health[@]}" --state "$work/slurm.state" --slurm --scontrol "$work/scontrol")
expect 2 "${slurm[@]}"
has err "SLURMD_NODENAME is not set"
export SLURMD_NODENAME='n[1-9]'
expect 2 "${slurm[@]}"
export SLURMD_NODENAME=n17
echo "NodeName=n17 State=IDLE Weight=1" >"$work/shown"
echo "1: DOWN" >"$port/state"
expect 1 "${slurm[@]}"
reason=$(grep -o 'Reason=.*' "$work/told")
case $reason in
  "Reason=muster:node:ib.state:mlx5_0:1 "????????) ;;
  *) fail "told: $(cat "$work/told")" ;;
esac
grep -qxF "show|node|-o|n17" "$work/told" || fail "told: $(cat "$work/told")"
grep -qF "update|NodeName=n17|State=DRAIN|Reason=muster:" "$work/told" || fail "no drain"
# Its own reason stands: nothing to say again; a person's is left alone.
echo "NodeName=n17 State=IDLE+DRAIN $reason [root@2026-03-01T10:00:00]" >"$work/shown"
: >"$work/told"; expect 1 "${slurm[@]}"
grep -q update "$work/told" && fail "drained twice"
echo "4: ACTIVE" >"$port/state"
echo "NodeName=n17 State=IDLE+DRAIN Reason=fan is loud [root@2026-03-01T10:00:00]" >"$work/shown"
: >"$work/told"
for code in 1 1 0; do expect "$code" "${slurm[@]}"; sleep 1; done  # it passes three times
grep -q update "$work/told" && fail "an operator's drain was undone"
echo "NodeName=n17 State=IDLE+DRAIN $reason [root@2026-03-01T10:00:00]" >"$work/shown"
: >"$work/told"; expect 0 "${slurm[@]}"
grep -qxF "update|NodeName=n17|State=UNDRAIN" "$work/told" || fail "told: $(cat "$work/told")"
has err "n17 resumed"
echo "scontrol: error" >"$work/shown"
expect 1 "${slurm[@]}"
has err "scontrol does not show node n17"
# Prolog and epilog answer by their exit code and call nothing.
: >"$work/told"
expect 0 "${slurm[@]}" --hook prolog
expect 0 "${slurm[@]}" --hook epilog
echo "1: DOWN" >"$port/state"
sleep 1
rm "$work/slurm.state"
expect 1 env -i "$MUSTER" "${slurm[@]:1}" --hook prolog
has err "muster:node:ib.state:mlx5_0:1"
rm "$port/state"; mkfifo "$port/state"; rm -f "$work/slurm.state"
began=$SECONDS
expect 1 "${slurm[@]}" --hook prolog
[ $((SECONDS - began)) -le 11 ] || fail "a prolog took $((SECONDS - began)) s"
[ -s "$work/told" ] && fail "a prolog called scontrol"
exit 0
