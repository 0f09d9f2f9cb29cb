#include "launcher/agent/keeper/rank_environment.h"

#include <filesystem>

#include "runtime/protocol/environment.h"
#include "runtime/protocol/keyed_hash.h"
#include "scheduler/restart/pattern.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr const char* inherited_names[] = {"PATH", "HOME",   "USER",   "LOGNAME",        "SHELL",
                                           "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH"};

// Seconds; of the rank that muster.debug names.
constexpr const char* env_debug_wait = "MUSTER_DEBUG_WAIT";

std::string file_name_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

constexpr const char* env_mlflow = "MLFLOW_TRACKING_URI";

// The first that the command names in letters which a shell takes as they are.
std::string python_of(const std::string& command) {
  static const auto names = Pattern::compile(R"((^|[\s;&(])(?P<it>([\w./-]*/)?python[0-9.]*)\s)");
  const auto found = names->named_in(command);
  return found.empty() ? "python3" : std::string(found.at("it"));
}

// Ranks that start together on a database that is not there fail while they make it: the first
// makes it, and the others wait. Where that fails, each rank but the first gets one of its own.
std::string with_mlflow_database(std::string command) {
  const std::string first = R"(_db=${MLFLOW_TRACKING_URI#sqlite:///}
(flock 9; [ -e "$_db" ] || [ -e "$_db.none" ] || {
 timeout 300 PYTHON -m mlflow db upgrade "sqlite:///$_db.new" >/dev/null 2>&1 </dev/null &&
 mv "$_db.new" "$_db"; } || { : >"$_db.none"
 echo 'muster: metrics.mlflow: `PYTHON -m mlflow db upgrade` failed' >&2
}) 9<"${_db%/*}"
[ ! -e "$_db.none" ] || [ "${LOCAL_RANK:-0}" = 0 ] || MLFLOW_TRACKING_URI=sqlite:///$_db.$LOCAL_RANK
)";
  return replaced(first, "PYTHON", python_of(command)) + command;
}

// A name that the shell would obey is named by its variable, whatever quotes are around it.
std::string in_command(const std::string& path) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-=+,:@%";
  const bool is_plain = path.find_first_not_of(plain) == path.npos;
  return is_plain ? path : std::string("${") + env_resume_from + "}";
}

std::string input_path(const std::string& name, const InputSpec& input, const AttemptLayout& layout,
                       bool (*is_staged)(const std::string&)) {
  if (input.is_literal) return input.literal;
  if (input.mode == InputMode::direct) return input.path;
  const std::string staged = layout.inputs + "/" + name;
  const std::string file =
      staged + "/" + (input.data_file.empty() ? file_name_of(input.path) : input.data_file);
  if (input.type == DataType::uri_file && is_staged(file)) return file;
  // `find` and `tar` do not follow a link.
  std::error_code failure;
  const auto tree = std::filesystem::read_symlink(staged, failure);
  if (!failure && tree.is_absolute()) return tree.string();
  return is_staged(staged) ? staged : input.path;
}

std::string output_path(const std::string& name, const OutputSpec& output, const StartRanks& start,
                        const AttemptLayout& layout) {
  if (output.is_written_at_path()) return output.path;
  const bool shared = !start.shared_outputs.empty() && output.mode != OutputMode::upload;
  return (shared ? start.shared_outputs : layout.outputs) + "/" + name;
}

// By these the agent knows its processes, and they know until when they may run.
void add_marks(const RankSetting& setting, Environment& environment) {
  environment[token_name] = setting.token;
  environment[socket_name] = setting.socket_path;
  environment[env_lease] = setting.lease_path;
}

// Behind what the job names itself. A job that sets MUSTER_PYTHON to nothing wants no module.
void add_module(const AttemptLayout& layout, Environment& environment) {
  const std::string& folder =
      environment.emplace(env_python, python_directory(layout)).first->second;
  if (folder.empty()) return;
  std::string& path = environment["PYTHONPATH"];
  path += (path.empty() ? "" : ":") + folder;
}

// First of all: the module runs the program's own sitecustomize when it has waited.
void add_debug_wait(const AttemptLayout& layout, Environment& environment) {
  if (!environment.contains(env_debug_wait)) return;
  std::string& path = environment["PYTHONPATH"];
  path = debug_directory(layout) + (path.empty() ? "" : ":" + path);
}

// What the launcher itself reads and writes: no setting of the job's replaces it.
void add_membership(const RankSetting& setting, const RankLaunch& rank, Environment& environment) {
  if (!setting.start.elastic) return;
  environment[env_members] = members_path(setting.layout);
  const auto local = static_cast<std::size_t>(rank.local_rank);
  if (local >= setting.ports.size()) return;
  environment[env_member_port] = std::to_string(setting.ports[local]);
}

}  // namespace

Environment base_environment(const Environment& own) {
  Environment base;
  for (const char* name : inherited_names) {
    if (const auto found = own.find(name); found != own.end()) base.insert(*found);
  }
  base.emplace("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  return base;
}

DataPaths data_paths(const StartRanks& start, const AttemptLayout& layout,
                     bool (*is_staged)(const std::string& path)) {
  DataPaths paths;
  for (const auto& [name, input] : start.inputs) {
    paths.inputs[name] = input_path(name, input, layout, is_staged);
  }
  for (const auto& [name, output] : start.outputs) {
    paths.outputs[name] = output_path(name, output, start, layout);
  }
  return paths;
}

std::string checkpoint_directory(const StartRanks& start, const AttemptLayout& layout) {
  return start.checkpoint_path.empty() ? layout.checkpoints : start.checkpoint_path;
}

std::string heartbeat_path(const AttemptLayout& layout, RankId rank) {
  return layout.spool + "/vitals/heartbeat-" + std::to_string(rank.value);
}

std::string metrics_path(const AttemptLayout& layout, RankId rank) {
  return layout.spool + "/vitals/metrics-" + std::to_string(rank.value) + ".jsonl";
}

std::string error_path(const AttemptLayout& layout, RankId rank) {
  return layout.spool + "/vitals/error-" + std::to_string(rank.value) + ".json";
}

std::string python_directory(const AttemptLayout& layout) {
  return layout.spool + "/python";
}

std::string debug_directory(const AttemptLayout& layout) {
  return layout.spool + "/debug";
}

std::string members_path(const AttemptLayout& layout) {
  return layout.spool + "/members";
}

std::string door_directory(const AttemptLayout& layout) {
  return layout.spool + "/bin";
}

std::string discovery_path(const AttemptLayout& layout) {
  return door_directory(layout) + "/hosts-with-slots";
}

std::string hostfile_path(const AttemptLayout& layout) {
  return layout.spool + "/hostfile";
}

Environment attempt_environment(const RankSetting& setting, const Environment& base) {
  const StartRanks& start = setting.start;
  Environment environment = base;
  for (const auto& [name, value] : start.environment) environment[name] = value;
  environment.emplace(env_job, start.job.value);
  environment.emplace(env_attempt, std::to_string(start.attempt.value));
  environment.emplace(env_epoch, std::to_string(epoch_of(start.attempt).value));
  environment.emplace(env_checkpoint_dir, checkpoint_directory(start, setting.layout));
  environment.emplace(env_resume_from, start.resume_from ? start.resume_from->directory : "");
  if (start.metrics_mlflow) {  // among the outputs, which come together from all nodes
    const int node = start.node_index;
    const std::string name = node == 0 ? "mlflow.db" : "mlflow-node" + std::to_string(node) + ".db";
    environment.emplace(env_mlflow, "sqlite:///" + setting.layout.outputs + "/" + name);
  }
  for (const auto& [name, path] : setting.paths.inputs) {
    environment.emplace("AZUREML_PARAMETER_" + name, path);
  }
  for (const auto& [name, path] : setting.paths.outputs) {
    environment.emplace("AZUREML_PARAMETER_" + name, path);
  }
  add_module(setting.layout, environment);
  if (start.door) {
    environment["PATH"] = door_directory(setting.layout) + ":" + environment["PATH"];
    environment.emplace("MUSTER_HOSTFILE", hostfile_path(setting.layout));
    environment.emplace("MUSTER_DISCOVERY", discovery_path(setting.layout));
  }
  if (!start.services.empty()) environment["MUSTER_SERVICES"] = services_directory(setting.layout);
  add_marks(setting, environment);
  return environment;
}

Environment rank_environment(const RankSetting& setting, const RankLaunch& rank,
                             const Environment& base) {
  Environment environment = attempt_environment(setting, base);
  for (const auto& [name, value] : rank.environment) environment[name] = value;
  environment.emplace(env_heartbeat, heartbeat_path(setting.layout, rank.rank));
  environment.emplace(env_metrics, metrics_path(setting.layout, rank.rank));
  if (environment.contains("TORCHELASTIC_RUN_ID")) {
    environment.emplace("TORCHELASTIC_ERROR_FILE", error_path(setting.layout, rank.rank));
  }
  add_debug_wait(setting.layout, environment);
  add_membership(setting, rank, environment);
  add_marks(setting, environment);
  return environment;
}

std::string rank_command(const StartRanks& start, const DataPaths& paths) {
  std::string command = start.command;
  for (const auto& [name, path] : paths.inputs) {
    command = replaced(std::move(command), "\x01inputs." + name + "\x02", path);
  }
  for (const auto& [name, path] : paths.outputs) {
    command = replaced(std::move(command), "\x01outputs." + name + "\x02", path);
  }
  if (start.resume_from && !start.resume_argument.empty()) {
    const std::string argument =
        replaced(start.resume_argument, "{checkpoint}", in_command(start.resume_from->directory));
    const std::int64_t step = start.resume_from->known_step().value_or(0);
    command += " " + replaced(argument, "{step}", std::to_string(step));
  }
  const bool makes_database = start.metrics_mlflow && !start.environment.contains(env_mlflow);
  return makes_database ? with_mlflow_database(command) : command;
}

std::vector<std::string> in_ray(std::vector<std::string> argv, const RankSetting& setting) {
  if (!setting.start.environment.contains(env_ray_nodes)) return argv;
  // The shell says it where there is no Python; `-I`: no module of the job's is taken for its own.
  argv.insert(argv.begin(), {argv.front(), "-c", "exec python3 -I \"$0\" \"$@\"",
                             python_directory(setting.layout) + "/muster_ray.py",
                             std::to_string(setting.start.node_index), setting.layout.ray_scratch});
  return argv;
}

std::string token_of(const RunDirectory& run, const AttemptKey& key) {
  return run.controller + "." + run.node.value + "." + key.job.value + "." +
         std::to_string(key.attempt.value);
}

bool is_token_of_run(const RunDirectory& run, const std::string& token) {
  const std::size_t attempt_dot = token.rfind('.');
  if (attempt_dot == std::string::npos || attempt_dot == 0) return false;
  const std::size_t job_dot = token.rfind('.', attempt_dot - 1);
  return job_dot != std::string::npos &&
         token.compare(0, job_dot, run.controller + "." + run.node.value) == 0;
}

AttemptLayout layout_of(const RunDirectory& run, const AttemptKey& key) {
  const std::string number = std::to_string(key.attempt.value);
  // Short, as sockets live below; not to be guessed, as others may make names in /tmp first.
  const std::string unique =
      hex_text(keyed_hash(run.secret, run.path + "\n" + token_of(run, key))).substr(0, 16);
  AttemptLayout layout;
  layout.job = run.home + "/jobs/" + run.controller + "/" + run.node.value + "/" + key.job.value;
  layout.code = layout.job + "/code-" + number;
  layout.inputs = layout.job + "/inputs";
  layout.outputs = layout.job + "/outputs";
  layout.logs = layout.job + "/logs";
  layout.checkpoints = layout.job + "/ckpt";
  layout.spool = spools_root(run) + "/" + key.job.value + "/" + number;
  layout.mpi_scratch = "/tmp/muster-mpi." + unique;
  layout.mpi_shared_memory = "/dev/shm/muster-mpi." + unique;
  layout.ray_scratch = "/tmp/muster-ray." + unique;
  return layout;
}

}  // namespace muster
