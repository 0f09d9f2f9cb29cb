// Readers for the parts of a command job, shared with the trials of a sweep, the steps of a
// pipeline and components. Each takes a value, stores what it means and reports what is wrong.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>

#include "scheduler/model/job_spec.h"
#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {

// Of one job.
inline constexpr int most_nodes = 65536;

// What the readers of one job file share while it is read: where findings go, the caller's options,
// and the other files it names. Lives as long as one call of `read_job_file`; not for other code.
class Reading {
 public:
  Reading(FindingList& findings_in, const ReadOptions& options_in)
      : findings(findings_in), options(options_in) {}

  FindingList& findings;
  const ReadOptions& options;

  // The content of the file that `value` names in `text`, relative to the file `value` is in; its
  // own relative paths start from its own directory. Absent after a finding.
  std::optional<Value> load(const Value& value, const std::string& text);

  // A node made while reading that values may point into, such as a list split from a string.
  const YamlNode& keep(YamlNode node);

  // `text`, found in `value`, as an absolute path.
  static std::string local_path(const Value& value, const std::string& text);

 private:
  std::deque<YamlNode> kept_;
  int sources_ = 0;
  std::size_t bytes_ = 0;
};

// The whole file.
void read_command_job(const Value& root, Reading& reading, JobSpec& spec);

// Name, texts, tags, properties, schema, type, and the keys that only Azure writes.
void read_base_keys(MapReader& job, JobSpec& spec);
// A name or id that muster writes into paths and variables.
void check_name(const Value& value);

// `code`, `environment_variables`, `compute`, `resources`, `limits`, `queue_settings`, `identity`,
// `services`.
void read_code(const Value& value, Reading& reading, JobSpec& spec);
void read_environment_variables(const Value& value, JobSpec& spec);
void read_compute(const Value& value, JobSpec& spec);
void read_resources(const Value& value, JobSpec& spec);
void read_limits(const Value& value, JobSpec& spec);
void read_queue_settings(const Value& value, JobSpec& spec);
void read_identity(const Value& value, JobSpec& spec);
void read_services(const Value& value, JobSpec& spec);

// After `resources`: process counts may be given for all nodes together.
void read_distribution(const Value& value, JobSpec& spec);

// What the command's own launcher (mpirun, deepspeed, …) would do other than the job file says.
void check_launchers(const Value& command, const Reading& reading, const JobSpec& spec);

void read_environment(const Value& value, Reading& reading, EnvironmentSpec& spec);
// Keys of environments and data that say where Azure keeps them.
void ignore_asset_keys(MapReader& map);

enum class DataContext {
  command_job,
  pipeline_job,
  component,  // declarations: types and defaults
  step,       // values for a component's declarations
};
void read_inputs(const Value& value, DataContext context, Reading& reading, JobSpec& spec);
void read_outputs(const Value& value, JobSpec& spec);

// The `muster` map and the `muster.*` properties. After `resources` and `queue_settings`.
void read_settings(const Value& muster, const Value& properties, Reading& reading, JobSpec& spec);

// The text of a command, with `{inputs.x}` read as `${{inputs.x}}` and a warning.
std::optional<std::string> command_text(const Value& value);
// Expands `${{…}}` in the command; `search_space` names are legal where `trial_names` is given.
void read_command(const Value& value, const std::set<std::string>* trial_names, JobSpec& spec);

}  // namespace muster
