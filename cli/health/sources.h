// A node's sources as `muster health` reads them: this host's, or a recorded one's below another
// root. The helper that can be killed does the reading; what did not answer is remembered. One
// thread; blocks until a read is over, which its limits bound.
//
// A recorded root holds the files as they were read (health/read/files.h), and in .probes/nvml the
// answers of the driver's library (health/model/gpu_readings.h), which is then not asked.
#pragma once

#include <optional>
#include <string>
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

}  // namespace muster
