#include "cli/health/idle.h"

#include <chrono>
#include <sstream>
#include <thread>

#include "launcher/agent/node/process_scan.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr const char* job_variable = "MUSTER_JOB";
constexpr std::chrono::seconds watched{1};
// In /proc/stat: user nice system idle iowait …
constexpr int idle_column = 3;
constexpr int waiting_column = 4;
constexpr int guest_column = 8;  // guests are counted in user time as well

std::string rank_of_muster() {
  for (const ProcessInfo& process : scan_processes()) {
    if (process.is_of_kernel() || process.is_dead()) continue;
    const auto job = environment_entry(read_process_environment(process.pid), job_variable);
    if (job && !job->empty()) return "job " + *job + " of muster runs here: " + describe(process);
  }
  return {};
}

std::string process_on_gpu(HealthSources& sources) {
  NodeReadRequest request;
  request.gpus = GpuReadingScope{.processes = true, .inforom = false};
  const NodeReadings readings = sources.read(std::move(request));
  if (!readings.gpus) return {};
  for (int i = 0; i < readings.gpus->count(); ++i) {
    const std::string gpu = "gpu" + std::to_string(i);
    const auto processes = readings.gpus->text(gpu + ".procs");
    if (!processes || processes->empty() || *processes == "none") continue;
    return gpu + " is used by process " + std::string(processes->substr(0, processes->find(':')));
  }
  return {};
}

std::string load_of_processors() {
  const auto before = processor_time(text_of_file("/proc/stat"));
  std::this_thread::sleep_for(watched);
  const auto after = processor_time(text_of_file("/proc/stat"));
  if (!before || !after) return {};
  const double busy = busy_processors(*before, *after);
  if (!is_busy(busy, after->processors)) return {};
  return printed("%.1f of ", busy) + std::to_string(after->processors) + " processors are busy";
}

}  // namespace

std::optional<ProcessorTime> processor_time(std::string_view stat) {
  if (!stat.starts_with("cpu ")) return std::nullopt;
  std::istringstream line(std::string(stat.substr(4, stat.find('\n') - 4)));
  ProcessorTime time;
  std::uint64_t ticks = 0;
  for (int column = 0; column < guest_column && line >> ticks; ++column) {
    time.all_ticks += ticks;
    if (column != idle_column && column != waiting_column) time.busy_ticks += ticks;
  }
  if (line.fail() && !line.eof()) return std::nullopt;
  for (std::size_t at = stat.find("\ncpu"); at != std::string_view::npos;
       at = stat.find("\ncpu", at + 1)) {
    ++time.processors;
  }
  return time.processors > 0 ? std::optional(time) : std::nullopt;
}

double busy_processors(const ProcessorTime& before, const ProcessorTime& after) {
  if (after.all_ticks <= before.all_ticks || after.busy_ticks < before.busy_ticks) return 0;
  const double all = static_cast<double>(after.all_ticks - before.all_ticks);
  return after.processors * static_cast<double>(after.busy_ticks - before.busy_ticks) / all;
}

// The ranks of eight GPUs keep eight processors busy, of perhaps two hundred.
bool is_busy(double busy, int processors) {
  return busy > 1 + processors / 100.0;
}

std::string who_runs_here(HealthSources& sources) {
  const std::string rank = rank_of_muster();
  return rank.empty() ? process_on_gpu(sources) : rank;
}

std::string why_not_idle(HealthSources& sources) {
  const std::string process = who_runs_here(sources);
  return process.empty() ? load_of_processors() : process;
}

}  // namespace muster
