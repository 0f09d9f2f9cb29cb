// What the driver's management library answered about a node's GPUs, as plain data: a flat map from
// key to answer. A host can be recorded and replayed: the text form is the file format of the fake
// library of the tests.
//
//   count 8                      the node's: init, count, driver, nvml, cuda
//   gpu3.uuid GPU-5d2f…          a GPU's
//   gpu3.field.230 0             a field by its id
//   gpu3.field.164.5 26562       a field of one link
//   gpu3.remap.pending.rc 15     the call failed with this code; there is no value
//   calling gpu3.nvmlDevice…     the call that is about to be made
//   stopped the helper died …    why nothing more was asked, when it is not that the call hangs
//   complete 1                   all was asked; without it the reader was stopped in `calling`
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct GpuReading {
  int rc = 0;  // of the library; 0: there is a value
  std::string value;
  friend bool operator==(const GpuReading&, const GpuReading&) = default;
};

class GpuReadings {
 public:
  void add(std::string key, GpuReading reading) {
    all_.insert_or_assign(std::move(key), std::move(reading));
  }
  void begin_call(std::string name) { calling_ = std::move(name); }
  void complete() { is_complete_ = true; }
  void stop(std::string why) { stopped_ = std::move(why); }

  // Nothing when it was never asked, or not answered.
  const GpuReading* find(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // Whole, decimal or 0x…; nothing also when it is beyond 63 bits: counters stop there.
  std::optional<std::int64_t> number(std::string_view key) const;
  // How many GPUs the library counts, of at most 64; 0 also when it does not say.
  int count() const;
  // "gpu0", "gpu1"…, as many as it counts.
  std::vector<std::string> devices() const;

  // Whether everything was asked that was to be; if not, `calling` is where it stopped.
  bool is_complete() const { return is_complete_; }
  const std::string& calling() const { return calling_; }
  // "the helper died of signal 11 in gpu3.nvmlDevice…"; empty: the driver hangs in `calling`.
  const std::string& stopped() const { return stopped_; }
  const std::map<std::string, GpuReading, std::less<>>& all() const { return all_; }

 private:
  std::map<std::string, GpuReading, std::less<>> all_;
  std::string calling_;
  std::string stopped_;
  bool is_complete_ = false;
};

// How a reader tells what it does as it goes: a call that never returns takes nothing with it.
struct GpuReadingSink {
  std::function<void(const std::string& call)> calling;
  std::function<void(const std::string& key, const GpuReading& reading)> got;
};

// A line of the text form, with its newline.
std::string line_of(const std::string& key, const GpuReading& reading);
std::string write_gpu_readings(const GpuReadings& readings);
// Lines that are none are skipped, and so is a last one without its end: its writer was killed.
GpuReadings parse_gpu_readings(std::string_view text);

// "not supported (3)"
std::string nvml_code_text(int rc);

}  // namespace muster
