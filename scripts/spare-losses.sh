# shellcheck shell=bash disable=SC2154
# Sourced by spare-drill: nodes that are lost, and nodes that only stand still for a while.
#
# Each loss and each stall is of a job of its own, two ranks and a spare, that writes a step every
# 200 ms. What happened when is read from the journal, by the controller's clock, which is this
# machine's. Another host in the lost one's place answers for it where one has to.

address_of() { sed -n "s/.*name: $1,.*host: \([0-9.]*\).*/\1/p" "$lab"; }
on() { "$MUSTER" sandbox exec --dir "$cluster" "$1" -- sh -c "$2"; }

# Of processes on a host whose command matches; those of the host's network are the host's.
pids_on() { # HOST PATTERN
  local inode net pid
  inode=$(on "$1" 'readlink /proc/self/ns/net' | tr -dc 0-9)
  for net in /run/netns/*; do
    [ "$(stat -Lc %i "$net")" = "$inode" ] || continue
    for pid in $(ip netns pids "${net##*/}"); do
      tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qE "$2" && echo "$pid"
    done
  done
  true
}

# ---- what breaks --------------------------------------------------------------------------------

stand_in=drill-$$
make_stand_in() { # ADDRESS: a host on the same bridge
  bridge=$(ip -o route get "$1" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  ip netns add "$stand_in"
  ip link add "dr$$" type veth peer name eth0 netns "$stand_in"
  ip link set "dr$$" master "$bridge" up
  ip -n "$stand_in" link set eth0 up
  local mac
  mac=$(ip -n "$stand_in" -o link show eth0 | sed -n 's/.*ether \([^ ]*\).*/\1/p')
  ip neigh replace "$1" lladdr "$mac" dev "$bridge" nud permanent
}
remove_stand_in() { # ADDRESS
  ip neigh del "$1" dev "$bridge" 2>/dev/null
  ip netns delete "$stand_in" 2>/dev/null
  ip link delete "dr$$" 2>/dev/null
  true
}

lose() { # KIND HOST
  local address prefix
  address=$(address_of "$2")
  "$MUSTER" sandbox partition --dir "$cluster" "$2" >/dev/null || die "no partition of $2"
  [ "$1" = power ] && return
  make_stand_in "$address"
  prefix=$(ip -o -4 addr show dev "$bridge" | sed -n 's/.*inet [0-9.]*\(\/[0-9]*\).*/\1/p')
  if [ "$1" = reset ]; then # its kernel knows of no such connection, and nothing listens
    ip -n "$stand_in" addr add "$address$prefix" dev eth0
  else # a router that has no way to it
    ip -n "$stand_in" addr add "${address%.*}.250$prefix" dev eth0
    ip -n "$stand_in" route add unreachable "$address"
    ip netns exec "$stand_in" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  fi
}

give_back() { # KIND HOST: its ranks have ended with their lease, its agent too
  [ "$1" = power ] || remove_stand_in "$(address_of "$2")"
  "$MUSTER" sandbox heal --dir "$cluster" "$2" >/dev/null
  until_true 90 has_no_agent "$2"
  "$MUSTER" undrain "$2" >/dev/null 2>&1
}
has_no_agent() { [ -z "$(pids_on "$1" 'muster.* agent ')" ]; }

stall() { # KIND HOST: for 15 s
  local pids pattern
  case $1 in
    agent) pattern='muster.* agent ' ;; # it, its keeper and its link
    link) pattern='agent attach' ;;
    sshd) pattern='sshd' ;;
  esac
  if [ "$1" = network ]; then
    "$MUSTER" sandbox partition --dir "$cluster" "$2" >/dev/null
    sleep 15
    "$MUSTER" sandbox heal --dir "$cluster" "$2" >/dev/null
    return
  fi
  mapfile -t pids < <(pids_on "$2" "$pattern")
  [ ${#pids[@]} -gt 0 ] || die "no $pattern on $2"
  kill -STOP "${pids[@]}"
  sleep 15
  kill -CONT "${pids[@]}" 2>/dev/null
}

# ---- one job ------------------------------------------------------------------------------------

begin_job() { # NAME: until it trains, its spare ready
  cat >"$work/$1.yml" <<YAML
command: >-
  $train --data $shared/text.txt --steps 100000 --layers 1 --width 16 --heads 2 --context 16
  --batch 4 --checkpoint-every 10 --keep 3 --step-delay-ms 200 --out \${{outputs.model}}
compute: sandbox
distribution: {type: pytorch, process_count_per_instance: 1}
resources: {instance_count: 2}
outputs: {model: {type: uri_folder}}
muster:
  nodes: {spares: 1}
  checkpoint: {path: $shared/ckpt-$1}
YAML
  "$MUSTER" submit "$work/$1.yml" --cluster "$lab" --name "$1" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; die "not submitted"; }
  until_true 120 has_step "$1" 15
}
end_job() { "$MUSTER" cancel "$1" --grace 2s >/dev/null 2>&1; until_true 120 is_over "$1"; }
is_over() { [ "$(ask "$1" status)" = Canceled ]; }
host_of_rank_1() { ask "$1" 'attempts[0].nodes[1]' | tr -dc 'a-z0-9'; }

# When the loss was declared, proven, the next attempt placed, and its first step, in ms.
story_of() { # JOB
  python3 - "$MUSTER_HOME/muster.db" "$1" <<'PY'
import json, sqlite3, sys
store = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)
when = {}
for at, kind, payload in store.execute(
        "select at_ms, kind, payload from record where job = ? order by seq", (sys.argv[2],)):
    attempt = json.loads(payload).get('attempt', 0)
    if kind in ('stop_begun', 'node_fenced') and attempt == 0:
        when.setdefault(kind, at) if kind == 'stop_begun' else when.update({kind: at})
    if kind == 'attempt_placed' and attempt == 1: when.setdefault(kind, at)
    if kind == 'progress_seen' and attempt == 1: when.setdefault(kind, at)
print(*(when.get(kind, 0) for kind in
        ('stop_begun', 'node_fenced', 'attempt_placed', 'progress_seen')))
PY
}
goes_on() { [ "$(story_of "$1" | cut -d' ' -f4)" -gt 0 ]; }

worst() { sort -g | tail -n 1; }
seconds_from() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", (b - a) / 1000 }'; }

lose_one() { # KIND NAME
  local kind=$1 host lost declared proven placed step
  job=$2
  begin_job "$job"
  host=$(host_of_rank_1 "$job")
  lost=$(date +%s%3N)
  lose "$kind" "$host"
  until_true 150 goes_on "$job"
  read -r declared proven placed step < <(story_of "$job")
  echo "# $kind $host: declared lost after $(seconds_from "$lost" "$declared") s, proof" \
    "$(seconds_from "$lost" "$proven") s, placed $(seconds_from "$lost" "$placed") s," \
    "first step $(seconds_from "$lost" "$step") s"
  seconds_from "$lost" "$declared" >>"$work/declared-$kind"
  seconds_from "$proven" "$placed" >>"$work/idle"
  seconds_from "$lost" "$step" >>"$work/costs"
  end_job "$job"
  give_back "$kind" "$host"
}

stall_one() { # KIND NAME
  local host before
  job=$2
  begin_job "$job"
  host=$(host_of_rank_1 "$job")
  stall "$1" "$host"
  before=$(ask "$job" steps)
  sleep 15 # what the silence ends, ends within this time
  until_true 60 has_step "$job" $((before + 10))
  echo "# $1 $host stood still for 15 s: $(ask "$job" 'length(attempts)') attempt"
  has_moved "$job" && echo 1 >>"$work/ended"
  end_job "$job"
  "$MUSTER" undrain "$host" >/dev/null 2>&1
}

measure_losses() { # LOSSES STALLS
  local i kinds=(power unreachable reset) stalls=(agent sshd link network)
  : >"$work/ended"
  for ((i = 0; i < $1; i++)); do lose_one "${kinds[i % 3]}" "loss-$i"; done
  for ((i = 0; i < $2; i++)); do stall_one "${stalls[i % 4]}" "stall-$i"; done
  for i in unreachable reset; do
    [ -s "$work/declared-$i" ] && figure "declared_$i" "$(worst <"$work/declared-$i")" s '<=5'
  done
  figure proof_to_next_attempt "$(worst <"$work/idle")" s '<=5'
  figure loss_to_step_median "$(median <"$work/costs")" s '<=30'
  figure loss_to_step_worst "$(worst <"$work/costs")" s '<=30'
  [ "$2" -eq 0 ] || figure jobs_ended_by_stalls "$(wc -l <"$work/ended")" jobs '<=0'
}
