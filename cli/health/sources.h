// A node's sources as `muster health` reads them: this host's, or a recorded one's below another
// root. The helper that can be killed does the reading; what did not answer is remembered. One
// thread; blocks until a read is over, which its limits bound.
//
// A recorded root holds the files as they were read (health/read/files.h), and in .probes/nvml the
// answers of the driver's library (health/model/gpu_readings.h), which is then not asked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/health/result.h"
#include "health/checks/infiniband/port.h"
#include "health/monitor/check_run.h"
#include "health/read/kmsg.h"
#include "health/read/node_reader.h"

namespace muster {

struct HealthSourcesOptions {
  std::string root = "/";
  std::vector<std::string> helper;  // argv of the helper
  NodeReaderLimits limits;
};

// Of this program: the helper it starts itself as, and the root that the environment may name.
HealthSourcesOptions own_sources(const std::string& root);

class HealthSources {
 public:
  explicit HealthSources(HealthSourcesOptions options);

  NodeReadings read(NodeReadRequest request);
  // All that is in the kernel's log now; why it cannot be read is in log_error().
  std::vector<KernelLine> kernel_lines();
  const std::string& log_error() const { return log_error_; }

  // Of a recorded root the time since boot is that of the record.
  CheckMoment now() const;
  const std::string& boot_id() const { return boot_id_; }
  const std::string& host() const { return host_; }
  bool is_this_host() const { return options_.root == "/"; }
  const std::string& root() const { return options_.root; }
  HelperFacts helper_facts() const { return reader_.facts(); }
  const std::vector<HungSource>& hung() const { return hung_; }
  // Everything that was read, the latest reading of each source.
  const NodeReadings& all() const { return all_; }

 private:
  void read_identity();
  void note_hung(const NodeReadings& readings);
  void keep(const NodeReadings& readings);

  HealthSourcesOptions options_;
  NodeReader reader_;
  std::optional<GpuReadings> recorded_gpus_;
  std::string log_error_;
  std::string boot_id_;
  std::string host_;
  SinceBoot recorded_since_boot_{};
  std::vector<HungSource> hung_;
  NodeReadings all_;
};

// What the kernel says of this host's InfiniBand devices.
SourceFiles infiniband_files(HealthSources& sources);
// Whether it is of InfiniBand, and of no part of a device that a guest has.
bool is_infiniband(const SourceFiles& files, const InfinibandPort& port);
// "mlx5_0" of a first port, "mlx5_0:2" of another.
std::string hca_name(const InfinibandPort& port);

// Where a recorded root keeps what no file can be.
inline constexpr const char* recorded_nvml = "/.probes/nvml";
inline constexpr const char* recorded_log_error = "/.probes/%dev%kmsg";
inline constexpr const char* kernel_log_path = "/dev/kmsg";

// Whether this host is idle: a measurement of one that is not tells nothing of it, and slows what
// runs there. Reads /proc, the environments of processes, and what GPUs say of theirs.

// The first line of /proc/stat, and how many processors there are.
struct ProcessorTime {
  std::uint64_t busy_ticks = 0;
  std::uint64_t all_ticks = 0;
  int processors = 0;
};
std::optional<ProcessorTime> processor_time(std::string_view stat);
// How many processors were busy between two moments; 0 when no time went by.
double busy_processors(const ProcessorTime& before, const ProcessorTime& after);
// More than a service or two need.
bool is_busy(double busy, int processors);

// A rank of muster, or a process on a GPU. Empty: nobody, or nothing tells.
std::string who_runs_here(HealthSources& sources);

// Empty: it is idle, or nothing tells otherwise. "a rank of job j4 runs here (process 4711)". Takes
// a second.
std::string why_not_idle(HealthSources& sources);

}  // namespace muster
