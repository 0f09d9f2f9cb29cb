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
#include "scheduler/text/fields.h"

namespace muster {

enum class DistributionType { none, pytorch, mpi, tensorflow, ray };

struct Distribution {
  DistributionType type = DistributionType::none;
  int processes_per_node = 1;      // ranks on each node (pytorch, mpi)
  int worker_count = 0;            // tensorflow
  int parameter_server_count = 0;  // tensorflow
  bool process_per_gpu = false;    // `muster.processes_per_node: gpus`: counted on the node

  MUSTER_FIELDS(type, processes_per_node, worker_count, parameter_server_count, process_per_gpu)
};

// The `environment` key. `none` runs in the host's own environment.
struct EnvironmentSpec {
  std::string reference;   // `azureml:name:version` form, empty when inline
  std::string image;       // container image
  std::string conda_file;  // absolute path, or the inline map as YAML text
  std::string build_path;
  std::string dockerfile_path;
  // Of `image`, or of what was built, as the submitter found it; what nodes run.
  std::string digest{};          // sha256:<hex>; empty: the registry was not asked, or did not say
  std::int64_t image_bytes = 0;  // as they travel; 0: not known
  std::string pull_name{};       // `image` in full, after the mirrors
  std::string runtime{};         // that the cluster file wants on the nodes; empty: any

  MUSTER_FIELDS(reference, image, conda_file, build_path, dockerfile_path, digest, image_bytes,
                pull_name, runtime)
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
  // Of data in a store, as it was listed at submission: SHA-256 of the list of its files (a
  // manifest), empty where nothing was listed.
  std::string data_version{};
  std::int64_t data_bytes = 0;
  std::int64_t data_files = 0;
  bool in_place = false;    // a local path that every node has: never copied
  std::string data_file{};  // of listed data that are one file: its name

  MUSTER_FIELDS(is_literal, literal, type, mode, path_kind, path, data_version, data_bytes,
                data_files, in_place, data_file)
};

struct OutputSpec {
  DataType type = DataType::uri_folder;
  OutputMode mode = OutputMode::rw_mount;
  PathKind path_kind = PathKind::none;  // none: the job's own directory
  std::string path;
  std::string asset_name;
  std::string asset_version;
  bool is_in_store = false;  // collected first, then copied there

  // By the ranks themselves; else below the outputs of the job, from which it is collected.
  bool is_written_at_path() const {
    const bool is_here = path_kind == PathKind::local && mode == OutputMode::rw_mount;
    return !path.empty() && (is_here || mode == OutputMode::direct);
  }

  MUSTER_FIELDS(type, mode, path_kind, path, asset_name, asset_version, is_in_store)
};

enum class DelayFunction { constant, exponential, fibonacci };

// `restart` (same nodes, sliding interval) and its backoff.
struct RestartSettings {
  int attempts = 3;
  Seconds interval{3600};
  Milliseconds delay{5000};
  DelayFunction delay_function = DelayFunction::exponential;
  Milliseconds max_delay{120000};

  MUSTER_FIELDS(attempts, interval, delay, delay_function, max_delay)
};

// `reschedule`: restarts with replacement nodes.
struct RescheduleSettings {
  int attempts = 10;
  Seconds interval{86400};
  bool unlimited = false;

  MUSTER_FIELDS(attempts, interval, unlimited)
};

enum class FailureClass { user, infra, hw, hang, sdc, preempted, divergence };
enum class Reaction { retry, backoff, stop, exclude_node };

struct NumberRange {
  int low = 0;
  int high = 0;  // included
  bool holds(int number) const { return low <= number && number <= high; }

  MUSTER_FIELDS(low, high)
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
  bool doubts_state = false;            // values may have gone wrong; built-in rules alone say so

  MUSTER_FIELDS(id, exit_codes, signals, stderr_regex, xids, failure_class, action, delay, advice,
                enforce, cascade)
};

struct StopSettings {
  std::string signal = "SIGTERM";
  Milliseconds grace{30000};
  Milliseconds grace_max{300000};

  MUSTER_FIELDS(signal, grace, grace_max)
};

enum class HangWatch { heartbeat, output };

// When a run that no longer moves counts as hung.
struct HangSettings {
  bool off = false;
  std::optional<Milliseconds> timeout;  // absent: learned from the run's own steps
  Milliseconds first_step{20 * 60'000};
  HangWatch watch = HangWatch::heartbeat;  // `output`: any new byte of a rank is progress

  MUSTER_FIELDS(off, timeout, first_step, watch)
};

// How a job goes on with other nodes: `live`, the program follows MUSTER_MEMBERS; `restart`, the
// next attempt has them.
enum class ElasticMode { live, restart };
struct ElasticSettings {
  ElasticMode mode = ElasticMode::live;
  Milliseconds wait{30000};         // for a spare, before it goes on with fewer nodes
  Milliseconds grow_after{900000};  // at most, from its start

  MUSTER_FIELDS(mode, wait, grow_after)
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
  std::string checkpoint_format = "auto";    // names.h: checkpoint_formats
  std::string checkpoint_marker;             // a pattern of file names
  std::string checkpoint_every;              // "50steps", "10m"; empty: the program's own default
  bool checkpoint_quarantine = true;
  bool remote_start = false;                 // node 0 may start commands on the other nodes
  std::vector<std::string> mpi_arguments;    // of mpirun, before the program
  ElasticSettings elastic;
  bool metrics_mlflow = false;
  std::vector<std::string> metrics_regex;    // patterns with named groups, and presets

  MUSTER_FIELDS(priority, preemptible, nodes_min, nodes_max, nodes_wait, nodes_spares, nodes_gpus,
                include_nodes, exclude_nodes, labels, health_start, health_skip, health_only,
                checkpoint_path, resume_from, resume_path, resume_argument, restart, reschedule,
                no_progress_cycles, class_actions, rules, site_rules, stop, hang, master_port,
                mpi_launcher, env_export, other, checkpoint_format, checkpoint_marker,
                checkpoint_every, checkpoint_quarantine, remote_start, mpi_arguments, elastic,
                metrics_mlflow, metrics_regex)
};

struct ServiceSpec {
  std::string type;
  std::optional<int> port;
  std::string nodes;
  std::string log_dir;
  std::string command{};  // custom: `properties.command`; empty: the job itself listens at `port`

  bool runs_on(int node) const {
    return nodes.empty() ? node == 0 : nodes == "all" || nodes == std::to_string(node);
  }

  MUSTER_FIELDS(type, port, nodes, log_dir, command)
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

  MUSTER_FIELDS(name, display_name, description, experiment_name, tags, properties, command, code,
                git_url, environment, environment_variables, distribution, compute, instance_count,
                instance_types, shm_size, docker_args, timeout, inputs, outputs, services, muster,
                recorded)
};

}  // namespace muster
