#!/usr/bin/env bash
# Faults in a simulated fabric of 1,024 adapters and 64 switches are found by `muster health fabric`
# with the real tools, on the right node and device, and nothing else is. MUSTER names the program;
# FABRIC_SEED another choice of the faults. Prints figures: name value unit goal verdict.
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=ibsim.sh
. "$here/ibsim.sh"
. "$here/../../scripts/measure.sh"

readonly leaves=32 spines=32 hosts_of_leaf=32 devices=8
[ -x "$MUSTER" ] || die "no $MUSTER"
seed=${FABRIC_SEED:-1}
exec </dev/null
fabric_needs
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-fabric-test-XXXXXX")
trap 'fabric_down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ---- where the faults are: `KIND HOST DEVICE LEAF PORT` and `KIND - SPINE LEAF PORT`

choose_faults() {
  awk -v leaves=$leaves -v spines=$spines -v hosts=$hosts_of_leaf -v devices=$devices \
    -v seed="$seed" '
    function pick_adapter(kind,   host, device, leaf) {
      do {
        host = 2 + int(rand() * (leaves / devices * hosts - 1))  # n1 is where the tools run
        device = int(rand() * devices)
      } while ((host, device) in taken)
      taken[host, device] = 1
      leaf = int((host - 1) / hosts) * devices + device + 1
      print kind, "n" host, "mlx5_" device, "leaf" leaf, (host - 1) % hosts + 1
    }
    function pick_cable(kind,   leaf, spine) {
      do { leaf = 1 + int(rand() * leaves); spine = 1 + int(rand() * spines) } \
      while ((leaf, "spine", spine) in taken)
      taken[leaf, "spine", spine] = 1
      print kind, "-", "spine" spine, "leaf" leaf, hosts + spine
    }
    BEGIN {
      srand(seed)
      for (i = 0; i < 8; i++) {
        pick_adapter("down"); pick_adapter("narrow"); pick_adapter("slow")
        pick_adapter("errors_at_adapter"); pick_adapter("errors_at_leaf")
        pick_adapter("old_errors"); pick_adapter("few_errors")
      }
      for (i = 0; i < 3; i++) {
        pick_cable("down"); pick_cable("narrow"); pick_cable("slow"); pick_cable("errors_at_leaf")
      }
    }'
}

# What the judges are to say: those of one cable between switches name both ends.
expected_findings() {
  awk '
    function told(check, value) { print check, host, device, "fail", value }
    {
      host = $2
      device = $2 == "-" ? $4 "[" $5 "]-" $3 "[" substr($4, 5) "]" : $3 ":1"
    }
    $1 == "down" { told("fab.links", "Down/Polling") }
    $1 == "down" && host != "-" { told("fab.discover", "missing") }
    $1 == "narrow" { told("fab.links", "1X") }
    $1 == "slow" { told("fab.links", "100") }
    $1 ~ /^errors_at/ { told("fab.errors", 131) }' "$work/faults"
}

# Width and speed are the topology's: the same cables, with other options at both ends.
worn_net() {
  awk '
    FNR == NR {
      option = $1 == "narrow" ? "w=1\te=7" : $1 == "slow" ? "e=3" : ""
      if (option == "") next
      if ($2 != "-") worn["\"" $2 " " $3 "\"", "[1]"] = option
      else worn["\"" $3 "\"", "[" substr($4, 5) "]"] = option
      worn["\"" $4 "\"", "[" $5 "]"] = option
      next
    }
    /^(Switch|Hca)/ { node = $0; sub(/^[^"]*/, "", node) }
    /^\[/ {
      port = $0
      sub(/\t.*/, "", port)
      if ((node, port) in worn) sub(/e=7/, worn[node, port])
    }
    { print }' "$work/faults" "$work/net"
}

ends_of() { # KIND: what to write on the console for each
  awk -v kind="$1" '$1 == kind {
    if (kind ~ /_leaf$/) print "\"" $4 "\"[" $5 "]"
    else if ($2 == "-") print "\"" $3 "\"[" substr($4, 5) "]"
    else print "\"" $2 " " $3 "\"[1]" }' "$work/faults"
}
inject() { # KIND COMMAND WHAT
  local end
  while read -r end; do fabric_tell "$2 $end${3:+ $3}"; done < <(ends_of "$1")
}

# ---- muster, whose tools see the fabric that is simulated, and itself nothing of it

make_tools() {
  local tool path
  mkdir "$work/tools"
  for tool in ibnetdiscover iblinkinfo ibqueryerrors sminfo; do
    path=$(command -v "$tool")
    cat >"$work/tools/$tool" <<SH
#!/bin/sh
cd "\$FABRIC" || exit 99
exec env SIM_HOST="\$FABRIC_ADAPTER" LD_PRELOAD=$umad2sim $path "\$@"
SH
    chmod +x "$work/tools/$tool"
  done
  printf 'profile: hdr\nib: {rate_gbps: 200, width: 4X}\n' >"$work/hdr.yml"
}

health_fabric() { # OPTION…
  FABRIC=$fabric FABRIC_ADAPTER=$fabric_adapter PATH=$work/tools:$PATH \
    "$MUSTER" health fabric --profile "$work/hdr.yml" --state "$work/state" "$@" 7>&-
}

# CHECK HOST DEVICE STATUS VALUE, `-` for what is empty, of each finding that is no pass.
look() { # OPTION…
  local begun code
  begun=$(now)
  health_fabric --golden "$work/golden" -o jsonl "$@" >"$work/said" 2>"$work/err"
  code=$?
  took=$(since "$begun")
  [ "$code" -le 1 ] || [ "$code" -eq 3 ] || { cat "$work/err" >&2; die "it ended with $code"; }
  awk '
    function field(name,   text) {
      if (!match($0, "\"" name "\":(\"[^\"]*\"|[0-9.]+)")) return "-"
      text = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
      gsub(/"/, "", text)
      return text == "" ? "-" : text
    }
    /"status":"pass"/ { next }
    { print field("check"), field("host"), field("device"), field("status"), field("value") }
  ' "$work/said" | sort >"$work/findings"
}

is_all_counted() {
  look --check fab.errors
  ! grep -q ' unknown ' "$work/findings"
}

judged() { # EXPECTED: whether a look says that, and nothing else
  look
  sort "$1" >"$work/expected"
  comm -13 "$work/expected" "$work/findings" >"$work/false"
  comm -23 "$work/expected" "$work/findings" >"$work/missed"
  head -n 20 "$work/false" | sed 's/^/  false: /' >&2
  head -n 20 "$work/missed" | sed 's/^/  missed: /' >&2
}
lines() { wc -l <"$1" | tr -d ' '; }

begun_test=$(now)
choose_faults >"$work/faults"
expected_findings >"$work/all_faults"
fabric_net $leaves $spines $hosts_of_leaf $devices >"$work/net"
worn_net >"$work/worn"

make_tools
begun=$(now)
fabric_up "$work/net"
figure fabric_up "$(since "$begun")" s -
health_fabric --save-golden "$work/golden" 2>"$work/err" || { cat "$work/err"; die "no golden"; }
health_fabric --check fab.errors -o nagios >"$work/said" 2>"$work/err" \
  || { cat "$work/said" "$work/err"; die "a first look at counters is not OK"; }
grep -q '^MUSTER OK - first run: ' "$work/said" || { cat "$work/said"; die "it does not say so"; }
look
look
figure fabric_healthy_findings "$(lines "$work/findings")" findings '<=0'
figure fabric_judged "$(lines "$work/said")" findings '>=5000'
figure fabric_healthy_look "$took" s -
rm "$work/state"
fabric_down

fabric_up "$work/worn"
inject old_errors PerformanceSet PortCounters.SymbolErrorCounter=4000
fabric_settle
look --check fab.errors
inject few_errors PerformanceSet PortCounters.SymbolErrorCounter=3
inject errors_at_adapter PerformanceSet PortCounters.SymbolErrorCounter=131
inject errors_at_leaf PerformanceSet PortCounters.LinkDownedCounter=131
inject down Unlink
fabric_settle
# Ways over the cables that are gone lead nowhere until the subnet manager has changed them.
begun=$(now)
fabric_await 'way round' is_all_counted
figure fabric_rerouted "$(since "$begun")" s -
judged "$work/all_faults"
figure fabric_faults "$(lines "$work/expected")" findings -
figure fabric_found "$(($(lines "$work/expected") - $(lines "$work/missed")))" findings \
  ">=$(lines "$work/expected")"
figure fabric_false "$(lines "$work/false")" findings '<=0'
figure fabric_look "$took" s '<=20'

# Nobody answers any more.
kill -9 "$opensm_pid"
wait "$opensm_pid" 2>/dev/null
opensm_pid=''
# ibqueryerrors asks the subnet manager for its ways.
{
  grep -v '^fab.errors ' "$work/all_faults"
  echo 'fab.errors - - unknown -'
  echo 'fab.sm - - fail no answer'
} >"$work/and_manager"
judged "$work/and_manager"
figure fabric_manager_gone "$(lines "$work/missed")" missed '<=0'
figure fabric_manager_false "$(lines "$work/false")" findings '<=0'

# A tool that hangs is unknown after two deadlines, and does not delay the others.
printf '#!/bin/sh\nexec sleep 600\n' >"$work/tools/iblinkinfo"
look --check fab.links --deadline 1s
figure fabric_hanging_tool "$took" s '<=10'
[ "$(cat "$work/findings")" = "fab.links - - unknown -" ] || die "a hanging tool is not unknown"
figure fabric_test "$(since "$begun_test")" s '<=120'
[ "$missed" -eq 0 ]
