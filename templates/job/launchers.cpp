// Launchers that a command runs itself: what they would do other than the job file says, and the
// batch sizes of a DeepSpeed configuration.
#include <algorithm>
#include <sstream>

#include "scheduler/text/spelling.h"
#include "templates/job/command_job.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

bool calls(std::string_view command, std::string_view program) {
  std::size_t at = 0;
  while ((at = command.find(program, at)) != std::string_view::npos) {
    const std::size_t end = at + program.size();
    const bool starts =
        at == 0 || std::string_view(" \t\n;&|(/").find(command[at - 1]) != std::string_view::npos;
    const bool ends = end == command.size() ||
                      std::string_view(" \t\n;").find(command[end]) != std::string_view::npos;
    if (starts && ends) return true;
    at = end;
  }
  return false;
}

bool calls_any(std::string_view command, std::initializer_list<std::string_view> programs) {
  return std::ranges::any_of(programs, [&](auto program) { return calls(command, program); });
}

// Of MPICH and Intel MPI: Open MPI has none of these options.
bool calls_hydra(std::string_view command) {
  const bool has_option = std::ranges::any_of(
      std::initializer_list<std::string_view>{" -hosts", " -ppn", " -genv", " -launcher", " -f "},
      [&](auto option) { return command.find(option) != command.npos; });
  return calls_any(command, {"mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"}) ||
         (has_option && calls_any(command, {"mpirun", "mpiexec"}));
}

void check_remote_start(const Value& command, std::string_view text, const JobSpec& spec) {
  const bool is_alone = spec.instance_count == 1 || text.find("--no_ssh ") != text.npos;
  const bool is_remote = calls_any(text, {"deepspeed", "horovodrun"}) ||
                         (calls_hydra(text) && spec.distribution.type != DistributionType::mpi);
  if (is_alone || !is_remote) return;
  if (!spec.muster.remote_start) {
    command.warning("the launcher starts processes on the other nodes by ssh; with "
                    "'muster: {remote_start: true}' muster starts them for it");
  } else if (text.find("RANK") == text.npos) {
    command.warning("every node runs the command, and only node 0 may start processes on others; "
                    "begin it with '[ $NODE_RANK = 0 ] || exit 0'");
  }
}

void check_accelerate(const Value& command, std::string_view text, const JobSpec& spec) {
  const auto& distribution = spec.distribution;
  const bool is_one = distribution.processes_per_node == 1 && !distribution.process_per_gpu;
  if (is_one || !calls(text, "accelerate") || text.find("accelerate launch") == text.npos) return;
  command.warning("'accelerate launch' starts processes of its own beside muster's, or ignores its "
                  "own numbers; run the script with python, muster sets what accelerate reads");
}

// The file behind --deepspeed_config, or behind --deepspeed, which may also stand alone.
std::string deepspeed_file(const std::string& text) {
  std::istringstream words(text);
  bool is_next = false;
  for (std::string word; words >> word;) {
    std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
    const std::string option = word.substr(0, word.find('='));
    const bool is_option = option == "--deepspeed_config" || option == "--deepspeed";
    if (is_option && option.size() < word.size()) return word.substr(option.size() + 1);
    if (is_next && word.ends_with(".json")) return word;
    is_next = is_option;
  }
  return {};
}

// The product of two such and of all processes that a job can have is a number still.
constexpr long long largest_size = 100'000;
constexpr long long largest_batch = 1'000'000'000'000;

// Absent where the file leaves it open, as "auto" does.
std::optional<long long> number_in(const YamlNode& file, const char* key, long long most) {
  const YamlNode* found = file.find(key);
  const auto number = found == nullptr ? std::nullopt : whole_number(found->text);
  return number && *number > 0 && *number <= most ? number : std::nullopt;
}

// All processes of the job; nothing when only the nodes know.
std::optional<long long> world_of(const JobSpec& spec) {
  const Distribution& distribution = spec.distribution;
  const bool is_counted = distribution.type == DistributionType::pytorch ||
                          distribution.type == DistributionType::mpi ||
                          distribution.processes_per_node > 1;
  const bool is_fixed = spec.muster.nodes_min == spec.muster.nodes_max;
  if (!is_counted || !is_fixed || distribution.process_per_gpu) return std::nullopt;
  return static_cast<long long>(spec.instance_count) * distribution.processes_per_node;
}

void check_batch(const Value& command, const YamlNode& file, const std::string& name,
                 long long world) {
  const auto batch = number_in(file, "train_batch_size", largest_batch);
  const auto micro = number_in(file, "train_micro_batch_size_per_gpu", largest_size);
  const auto steps = number_in(file, "gradient_accumulation_steps", largest_size);
  if (!batch) return;
  const long long part = micro.value_or(1) * steps.value_or(1) * world;
  if (micro && steps ? *batch == part : *batch % part == 0) return;
  const auto text = [](const char* key, const auto& number) {
    return std::string(key) + (number ? " " + std::to_string(*number) : "");
  };
  command.warning(quoted_text(name) + ": train_batch_size " + std::to_string(*batch) + " is not " +
                  text("train_micro_batch_size_per_gpu", micro) + " x " +
                  text("gradient_accumulation_steps", steps) + " x " + std::to_string(world) +
                  " processes");
}

void check_deepspeed(const Value& command, const Reading& reading, const JobSpec& spec) {
  const std::string name = deepspeed_file(spec.command);
  const auto world = world_of(spec);
  if (name.empty() || !world || !reading.options.files.read) return;
  const bool is_in_code = spec.code.starts_with('/');
  const std::string path =
      is_in_code ? absolute_path(name, spec.code) : Reading::local_path(command, name);
  auto content = reading.options.files.read(path, max_file_bytes);
  if (!content) return;  // it may be on the nodes alone
  std::ranges::replace(*content, '\t', ' ');  // JSON may be indented by tabs, YAML not
  FindingList quiet;
  const auto file = read_yaml(std::make_shared<Source>(Source{path, directory_of(path), *content}),
                              quiet);
  if (file) check_batch(command, *file, name, *world);
}

}  // namespace

void check_launchers(const Value& command, const Reading& reading, const JobSpec& spec) {
  if (!command.is_scalar()) return;
  const std::string& text = command.node().text;
  if (spec.distribution.type == DistributionType::mpi && calls(text, "mpirun")) {
    command.warning(
        "'mpirun' starts the processes a second time; distribution.type mpi already runs the "
        "command under one mpirun");
  }
  check_remote_start(command, text, spec);
  check_accelerate(command, text, spec);
  check_deepspeed(command, reading, spec);
}

}  // namespace muster
