// `command`: expands the expressions; what the shell expands is left to the shell on the rank. And
// launchers that a command runs itself: what they would do other than the job file says, and the
// batch sizes of a DeepSpeed configuration.
#include <algorithm>
#include <sstream>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/job/expression.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

// Where the expression stands inside a command of several lines, as far as the file says it
// plainly.
Place place_inside(const Value& value, const std::string& raw) {
  const Place& place = value.node().place;
  if (!place.source || place.line == 0) return place;
  const std::string& text = place.source->text;
  const char* line = line_of(text, place.line).data();
  const std::size_t at = line == nullptr ? text.npos : text.find(raw, line - text.data());
  return at == text.npos ? place : place_of(place.source, at);
}

constexpr std::size_t most_listed = 8;  // in one line

class CommandExpander {
 public:
  CommandExpander(const Value& value, const std::set<std::string>* trial_names, const JobSpec& spec)
      : value_(value), trial_names_(trial_names), spec_(spec) {}

  std::optional<std::string> value_of(const std::string& name) const {
    if (name.starts_with("inputs.")) return input(name.substr(7));
    if (name.starts_with("outputs.")) return output(name.substr(8));
    if (trial_names_ && name.starts_with("search_space.")) return trial(name);
    return report(Severity::error, name, "unknown expression");
  }

 private:
  std::optional<std::string> input(const std::string& name) const {
    const auto found = spec_.inputs.find(name);
    if (found == spec_.inputs.end()) {
      return report(Severity::error, "inputs." + name, "there is no such input");
    }
    const InputSpec& input = found->second;
    if (input.is_literal) return input.literal;
    if (input.path_kind == PathKind::none) {
      return report(Severity::unresolved, "inputs." + name, "the input has no value");
    }
    const bool is_uri = input.mode == InputMode::direct && input.path_kind != PathKind::local;
    return is_uri ? input.path : "\x01inputs." + name + '\x02';
  }

  std::optional<std::string> output(const std::string& name) const {
    const auto found = spec_.outputs.find(name);
    if (found == spec_.outputs.end()) {
      return report(Severity::error, "outputs." + name, "there is no such output");
    }
    const OutputSpec& output = found->second;
    const bool is_uri = output.mode == OutputMode::direct && output.path_kind != PathKind::none &&
                        output.path_kind != PathKind::local;
    return is_uri ? output.path : "\x01outputs." + name + '\x02';
  }

  std::optional<std::string> trial(const std::string& name) const {
    if (trial_names_->contains(name.substr(13))) return std::nullopt;
    return report(Severity::error, name, "there is no such parameter in 'search_space'");
  }

  // "there are: a, b": of the group that the name is in, where they are few.
  std::string known_of(const std::string& name) const {
    std::vector<std::string> names;
    if (name.starts_with("inputs.")) {
      for (const auto& [key, input] : spec_.inputs) names.push_back(key);
    } else if (name.starts_with("outputs.")) {
      for (const auto& [key, output] : spec_.outputs) names.push_back(key);
    }
    return names.empty() || names.size() > most_listed ? "" : "there are: " + joined(names);
  }

  std::string suggestion(const std::string& name) const {
    std::vector<std::string> known;
    for (const auto& [key, input] : spec_.inputs) known.push_back("inputs." + key);
    for (const auto& [key, output] : spec_.outputs) known.push_back("outputs." + key);
    if (trial_names_) {
      for (const std::string& key : *trial_names_) known.push_back("search_space." + key);
    }
    const std::string found = nearest(name, known);
    return found.empty() ? known_of(name) : "did you mean '${{" + found + "}}'?";
  }

  std::nullopt_t report(Severity severity, const std::string& name,
                        const std::string& message) const {
    if (value_.findings().full()) {
      value_.report(severity, message);
      return std::nullopt;
    }
    const bool wrong_name = severity == Severity::error;
    value_.findings().add(severity, place_inside(value_, name), value_.path(),
                          value_.path() + ": " + quoted_text("${{" + name + "}}") + ": " + message,
                          wrong_name ? suggestion(name) : "");
    return std::nullopt;
  }

  const Value& value_;
  const std::set<std::string>* trial_names_;
  const JobSpec& spec_;
};

// ---- launchers

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
    command.warning(
        "the launcher starts processes on the other nodes by ssh; with "
        "'muster: {remote_start: true}' muster starts them for it");
  } else if (text.find("RANK") == text.npos) {
    command.warning(
        "every node runs the command, and only node 0 may start processes on others; "
        "begin it with '[ $NODE_RANK = 0 ] || exit 0'");
  }
}

void check_accelerate(const Value& command, std::string_view text, const JobSpec& spec) {
  const auto& distribution = spec.distribution;
  const bool is_one = distribution.processes_per_node == 1 && !distribution.process_per_gpu;
  if (is_one || !calls(text, "accelerate") || text.find("accelerate launch") == text.npos) return;
  command.warning(
      "'accelerate launch' starts processes of its own beside muster's, or ignores its "
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
  if (!content) return;                       // it may be on the nodes alone
  std::ranges::replace(*content, '\t', ' ');  // JSON may be indented by tabs, YAML not
  FindingList quiet;
  const auto file =
      read_yaml(std::make_shared<Source>(Source{path, directory_of(path), *content}), quiet);
  if (file) check_batch(command, *file, name, *world);
}

}  // namespace

std::optional<std::string> command_text(const Value& value) {
  const auto text = value.text();
  if (!text) return std::nullopt;
  std::vector<std::string> names;
  std::string whole = with_whole_braces(*text, names);
  if (!names.empty()) {
    value.warning(quoted_text('{' + names.front() + '}') + " is read as " +
                  quoted_text("${{" + names.front() + "}}") + ", as Azure ML does; write that");
  }
  return whole;
}

void read_command(const Value& value, const std::set<std::string>* trial_names, JobSpec& spec) {
  const auto text = command_text(value);
  if (!text) return;
  if (text->find_first_not_of(" \t\n") == std::string::npos) value.error("the command is empty");
  if (find_expressions(*text).unclosed) value.error("'${{' without '}}'");
  if (!optional_groups(*text).empty()) {
    value.warning("'$[[ ]]' belongs to components; here the shell gets it as it is");
  }
  const CommandExpander expander(value, trial_names, spec);
  spec.command = expand(*text, [&](const std::string& name) { return expander.value_of(name); });
  if (spec.command.size() > max_expanded_text) {
    value.error("longer than 128 KiB, the most that one argument can be; put it in a script");
    spec.command.clear();
  }
}

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
