// The words for enumerations, as they stand in job files, the journal and JSON output. Index =
// value.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "scheduler/model/compute.h"
#include "scheduler/model/datastore.h"
#include "scheduler/model/health_profile.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/link.h"
#include "scheduler/model/record.h"

namespace muster {

template <class Enum>
struct EnumWords;  // specialised below: `static constexpr std::array words{…}`

#define MUSTER_WORDS(Enum, ...)                                                   \
  template <>                                                                     \
  struct EnumWords<Enum> {                                                        \
    static constexpr auto words = std::to_array<std::string_view>({__VA_ARGS__}); \
  }

MUSTER_WORDS(DistributionType, "none", "pytorch", "mpi", "tensorflow", "ray");
MUSTER_WORDS(DatastoreType, "azure_blob", "azure_data_lake_gen2", "one_lake", "azure_file",
             "rclone", "local");
MUSTER_WORDS(DataType, "uri_folder", "uri_file", "mltable", "mlflow_model", "custom_model",
             "triton_model");
MUSTER_WORDS(InputMode, "ro_mount", "download", "direct", "eval_mount", "eval_download");
MUSTER_WORDS(OutputMode, "rw_mount", "upload", "direct");
MUSTER_WORDS(PathKind, "none", "local", "http", "datastore", "asset", "job_output", "registry");
MUSTER_WORDS(DelayFunction, "constant", "exponential", "fibonacci");
MUSTER_WORDS(FailureClass, "user", "infra", "hw", "hang", "sdc", "preempted", "divergence");
MUSTER_WORDS(Reaction, "retry", "backoff", "stop", "exclude_node");
MUSTER_WORDS(RuleOrigin, "job", "site", "default");
MUSTER_WORDS(ResumeFrom, "latest", "certified", "none", "path");
MUSTER_WORDS(MpiLauncher, "mpirun", "direct");
MUSTER_WORDS(ElasticMode, "live", "restart");
MUSTER_WORDS(HealthLevel, "off", "quick", "full");
MUSTER_WORDS(CheckMode, "off", "observe", "enforce");
MUSTER_WORDS(TransportKind, "local", "ssh", "openssh");
MUSTER_WORDS(LinkFailureKind, "unknown_host", "unreachable", "refused_key", "changed_host_key",
             "shell", "disk_full", "wrong_build", "lost");
MUSTER_WORDS(Unfitness, "drained", "unreachable", "unhealthy", "lasting");
MUSTER_WORDS(HangWatch, "heartbeat", "output");
MUSTER_WORDS(StallKind, "slow", "suspect", "hung", "over");
MUSTER_WORDS(Doing, "moving", "working", "quiet", "stuck", "stopped");
MUSTER_WORDS(JobEndState, "Completed", "Failed", "Canceled");
MUSTER_WORDS(Keep, "with_job", "newest", "month", "while_faulty");
MUSTER_WORDS(FaultClass, "node", "user", "setup", "infra");
MUSTER_WORDS(Remedy, "warn", "drain", "reset", "reboot", "rma");
MUSTER_WORDS(RemedyStep, "reset", "reboot", "reboot_from_here");
MUSTER_WORDS(StopReason, "canceled", "time_limit", "rank_failed", "node_lost", "start_failed",
             "drained", "finished", "hung", "preempted", "faulty",
             "rescaled");
MUSTER_WORDS(FenceProof, "lease_expired", "boot_id_changed", "agent_restarted", "never_started",
             "none");

#undef MUSTER_WORDS

template <class Enum>
constexpr std::string_view word(Enum value) {
  return EnumWords<Enum>::words.at(static_cast<std::size_t>(value));
}

template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view text) {
  for (std::size_t i = 0; i < EnumWords<Enum>::words.size(); ++i) {
    if (EnumWords<Enum>::words[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// checkpoint.format: all, muster-train's, each kind of another program's, none.
inline const std::vector<std::string> checkpoint_formats{
    "auto",      "muster",    "dcp",      "torch",      "safetensors", "huggingface", "accelerate",
    "lightning", "deepspeed", "megatron", "tensorflow", "ray",         "marker",      "none"};

}  // namespace muster
