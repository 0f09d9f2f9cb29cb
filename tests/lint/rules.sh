#!/usr/bin/env bash
# The rules a reader of this repository may rely on. Each prints what breaks it, as file:line: why,
# and fails when there was anything to print:
#
#   tests/lint/rules.sh RULE [ROOT]     one rule, on the tree at ROOT (default: this repository)
#   tests/lint/rules.sh list            the names of all rules
set -uo pipefail

readonly code_folders=(scheduler health templates runtime launcher cli tools)

# Which folders the files of a folder may include, besides its own and scheduler/text; a folder
# stands after those that it includes, so that there are no rings: `folder: folders`, on several
# lines where one is too short. `x/*` is x and all below it. Of the folders around a file the
# innermost one that is listed counts.
layers() {
  cat <<'TABLE'
scheduler/model: -
scheduler/state: scheduler/model
scheduler/apply: scheduler/model scheduler/state
scheduler/node: scheduler/model scheduler/state
scheduler/failure: scheduler/model scheduler/node scheduler/state
scheduler/placement: scheduler/model scheduler/node scheduler/state
scheduler/restart: scheduler/model scheduler/state
scheduler/attempt: scheduler/failure scheduler/model scheduler/node scheduler/placement
scheduler/attempt: scheduler/restart scheduler/state
scheduler/decide: scheduler/model scheduler/node scheduler/placement scheduler/restart
scheduler/decide: scheduler/state
scheduler/explain: scheduler/apply scheduler/failure scheduler/model scheduler/node
scheduler/explain: scheduler/restart scheduler/state
scheduler/text: -
templates/yaml: scheduler/model
templates/resource: scheduler/model templates/yaml
templates/job: scheduler/model templates/yaml
templates/pipeline: scheduler/model templates/job templates/yaml
templates/azure: scheduler/model templates/job templates/settings templates/yaml
templates/profile: health/model scheduler/model templates/yaml
templates/settings: health/checks scheduler/model scheduler/restart templates/job templates/yaml
templates/cluster: health/checks scheduler/model templates/job templates/profile templates/settings
templates/cluster: templates/resource templates/yaml
templates: templates/cluster templates/job templates/pipeline templates/resource
templates: templates/settings templates/yaml
health/model: scheduler/model
health/checks: health/model scheduler/model
health/checks/infiniband: health/model
health/nvml: health/model scheduler/model
health/read: health/model health/nvml scheduler/model
health/benchmark/tools: health/model health/read scheduler/model
health/checks/host: health/checks health/model health/read
health/checks/gpu: health/checks/host health/model
health/checks/kernel: health/model health/read
health/fabric: health/benchmark/tools health/model health/read scheduler/model
health/learn: health/checks/gpu health/checks/host health/checks/infiniband
health/learn: health/model health/read
health/verdict: health/model scheduler/model
health/monitor: health/checks/gpu health/checks/host health/checks/infiniband health/checks/kernel
health/monitor: health/model health/nvml health/read health/verdict
health/benchmark: health/benchmark/tools health/model health/monitor health/read
health/benchmark: health/verdict scheduler/model
health/fault_isolation: health/benchmark health/model
health/output: health/model health/verdict scheduler/model
runtime/memory: -
runtime/layer: runtime/memory
runtime/optimizer: runtime/memory
runtime/protocol: -
runtime/checkpoint/file: runtime/protocol
runtime/checkpoint: runtime/checkpoint/file runtime/memory runtime/protocol
runtime/communicator: runtime/checkpoint runtime/checkpoint/file runtime/protocol
runtime/communicator/mesh: runtime/communicator runtime/protocol
runtime/data: runtime/checkpoint runtime/checkpoint/file runtime/memory runtime/protocol
runtime/model: runtime/checkpoint runtime/layer runtime/memory
runtime/export: runtime/checkpoint runtime/checkpoint/file runtime/layer runtime/model
runtime/export: runtime/protocol
runtime/report: runtime/model runtime/protocol
runtime/tokenize: runtime/checkpoint runtime/checkpoint/file runtime/data runtime/protocol
runtime/zero: runtime/checkpoint runtime/communicator runtime/memory runtime/model runtime/report
runtime/train/step: runtime/checkpoint runtime/checkpoint/file runtime/communicator
runtime/train/step: runtime/communicator/mesh runtime/data runtime/memory runtime/model
runtime/train/step: runtime/optimizer runtime/protocol runtime/report runtime/tokenize runtime/zero
runtime/train/save: runtime/checkpoint runtime/checkpoint/file runtime/communicator runtime/protocol
runtime/train/save: runtime/report runtime/train/step runtime/zero
runtime/estimate: runtime/communicator/mesh runtime/layer runtime/model runtime/protocol
runtime/estimate: runtime/report runtime/train/save runtime/train/step runtime/zero
runtime/train/restore: runtime/checkpoint runtime/checkpoint/file runtime/communicator
runtime/train/restore: runtime/protocol runtime/train/save runtime/train/step
runtime/train: runtime/communicator runtime/data runtime/layer runtime/memory runtime/protocol
runtime/train: runtime/report runtime/train/restore runtime/train/save runtime/train/step
runtime/train/elastic: runtime/checkpoint runtime/checkpoint/file runtime/communicator/mesh
runtime/train/elastic: runtime/data runtime/layer runtime/protocol runtime/train
runtime/train/elastic: runtime/train/restore runtime/train/save runtime/train/step
runtime: runtime/communicator runtime/communicator/mesh runtime/estimate runtime/protocol
runtime: runtime/tokenize runtime/train runtime/train/elastic runtime/train/step
launcher/os: scheduler/model
launcher/transport/link: launcher/os scheduler/model
launcher/transport/ssh: launcher/os launcher/transport/link scheduler/model
launcher/transport: launcher/os launcher/transport/link launcher/transport/ssh scheduler/model
launcher/wire: scheduler/model
launcher/agent/node: launcher/os launcher/wire runtime/protocol scheduler/model
launcher/agent/foreign_checkpoints: launcher/os
launcher/agent/metric_sources: launcher/agent/foreign_checkpoints launcher/os launcher/wire
launcher/agent/metric_sources: runtime/protocol scheduler/model scheduler/restart
launcher/agent/watch: health/read launcher/agent/foreign_checkpoints launcher/agent/metric_sources
launcher/agent/watch: launcher/agent/node launcher/os
launcher/agent/watch: launcher/wire runtime/checkpoint runtime/protocol scheduler/model
launcher/controller/store: launcher/os launcher/wire scheduler/model scheduler/state
launcher/relay: launcher/os launcher/transport/link launcher/wire
launcher/staging: launcher/os launcher/wire scheduler/model
launcher/image: launcher/os launcher/staging scheduler/model
launcher/data: launcher/os launcher/staging launcher/wire scheduler/model
launcher/agent/keeper: health/checks/host launcher/agent/node launcher/os launcher/staging
launcher/agent/keeper: launcher/wire runtime/protocol scheduler/model scheduler/restart
launcher/agent/container: launcher/agent/node launcher/hold launcher/os scheduler/model
launcher/agent/image: launcher/agent/container launcher/agent/node launcher/image launcher/os
launcher/agent/image: launcher/staging launcher/wire scheduler/model
launcher/agent/attempt: launcher/agent/container launcher/agent/image launcher/image
launcher/agent/attempt: launcher/agent/keeper launcher/agent/metric_sources launcher/agent/node
launcher/agent/attempt: launcher/agent/watch launcher/os
launcher/agent/attempt: launcher/wire runtime/protocol scheduler/model
launcher/agent/exec: health/checks/host launcher/agent/attempt launcher/agent/keeper
launcher/agent/exec: launcher/agent/node launcher/os launcher/wire runtime/protocol scheduler/model
launcher/agent/health: health/benchmark health/benchmark/tools health/checks/kernel health/model
launcher/agent/health: health/monitor health/read health/verdict launcher/agent/exec
launcher/agent/health: launcher/agent/keeper launcher/agent/node launcher/os launcher/wire
launcher/agent/health: runtime/protocol scheduler/model
launcher/agent: health/checks health/checks/host launcher/agent/attempt launcher/agent/exec
launcher/agent: launcher/agent/health launcher/agent/keeper launcher/agent/node launcher/agent/watch
launcher/agent: launcher/agent/image launcher/os launcher/staging launcher/wire runtime/protocol
launcher/agent: scheduler/model
launcher/controller/agents: health/benchmark health/checks/host launcher/controller/store
launcher/controller/agents: launcher/image launcher/os launcher/staging launcher/transport/link
launcher/controller/agents: launcher/wire
launcher/agent: launcher/data launcher/os launcher/staging launcher/wire runtime/protocol
launcher/agent: scheduler/model
launcher/controller/agents: health/benchmark health/checks/host launcher/controller/store
launcher/controller/agents: launcher/data
launcher/controller/agents: launcher/os launcher/staging launcher/transport/link launcher/wire
launcher/controller/agents: runtime/protocol scheduler/attempt scheduler/decide scheduler/failure
launcher/controller/agents: scheduler/model scheduler/node scheduler/placement scheduler/restart
launcher/controller/agents: scheduler/state
launcher/controller/clients: launcher/controller/agents launcher/controller/store launcher/os
launcher/controller/clients: launcher/transport/link launcher/wire scheduler/explain
launcher/controller/clients: scheduler/model scheduler/node
launcher/controller/clients: scheduler/restart scheduler/state
launcher/controller: launcher/controller/agents launcher/controller/clients
launcher/controller: launcher/data
launcher/controller: launcher/controller/store launcher/os launcher/relay launcher/transport
launcher/controller: runtime/protocol scheduler/apply scheduler/decide scheduler/model
launcher/controller: scheduler/state
cli/query: scheduler/model
cli/terminal: cli/query launcher/os scheduler/model templates templates/yaml
cli/client: cli/terminal launcher/controller launcher/controller/store launcher/os launcher/wire
cli/client: runtime/protocol scheduler/explain scheduler/model templates/cluster
cli/client: templates/resource templates/yaml
cli/checkpoint: launcher/agent/foreign_checkpoints
cli/checkpoint: cli/client cli/terminal launcher/controller/store runtime/checkpoint runtime/export
cli/checkpoint: runtime/protocol scheduler/explain scheduler/model
cli/grammar: cli/query cli/terminal scheduler/model templates/yaml
cli/health: cli/client cli/terminal health/benchmark health/checks health/checks/host
cli/health: health/checks/infiniband health/fabric health/learn health/model health/monitor
cli/health: health/output health/read health/verdict launcher/agent launcher/agent/health
cli/health: launcher/agent/node launcher/controller/store launcher/os launcher/wire scheduler/model
cli/health: templates/profile templates/yaml
cli/health/cluster: cli/client cli/health cli/terminal health/benchmark health/checks/host
cli/health/cluster: health/checks/infiniband health/fabric health/fault_isolation health/model
cli/health/cluster: health/verdict launcher/os launcher/wire scheduler/model templates/yaml
cli/data: cli/client cli/terminal launcher/controller/store launcher/data launcher/os
cli/data: launcher/staging scheduler/model templates templates/job templates/resource
cli/data: templates/yaml
cli/image: cli/client cli/data cli/terminal launcher/agent/image launcher/controller/store
cli/image: launcher/data launcher/image launcher/os launcher/staging launcher/wire scheduler/model
cli/image: templates templates/job templates/yaml
cli/job: cli/client cli/data cli/grammar cli/image cli/terminal health/benchmark health/checks/host
cli/job: launcher/controller/store launcher/data launcher/image launcher/os launcher/staging
cli/job: launcher/wire
cli/job: runtime/estimate scheduler/apply scheduler/explain scheduler/model scheduler/node
cli/job: scheduler/state templates templates/cluster templates/job templates/yaml
cli/verbs: cli/checkpoint cli/client cli/data cli/grammar cli/health cli/health/cluster cli/image
cli/verbs: cli/job cli/terminal launcher/controller/store launcher/data launcher/os
cli/verbs: launcher/staging launcher/wire runtime/checkpoint runtime/checkpoint/file
cli/verbs: runtime/export scheduler/explain scheduler/model scheduler/restart scheduler/state
cli/verbs: templates templates/azure templates/cluster templates/job templates/resource
cli/verbs: templates/yaml
cli/verbs/resources: cli/client cli/data cli/grammar cli/image cli/job cli/terminal cli/verbs
cli/verbs/resources: launcher/controller/store launcher/data launcher/os launcher/staging
cli/verbs/resources: launcher/wire scheduler/model templates templates/resource templates/yaml
cli: cli/client cli/health/cluster cli/job cli/terminal cli/verbs health/benchmark health/read
cli: cli/data cli/image
cli: launcher/agent/node launcher/controller launcher/controller/store launcher/os launcher/relay
cli: scheduler/model
tools: cli/grammar cli/terminal scheduler/model
tools/sandbox: cli/client cli/terminal launcher/agent launcher/agent/node launcher/os
tools/sandbox: scheduler/model tools
tools/drill: cli/client cli/job cli/terminal cli/verbs launcher/agent/node launcher/controller/store
tools/drill: launcher/os launcher/wire runtime/protocol scheduler/explain scheduler/model templates
tools/drill: templates/yaml tools tools/sandbox
scheduler: scheduler/*
health: health/* scheduler/model
launcher: launcher/* scheduler/model
tests: tests/* tools/* cli/* launcher/* templates/* scheduler/* health/* runtime/*
TABLE
}

# Libraries that stay in one place: `header prefix: folders`.
libraries() {
  cat <<'TABLE'
boost/asio: launcher cli tests
libssh2: launcher/transport tests
sqlite3: launcher/agent/metric_sources launcher/controller tests
openssl: launcher/staging launcher/transport runtime/protocol
spdlog: launcher cli
yaml-cpp: templates
re2: scheduler/restart
CLI: cli runtime
mpi.h: runtime
dnnl: runtime tests
liburing: runtime/checkpoint
nlohmann: health launcher cli tools runtime tests
TABLE
}

# Calls with a better way: `name replacement`.
banned_calls() {
  cat <<'TABLE'
system posix_spawn or fork and exec with an argv vector
popen posix_spawn or fork and exec with an argv vector
strcpy std::string
strcat std::string
sprintf std::snprintf, or std::to_string
vsprintf std::vsnprintf
gets std::getline
strtok std::string_view::find
atoi std::from_chars
atol std::from_chars
atof std::from_chars or std::stod with a check
rand a seeded std::mt19937_64
srand a seeded std::mt19937_64
tmpnam mkstemp or mkdtemp
mktemp mkstemp or mkdtemp
localtime localtime_r
gmtime gmtime_r
ctime strftime
asctime strftime
alloca std::vector or std::array
vfork posix_spawn
TABLE
}

cpp_files() { find "${code_folders[@]}" tests -name '*.h' -o -name '*.cpp' 2>/dev/null; }
text_files() {
  find . \( -path ./.git -o -path ./build -o -path ./out \) -prune -o -type f -print |
    sed 's|^\./||' |
    grep -E '\.(h|cpp|c|py|sh|yml|cmake)$|(^|/)CMakeLists\.txt$|^(scripts|\.ci)/'
}
read_files() { xargs -r -d '\n' "$@"; }

# ---- the rules

rule_layering() {
  cpp_files | read_files grep -nE '^#include "[^"]+"' /dev/null |
    sed -E 's/^([^:]+):([0-9]+):#include "([^"]+)".*/\1 \2 \3/' |
    awk -v table="$(layers)" '
      function below(path, folder) { return index(path, folder "/") == 1 }
      BEGIN {
        count = split(table, lines, "\n")
        for (i = 1; i <= count; i++) {
          split(lines[i], halves, ": ")
          names[i] = halves[1]
          allowed[halves[1]] = allowed[halves[1]] " " halves[2]
        }
      }
      {
        home = ""
        for (i = 1; i <= count; i++) {
          if (below($1, names[i]) && length(names[i]) > length(home)) home = names[i]
        }
        if (home == "") next
        n = split(allowed[home], folders, " ")
        target = $3
        sub(/\/[^\/]*$/, "", target)
        fine = target == home || target == "scheduler/text"
        for (i = 1; i <= n; i++) {
          if (target == folders[i]) fine = 1
          if (sub(/\/\*$/, "", folders[i]) && below($3, folders[i])) fine = 1
        }
        if (!fine) print $1 ":" $2 ": " home " may not include " $3
      }'
}

rule_libraries() {
  local prefix folders
  while IFS=: read -r prefix folders; do
    cpp_files | grep -vE "^($(echo $folders | tr ' ' '|'))/" |
      read_files grep -nE "^#include <$prefix" /dev/null |
      sed -E "s|^([^:]+:[0-9]+):.*|\1: <$prefix…> belongs in:$folders|"
  done < <(libraries)
}

# They cost every source that includes the header seconds of compile time.
rule_heavy_headers() {
  cpp_files | grep '\.h$' | grep -vxF 'launcher/wire/json_fields.h' |
    read_files grep -nE \
      '^#include <(CLI/|spdlog/|yaml-cpp/|boost/asio\.hpp|nlohmann/json\.hpp)' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):#include (<.*>).*/\1: \2 in a header of ours: include it in sources/'
}

rule_header_form() {
  local file
  while read -r file; do
    [[ $(head -c 2 "$file") == // ]] || echo "$file:1: a header opens with what it is"
    grep -qx '#pragma once' "$file" || echo "$file:1: no #pragma once"
  done < <(cpp_files | grep '\.h$')
}

rule_line_length() {
  text_files | grep -v '/golden/' |
    LC_ALL=C.UTF-8 read_files grep -nE '^.{101,}$' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: longer than 100 characters/'
}

rule_file_length() {
  text_files | read_files awk '
    FNR == 601 { print FILENAME ":601: longer than 600 lines: split it" }'
}

rule_orphan_sources() {
  local file folder
  while read -r file; do
    folder=$(dirname "$file")
    while [ ! -f "$folder/CMakeLists.txt" ] && [ "$folder" != . ]; do
      folder=$(dirname "$folder")
    done
    grep -qE "(^|[[:space:](])${file#"$folder"/}([[:space:])]|\$)" "$folder/CMakeLists.txt" ||
      echo "$file:1: no CMakeLists.txt builds it"
  done < <(cpp_files | grep '\.cpp$')
}

rule_orphan_headers() {
  local included
  included=$(cpp_files | read_files grep -hE '^ *#include "' | sed -E 's/.*"(.*)".*/\1/' | sort -u)
  cpp_files | grep '\.h$' | sort | comm -23 - <(echo "$included") |
    sed 's/$/:1: nothing includes it/'
}

rule_unregistered_tests() {
  local file folder
  while read -r file; do
    folder=$(dirname "$file")
    grep -qw "$(basename "$file" .sh)" "$folder/CMakeLists.txt" ||
      echo "$file:1: $folder/CMakeLists.txt does not run it"
  done < <(find tests -name '*.sh' ! -name harness.sh)
  while read -r file; do
    folder=$(dirname "$(dirname "$file")")
    grep -qw "$(basename "$(dirname "$file")")" "$folder/CMakeLists.txt" ||
      echo "$file:1: $folder/CMakeLists.txt does not add this folder"
  done < <(find tests -mindepth 2 -name CMakeLists.txt)
}

# Two types of one name in the flat namespace are one type to the linker, which says nothing.
# Types of an anonymous namespace, which belong to their source, may share a name.
rule_type_names() {
  find "${code_folders[@]}" -name '*.h' -o -name '*.cpp' 2>/dev/null | sort | read_files awk '
    FNR == 1 { anonymous = 0 }
    /^namespace \{/ { anonymous = 1 }
    /^\}  \/\/ namespace$/ { anonymous = 0 }
    anonymous || !/^(struct|class|enum class|enum|union) [A-Za-z_]+/ || /;$/ { next }
    {
      name = $0
      sub(/^(enum class|struct|class|enum|union) /, "", name)
      sub(/ final/, "", name)
      if (name ~ /^[A-Za-z_0-9]+(<|::)/) next  # a specialisation, a type inside another
      sub(/[^A-Za-z_0-9].*/, "", name)
      if (name in seen) print FILENAME ":" FNR ": " name " is also a type of " seen[name]
      else seen[name] = FILENAME ":" FNR
    }'
}

rule_unfinished() {
  text_files | grep -v '^tests/lint/' | read_files grep -nE '\b(TODO|FIXME|XXX|HACK)\b' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: finish it or leave it out/'
}

# Tests may use a shell: some are about shells.
rule_banned_calls() {
  local name replacement spared
  while read -r name replacement; do
    spared='^$'
    [[ $name == system || $name == popen ]] && spared='^tests/'
    cpp_files | grep -v "$spared" |
      read_files grep -nP "^(?!\s*//).*(?<![\w.>\"~:-])(std::|::)?$name\s*\(" /dev/null |
      sed -E "s|^([^:]+:[0-9]+):.*|\1: $name: use $replacement|"
  done < <(banned_calls)
}

# Texts for users are in the field's words: see banned_phrases.
rule_phrases() {
  cpp_files | grep -v '^tests/' |
    read_files grep -nF -f <(grep -v '^#' tests/lint/banned_phrases) /dev/null |
    grep -vE '^[^:]+:[0-9]+: *//' |
    awk -v phrases="$(grep -v '^#' tests/lint/banned_phrases)" '
      BEGIN { count = split(phrases, phrase, "\n") }
      {
        place = $0
        sub(/: .*/, "", place)
        sub(/^[^:]*:[0-9]*:/, "")
        sub(/ \/\/ .*/, "")
        for (i = 1; i <= count; i++) {
          if (match($0, /".*"/) && index(substr($0, RSTART, RLENGTH), phrase[i])) {
            print place ": plainer words for \047" phrase[i] "\047"
          }
        }
      }'
}

rule_names() {
  find "${code_folders[@]}" tests scripts configs -print 2>/dev/null |
    grep -E '/(utils?|common|helpers?|misc|core|types|stuff)(\.[a-z]+)?$' |
    sed 's/$/:1: a name that says nothing: name the noun or the verb/'
}

rule_machine_paths() {
  # Tests of pure code name files that need not exist.
  text_files | grep -vE '^tests/' |
    read_files grep -nE \
      '(^|[^[:alnum:]_.<-])(/work/|/home/[a-z]+/[a-z]|/root/|/Users/|/tmp/build)' /dev/null |
    sed -E 's/^([^:]+:[0-9]+):.*/\1: a path of one machine/'
}

# A key that a job file may hold and that nothing acts on would be a promise not kept.
rule_unread_settings() {
  local name
  sed -n '/^struct MusterSettings {/,/^};/p' scheduler/model/job_spec.h 2>/dev/null | tr -d '\n' |
    sed -n 's/.*MUSTER_FIELDS(\([^)]*\)).*/\1/p' | tr -d ' ' | tr ',' '\n' | while read -r name; do
    grep -rqsE "(\.|->)$name\b" --include='*.cpp' --include='*.h' scheduler launcher health cli \
      templates/job ||
      echo "scheduler/model/job_spec.h:1: nothing reads the setting '$name'"
  done
}

# Weight, size of folders, knots between them: within limits that only shrink.
rule_house() {
  local told
  told=$(scripts/count-house . 2>&1) && return
  echo "tests/lint/house_limits:1: scripts/count-house says:"
  echo "$told"
}

rule_readme_length() {
  find "${code_folders[@]}" -name README.md 2>/dev/null |
    read_files awk 'FNR == 61 { print FILENAME ":61: a folder has a page of 60 lines" }'
  awk 'FNR == 201 { print "README.md:201: longer than 200 lines: it goes to docs/" }' README.md
}

rule_folder_readme() {
  local folder
  find "${code_folders[@]}" -maxdepth 1 -type d 2>/dev/null | while read -r folder; do
    find "$folder" -maxdepth 1 -name '*.h' -o -maxdepth 1 -name '*.cpp' | grep -q . || continue
    [ -f "$folder/README.md" ] || echo "$folder:1: no README.md: what is here, and for whom"
  done
}

# ---- running them

rules() { compgen -A function rule_ | sed 's/^rule_//'; }

rule=${1:-list}
[ "$rule" = list ] && { rules; exit 0; }
rules | grep -qx "$rule" || { echo "no rule '$rule'; see: rules.sh list"; exit 2; }
cd "${2:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 2
found=$("rule_$rule")
[ -z "$found" ] && exit 0
echo "$found"
exit 1
