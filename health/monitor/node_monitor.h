// What an agent knows of its node for its life, and `muster health` for one run: counters and the
// GPUs' last look to compare with, link flaps, memory errors, boots, and the kernel's log. Takes
// what the live sources say as it comes; what is read at a time comes through CheckRun. Pure: no
// clock, no I/O; one thread. All that it remembers is bounded, plain data.
//
//   begin(boot id) ─► on_kernel_lines, on_gpu_events, tick every second ─► findings, each once
//   CheckRun(monitor, situation) ─► findings of one run
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/host/host_checks.h"
#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/kernel/kernel_watch.h"
#include "health/model/counter_history.h"
#include "health/model/finding.h"
#include "health/model/gpu_readings.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"
#include "health/monitor/check_run.h"
#include "health/nvml/library.h"
#include "scheduler/text/fields.h"

namespace muster {

// What the devices of a node are called, by PCI address, as the last readings had them. One that is
// gone keeps its name until the host starts anew: it is what failed. Plain state, one thread.

class DeviceNames {
 public:
  DeviceNames(std::map<std::string, std::string> gpus, std::map<std::string, std::string> hcas,
              std::set<std::string, std::less<>> skipped);

  // The host started anew: the next readings replace all.
  void boot();
  // Whether anything changed.
  bool take_gpus(const GpuReadings& readings);
  bool take_hcas(const SourceFiles& files, const HealthProfile& profile);

  PciNames pci() const;
  // "gpu3" or "mlx5_3" to its address.
  std::optional<std::string> address_of(std::string_view device) const;
  bool has_gpus() const { return are_gpus_fresh_ && !gpus_.empty(); }
  bool has_hcas() const { return are_hcas_fresh_ && !hcas_.empty(); }
  const std::map<std::string, std::string>& gpus() const { return gpus_; }
  const std::map<std::string, std::string>& hcas() const { return hcas_; }
  const std::set<std::string, std::less<>>& skipped() const { return skipped_; }
  // As much of a tree of files as tells devices by their addresses.
  SourceFiles hca_files() const;

 private:
  std::map<std::string, std::string> gpus_;
  std::map<std::string, std::string> hcas_;
  std::set<std::string, std::less<>> skipped_;  // HCAs that are not judged
  bool are_gpus_fresh_ = true;                  // of this boot
  bool are_hcas_fresh_ = true;
};

// What a node's monitor remembers over a restart of its agent: plain data, bounded, with `fields`
// for a codec.

struct MonitorMemory {
  std::string boot_id;
  std::map<std::string, std::string> gpu_names;  // by PCI address: "gpu3"
  std::map<std::string, std::string> hca_names;  // "mlx5_3"
  std::vector<std::string> skipped;              // addresses of devices that are not judged
  std::vector<std::string> refusing;             // HCAs whose firmware refuses what is read
  KernelWatchState kernel;
  std::vector<CounterTrack> counters;  // thinned: a restart needs where windows begin
  std::vector<LinkFlapTrack> flaps;
  std::vector<EdacSample> edac;
  std::vector<BootSeen> boots;
  SinceBoot look_at{};
  std::string look_readings;  // of the GPUs, as write_gpu_readings has them; empty: none
  std::map<std::string, std::string> look_files;

  MUSTER_FIELDS(boot_id, gpu_names, hca_names, skipped, refusing, kernel, counters, flaps, edac,
                boots, look_at, look_readings, look_files)
};

struct MonitorOptions {
  std::string root = "/";
  std::string nvml_library{};                 // empty: the usual one
  std::string helper_name = "muster-reader";  // of the process that asks the driver
};

class NodeMonitor {
 public:
  using Findings = std::vector<HealthFinding>;

  NodeMonitor(HealthProfile profile, MonitorOptions options, MonitorMemory saved = {});
  NodeMonitor(const NodeMonitor&) = delete;
  NodeMonitor& operator=(const NodeMonitor&) = delete;

  // Before all else, with the host's boot id.
  void begin(const std::string& boot_id, const CheckMoment& now);

  // Of devices that no reading has named yet, findings wait for it, half a minute at most: tick()
  // tells them then.
  Findings on_kernel_lines(std::span<const KernelLine> lines, const CheckMoment& now);
  Findings on_gpu_events(std::span<const GpuEvent> events, const CheckMoment& now);
  Findings tick(const CheckMoment& now);

  // We are about to kill ranks on these GPUs ("gpu3"); on all if none is named.
  void on_kill(std::span<const std::string> gpus, const CheckMoment& now);
  // By us. A reset by somebody else is told by a pass of gpu.reset, where the driver shows it.
  void on_reset(const std::string& gpu, const CheckMoment& now);
  Findings on_job_death(const CheckMoment& now);
  // No job is here any more: GPUs of resets_at_epilog() need theirs.
  Findings on_jobs_over(const CheckMoment& now);
  // A person or a repair has seen to a check; an empty device: on all of them.
  void on_cleared(std::string_view check, std::string_view device) {
    kernel_.on_cleared(check, device);
  }

  // Since the last call the driver said something that a look at the GPUs tells more of.
  bool take_look_wanted();
  // GPUs to be reset once their job has ended.
  std::vector<std::string> resets_at_epilog() const;

  MonitorMemory memory() const;
  const HealthProfile& profile() const { return profile_; }
  const MonitorOptions& options() const { return options_; }

  // For CheckRun: what was read at one time, judged with what is remembered.
  Findings look_at_gpus(const GpuReadings& readings, const SourceFiles& files,
                        const CheckSituation& situation, const CheckMoment& now);
  Findings look_at_infiniband(const SourceFiles& files, SourceGroups groups,
                              const CheckSituation& situation, const CheckMoment& now);
  // It says what the last look at links alone did, in which all passed.
  bool is_same_look(const SourceFiles& links, SourceGroups groups,
                    const CheckSituation& situation) const;
  Findings look_at_host(const SourceFiles& files, const CheckSituation& situation,
                        const CheckMoment& now);
  Findings look_at_processes(std::span<const SourceFiles> looks,
                             const CheckSituation& situation) const;
  Findings standing(const CheckSituation& situation, const CheckMoment& now) const;
  // Without the counters of devices whose firmware refuses to tell them, and without what tells
  // devices that are known since the last look at counters.
  std::vector<std::string> sources_for(SourceGroups groups, Phase phase) const;

 private:
  struct GpuLook {
    GpuReadings readings;
    SourceFiles files;
    SinceBoot at{};
  };

  Findings collect(KernelEvents events, const CheckMoment& now);
  Findings resets_between_looks(const GpuReadings& readings, const CheckMoment& now);
  void count_link(const LinkChange& change, const CheckMoment& now);
  void names_changed();
  bool reads_links_only(SourceGroups groups, Phase phase) const;
  std::vector<std::string> without_refused(std::vector<std::string> sources) const;
  void remember_look(const GpuReadings& readings, const SourceFiles& files, SinceBoot at);
  void note_edac(EdacSample sample);

  HealthProfile profile_;
  MonitorOptions options_;
  std::string boot_id_;
  SinceBoot began_{};

  DeviceNames names_;
  KernelWatch kernel_;
  CounterHistory counters_;
  LinkFlaps flaps_;
  std::vector<EdacSample> edac_;  // of this boot and the last day, oldest first
  std::vector<BootSeen> boots_;
  std::optional<GpuLook> look_;
  std::vector<std::string> refusing_;  // HCAs
  KnownDevices hcas_;
  std::optional<SourceFiles> sound_links_;

  bool is_settled_ = false;  // devices have their names, or will not get any
  Findings waiting_;         // of devices by their address
  std::vector<LinkChange> unnamed_links_;
  bool is_look_wanted_ = false;
};

}  // namespace muster
