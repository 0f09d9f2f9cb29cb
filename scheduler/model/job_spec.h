// What a job file means: the command job of the Azure ML dialect as muster understands it, every
// default filled in, every expression expanded, every relative path made absolute. Plain values;
// made by templates/, journaled, sent to the controller. Never changes after submission.
//
// Each struct lists its fields once in `fields`, which every codec walks; optional means "not
// given".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/text/clock.h"

namespace muster {

enum class DistributionType { none, pytorch, mpi, tensorflow, ray };

struct Distribution {
  DistributionType type = DistributionType::none;
  int processes_per_node = 1;      // ranks on each node (pytorch, mpi)
  int worker_count = 0;            // tensorflow
  int parameter_server_count = 0;  // tensorflow
  bool process_per_gpu = false;    // `muster.processes_per_node: gpus`: counted on the node

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("type", self.type);
    visit("processes_per_node", self.processes_per_node);
    visit("worker_count", self.worker_count);
    visit("parameter_server_count", self.parameter_server_count);
    visit("process_per_gpu", self.process_per_gpu);
  }
};

// The `environment` key. `none` runs in the host's own environment.
struct EnvironmentSpec {
  std::string reference;   // `azureml:name:version` form, empty when inline
  std::string image;       // container image
  std::string conda_file;  // absolute path, or the inline map as YAML text
  std::string build_path;
  std::string dockerfile_path;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("reference", self.reference);
    visit("image", self.image);
    visit("conda_file", self.conda_file);
    visit("build_path", self.build_path);
    visit("dockerfile_path", self.dockerfile_path);
  }
};

enum class DataType { uri_folder, uri_file, mltable, mlflow_model, custom_model, triton_model };
enum class InputMode { ro_mount, download, direct, eval_mount, eval_download };
enum class OutputMode { rw_mount, upload, direct };

// Where data lives. Only `local` can be staged by this machine alone; the rest need a datastore.
enum class PathKind { none, local, http, datastore, asset, job_output, registry };

struct InputSpec {
  bool is_literal = false;
  std::string literal;  // text as written (booleans `True`/`False`)
  DataType type = DataType::uri_folder;
  InputMode mode = InputMode::ro_mount;
  PathKind path_kind = PathKind::none;
  std::string path;  // absolute for `local`

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("is_literal", self.is_literal);
    visit("literal", self.literal);
    visit("type", self.type);
    visit("mode", self.mode);
    visit("path_kind", self.path_kind);
    visit("path", self.path);
  }
};

struct OutputSpec {
  DataType type = DataType::uri_folder;
  OutputMode mode = OutputMode::rw_mount;
  PathKind path_kind = PathKind::none;  // none: the job's own directory
  std::string path;
  std::string asset_name;
  std::string asset_version;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("type", self.type);
    visit("mode", self.mode);
    visit("path_kind", self.path_kind);
    visit("path", self.path);
    visit("asset_name", self.asset_name);
    visit("asset_version", self.asset_version);
  }
};

enum class DelayFunction { constant, exponential, fibonacci };

// `restart` (same nodes, sliding interval) and its backoff.
struct RestartSettings {
  int attempts = 3;
  Seconds interval{3600};
  Milliseconds delay{5000};
  DelayFunction delay_function = DelayFunction::exponential;
  Milliseconds max_delay{120000};

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("attempts", self.attempts);
    visit("interval", self.interval);
    visit("delay", self.delay);
    visit("delay_function", self.delay_function);
    visit("max_delay", self.max_delay);
  }
};

// `reschedule`: restarts with replacement nodes.
struct RescheduleSettings {
  int attempts = 10;
  Seconds interval{86400};
  bool unlimited = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("attempts", self.attempts);
    visit("interval", self.interval);
    visit("unlimited", self.unlimited);
  }
};

enum class FailureClass { user, infra, hw, hang, sdc, preempted, divergence };
enum class Reaction { retry, backoff, stop, exclude_node };

struct NumberRange {
  int low = 0;
  int high = 0;  // included
  bool holds(int number) const { return low <= number && number <= high; }

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("low", self.low);
    visit("high", self.high);
  }
};

// One entry of `muster.rules`, of a site's `policy.rules` or of the built-in table: the first whose
// every given condition holds for a rank's exit decides. Without a condition it never holds.
struct RestartRule {
  std::string id;                       // unique in its list: "cuda-oom", "rule-2"
  std::vector<NumberRange> exit_codes;  // one of them; empty: not asked
  std::vector<int> signals;
  std::string stderr_regex;             // found in one of the last lines
  std::vector<NumberRange> xids;        // an Xid of the GPU driver that the last lines name
  std::optional<FailureClass> failure_class;
  std::optional<Reaction> action;
  std::optional<Milliseconds> delay;    // instead of `restart.delay`
  std::string advice;                   // one sentence for the user
  bool enforce = true;                  // false: `mode: log`
  bool cascade = false;                 // what the rank says is an echo of another's failure

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("id", self.id);
    visit("exit_codes", self.exit_codes);
    visit("signals", self.signals);
    visit("stderr_regex", self.stderr_regex);
    visit("xids", self.xids);
    visit("failure_class", self.failure_class);
    visit("action", self.action);
    visit("delay", self.delay);
    visit("advice", self.advice);
    visit("enforce", self.enforce);
    visit("cascade", self.cascade);
  }
};

struct StopSettings {
  std::string signal = "SIGTERM";
  Milliseconds grace{30000};
  Milliseconds grace_max{300000};

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("signal", self.signal);
    visit("grace", self.grace);
    visit("grace_max", self.grace_max);
  }
};

enum class HangWatch { heartbeat, output };

// When a run that no longer moves counts as hung.
struct HangSettings {
  bool off = false;
  std::optional<Milliseconds> timeout;  // absent: learned from the run's own steps
  Milliseconds first_step{20 * 60'000};
  HangWatch watch = HangWatch::heartbeat;  // `output`: any new byte of a rank is progress

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("off", self.off);
    visit("timeout", self.timeout);
    visit("first_step", self.first_step);
    visit("watch", self.watch);
  }
};

enum class ResumeFrom { latest, certified, none, path };
enum class MpiLauncher { mpirun, direct };
enum class HealthLevel { off, quick, full };

// The `muster:` section. Settings that no code reads yet stay in `other` as dotted path -> text.
struct MusterSettings {
  int priority = 0;
  bool preemptible = false;
  int nodes_min = 1;
  int nodes_max = 1;
  Milliseconds nodes_wait{600000};
  int nodes_spares = 0;
  std::optional<int> nodes_gpus;             // absent: all
  std::vector<std::string> include_nodes;    // `placement.include`, already expanded
  std::vector<std::string> exclude_nodes;    // `placement.exclude`, already expanded
  std::vector<std::string> labels;
  HealthLevel health_start = HealthLevel::quick;
  std::vector<std::string> health_skip;
  std::vector<std::string> health_only;
  std::string checkpoint_path;               // empty: `<run>/ckpt`
  ResumeFrom resume_from = ResumeFrom::latest;
  std::string resume_path;                   // for ResumeFrom::path
  std::string resume_argument;
  RestartSettings restart;
  RescheduleSettings reschedule;
  int no_progress_cycles = 3;
  std::map<std::string, Reaction> class_actions;  // class name -> reaction
  std::vector<RestartRule> rules;
  std::vector<RestartRule> site_rules;       // `policy.rules` of the cluster files, when submitted
  StopSettings stop;
  HangSettings hang;
  std::optional<int> master_port;            // absent: auto
  MpiLauncher mpi_launcher = MpiLauncher::mpirun;
  std::vector<std::string> env_export;       // `torch`, `ompi`, `slurm` families asked for
  std::map<std::string, std::string> other;  // parsed and checked, not yet acted on

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("priority", self.priority);
    visit("preemptible", self.preemptible);
    visit("nodes_min", self.nodes_min);
    visit("nodes_max", self.nodes_max);
    visit("nodes_wait", self.nodes_wait);
    visit("nodes_spares", self.nodes_spares);
    visit("nodes_gpus", self.nodes_gpus);
    visit("include_nodes", self.include_nodes);
    visit("exclude_nodes", self.exclude_nodes);
    visit("labels", self.labels);
    visit("health_start", self.health_start);
    visit("health_skip", self.health_skip);
    visit("health_only", self.health_only);
    visit("checkpoint_path", self.checkpoint_path);
    visit("resume_from", self.resume_from);
    visit("resume_path", self.resume_path);
    visit("resume_argument", self.resume_argument);
    visit("restart", self.restart);
    visit("reschedule", self.reschedule);
    visit("no_progress_cycles", self.no_progress_cycles);
    visit("class_actions", self.class_actions);
    visit("rules", self.rules);
    visit("site_rules", self.site_rules);
    visit("stop", self.stop);
    visit("hang", self.hang);
    visit("master_port", self.master_port);
    visit("mpi_launcher", self.mpi_launcher);
    visit("env_export", self.env_export);
    visit("other", self.other);
  }
};

struct ServiceSpec {
  std::string type;
  std::optional<int> port;
  std::string nodes;
  std::string log_dir;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("type", self.type);
    visit("port", self.port);
    visit("nodes", self.nodes);
    visit("log_dir", self.log_dir);
  }
};

struct JobSpec {
  std::string name;  // empty until the submitter fills one in
  std::string display_name;
  std::string description;
  std::string experiment_name;
  std::map<std::string, std::string> tags;
  std::map<std::string, std::string> properties;
  // Expanded except for `${{inputs.x}}`/`${{outputs.x}}` of paths, which become the placeholders
  // `\x01inputs.x\x02` / `\x01outputs.x\x02` and are filled in per attempt with the path on the
  // node.
  std::string command;
  std::string code;  // absolute directory or an `azureml:` asset, empty: none
  std::string git_url;  // `git+…` form of `code`
  EnvironmentSpec environment;
  std::map<std::string, std::string> environment_variables;
  Distribution distribution;
  std::string compute;  // target name, empty: the default target
  int instance_count = 1;
  std::vector<std::string> instance_types;
  std::string shm_size;
  std::string docker_args;
  std::optional<Seconds> timeout;
  std::map<std::string, InputSpec> inputs;
  std::map<std::string, OutputSpec> outputs;
  std::map<std::string, ServiceSpec> services;
  MusterSettings muster;
  // Kept for `show`, without effect: `parent_job_name`, `queue_settings.job_tier`, `identity.type`
  // ...
  std::map<std::string, std::string> recorded;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("name", self.name);
    visit("display_name", self.display_name);
    visit("description", self.description);
    visit("experiment_name", self.experiment_name);
    visit("tags", self.tags);
    visit("properties", self.properties);
    visit("command", self.command);
    visit("code", self.code);
    visit("git_url", self.git_url);
    visit("environment", self.environment);
    visit("environment_variables", self.environment_variables);
    visit("distribution", self.distribution);
    visit("compute", self.compute);
    visit("instance_count", self.instance_count);
    visit("instance_types", self.instance_types);
    visit("shm_size", self.shm_size);
    visit("docker_args", self.docker_args);
    visit("timeout", self.timeout);
    visit("inputs", self.inputs);
    visit("outputs", self.outputs);
    visit("services", self.services);
    visit("muster", self.muster);
    visit("recorded", self.recorded);
  }
};

}  // namespace muster
