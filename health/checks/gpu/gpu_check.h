// One check on one GPU while it is judged: finds its readings, remembers why one is not there, and
// makes the finding. The outcome of a check is a finding, or nothing where there is nothing to say.
#pragma once

#include <chrono>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/model/baseline.h"
#include "health/model/check.h"
#include "health/model/finding.h"
#include "health/model/gpu_readings.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// Judges a node's GPUs: what the driver and the files of the system say, against the profile and
// against what they said before. Pure: readings in, findings out. What the profile does not say is
// not judged; a growth needs an earlier reading of the same boot.

// An earlier look at the same node. GPUs are matched by UUID, counters of another boot do not
// count.
struct GpuBefore {
  const GpuReadings& readings;
  const SourceFiles& files;
  std::chrono::duration<double> age;
};

struct GpuSituation {
  const GpuReadings& now;
  const SourceFiles& files;  // of gpu_sources() and gpu_device_sources()
  const HealthProfile& profile;
  const GpuBefore* before = nullptr;
  bool is_idle = false;  // no ranks: whatever uses a GPU was left behind
  const std::map<std::string, std::string>* rank_environment = nullptr;
};

// All gpu.* checks but those of the kernel log and gpu.dstate. A reading that failed
// is unknown; one that the GPU does not support is left out unless the profile requires the check;
// one that was not asked for is left out. On a GPU of which the driver wants more than "none",
// failures of the node's class follow the driver (gpu.recovery_action). Excluded devices and modes
// are the caller's. A profile that says 0 GPUs has no findings; neither has one that says nothing
// where there is no driver.
std::vector<HealthFinding> judge_gpus(const GpuSituation& situation);

using GpuOutcome = std::optional<HealthFinding>;

// One GPU of a situation.
struct GpuView {
  const GpuSituation& situation;
  std::string device;                        // "gpu3"
  std::optional<std::string> device_before;  // what the same GPU was called
  std::string pci_address;                   // as the kernel writes it; empty: not known
  std::string serial;
};
GpuView view_of_gpu(const GpuSituation& situation, const std::string& device);

class GpuCheck {
 public:
  GpuCheck(const GpuView& gpu, const CheckInput& input) : gpu_(gpu), input_(input) {}

  const GpuView& gpu() const { return gpu_; }
  const CheckInput& input() const { return input_; }
  const GpuProfile& profile() const { return input_.profile.gpu; }

  // The first of the keys that has a value; of the GPU ("remap.pending").
  std::optional<std::int64_t> number(std::initializer_list<std::string_view> keys);
  std::optional<std::string> text(std::string_view key);
  // How much a counter grew; nothing without a baseline: none was read, or it is smaller now. A
  // growth of several counters is their sum, each from the first of its keys that has one.
  std::optional<std::int64_t> growth(std::initializer_list<std::string_view> keys);
  // The sum over `prefix0suffix`, `prefix1suffix`… as far as they were read.
  std::optional<std::int64_t> growth_of_links(std::string_view prefix, std::string_view suffix);

  double limit(std::string_view name) const { return input_.limit(name); }
  std::optional<double> limit_if_any(std::string_view name) const {
    return input_.limit_if_any(name);
  }
  bool is_required() const;
  // Seconds since the earlier reading; at least a little.
  double seconds() const;

  HealthFinding passed(std::string value, std::string expected) const;
  HealthFinding failed(std::string value, std::string expected) const;
  HealthFinding failed(std::string value, std::string expected, CheckSeverity severity) const;
  HealthFinding judged(bool is_fine, std::string value, std::string expected) const {
    return is_fine ? passed(std::move(value), std::move(expected))
                   : failed(std::move(value), std::move(expected));
  }
  // A value is missing: unknown with the reason, or nothing when the GPU cannot say it, it was not
  // asked, or there is no baseline yet.
  GpuOutcome unread() const;
  HealthFinding unknown(std::string why) const;

 private:
  HealthFinding finding(CheckStatus status, std::string value, std::string expected,
                        std::string evidence = {}) const;
  void note(std::string_view key);

  const GpuView& gpu_;
  const CheckInput& input_;
  std::vector<std::string> reasons_;  // that make it unknown
  bool is_unsupported_ = false;
};

// One look at all GPUs of a node.
struct GpuLook {
  const GpuSituation& situation;
  std::vector<GpuView> gpus;
};

// The judge of a row from the judge of one GPU.
template <GpuOutcome (*judge)(GpuCheck&)>
std::vector<HealthFinding> on_each_gpu(const CheckInput& input) {
  std::vector<HealthFinding> findings;
  for (const GpuView& gpu : input.gpu->gpus) {
    GpuCheck check(gpu, input);
    append_findings(findings, judge(check));
  }
  return findings;
}

// The same of the node as a whole.
template <GpuOutcome (*judge)(GpuCheck&)>
std::vector<HealthFinding> on_node(const CheckInput& input) {
  const GpuView node{input.gpu->situation, {}, {}, {}, {}};
  GpuCheck check(node, input);
  std::vector<HealthFinding> findings;
  append_findings(findings, judge(check));
  return findings;
}

// ---- what all GPUs of a node that is known to be good say alike

// Whether the driver's library answered all that it was asked.
bool has_answer(const BaselineNode& node);
// "gpu0"…; none without an answer.
std::vector<std::string> answering_gpus(const BaselineNode& node);

// The reading `key` of each GPU. Where they differ, or one says nothing, it is left out and said
// under the profile's `fact`.
std::optional<std::string> same_text(BaselineNode& node, const std::string& key, const char* fact);
std::optional<int> same_number(BaselineNode& node, const std::string& key, const char* fact);
// Nothing also of a mode that the GPUs do not have: their checks leave it out.
std::optional<bool> same_flag(BaselineNode& node, const std::string& key, const char* fact);

// The rows of each file of judges.
std::span<const CheckSpec> gpu_link_checks();
std::span<const CheckSpec> gpu_node_checks();
std::span<const CheckSpec> gpu_state_checks();

// Which files the GPU checks need. `*` stands for one name in a path.

// Of the node, and of each PCI device what tells whether it is a GPU.
std::vector<std::string> gpu_sources();
// Of the GPUs among the devices that were read: their configuration space, links and counters. Not
// read of other devices, of which there are hundreds.
std::vector<std::string> gpu_device_sources(const SourceFiles& scanned);

// PCI addresses of NVIDIA's GPUs, "0000:3b:00.0", sorted.
std::vector<std::string> gpus_on_pci(const SourceFiles& scanned);
// The driver's "00000000:3B:00.0" as the kernel writes it; what is no address, as it is.
std::string kernel_pci_address(std::string_view driver_address);
std::string pci_file(const std::string& address, const char* name);

// For read_files: `open:` of each. Of as many GPUs as the profile says; none where it does not.
std::vector<std::string> gpu_device_nodes(const HealthProfile& profile);

}  // namespace muster
