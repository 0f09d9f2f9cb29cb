// A complete node as its sources: files, calls of the kernel, and the driver's management library
// (the fake one, with the answers of tests/health/data). Healthy as made; tests spoil it. What a
// reader of it would say is computed without one: the sources asked for, and nothing else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "health/model/profile.h"
#include "health/read/reader_protocol.h"

namespace muster {

enum class FakeKind { h100, a100 };

// What one call to the library said, or the call itself.
struct GpuStep {
  std::string call;  // empty: an answer
  std::string key;
  GpuReading reading;
};

class FakeNode {
 public:
  // Adapters are called as on Azure ("mlx5_ib"), or as everywhere else ("mlx5_").
  explicit FakeNode(FakeKind kind, std::string adapters = "mlx5_ib");

  NodeReadings read(const NodeReadRequest& request);

  // ---- files
  void set(const std::string& path, std::string text);
  void set_error(const std::string& path, std::string error);  // cannot be read
  void hang(const std::string& path);                          // does not answer
  void append(const std::string& path, const std::string& text);
  void remove(const std::string& path);              // with all below it
  void add(const std::string& path, double amount);  // to the number that it holds
  bool has(const std::string& path) const { return files_.all().contains(path); }
  void set_boot(const std::string& boot_id) { set(boot_id_path, boot_id + "\n"); }
  void set_uptime(double seconds);
  std::string boot_id() const;

  // ---- the driver
  void nvml(const std::string& lines);  // of the fake library's file
  // Adds to what a key says, from now on.
  void nvml_add(const std::string& key, double amount) { nvml_added_[key] += amount; }
  // The call hangs, or takes the process with it: nothing behind it is answered.
  void nvml_stops_at(const std::string& call) { stops_at_ = call; }
  // "0000:3b:00.0"
  std::string gpu_address(int gpu) const;
  std::string hca_address(int hca) const;
  const SourceFiles& files() const { return files_; }

 private:
  static constexpr const char* boot_id_path = "/proc/sys/kernel/random/boot_id";

  void add_host();
  void add_infiniband();
  void add_gpus();
  const std::vector<std::string>& paths_of(const std::vector<std::string>& sources);
  FileReading reading_of(const std::string& path) const;
  GpuReadings read_gpus(const GpuReadingScope& scope);
  void changed() { plans_.clear(); }

  FakeKind kind_;
  std::string adapters_;
  SourceFiles files_;
  std::map<std::vector<std::string>, std::vector<std::string>> plans_;
  std::string script_;
  std::map<std::string, double> nvml_added_;
  std::string stops_at_;
};

}  // namespace muster
