#include "cli/health/sources.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include "health/checks/host/facts.h"
#include "health/checks/infiniband/port.h"
#include "health/read/files.h"
#include "launcher/agent/node/process_scan.h"
#include "launcher/agent/node_check.h"
#include "launcher/os/child.h"
#include "launcher/os/clocks.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// The kernel keeps some MiB at most; what goes on growing is a log that nobody can follow.
constexpr int log_reads_most = 64;
constexpr const char* host_name_file = "/proc/sys/kernel/hostname";

std::string absolute_root(const std::string& root) {
  std::error_code failed;
  const auto path = std::filesystem::absolute(root, failed).lexically_normal();
  std::string text = failed ? root : path.string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

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

HealthSourcesOptions own_sources(const std::string& root) {
  HealthSourcesOptions options;
  const std::string named = root.empty() ? environment(system_root_name) : root;
  if (!named.empty()) options.root = absolute_root(named);
  options.helper = {self_exe(), "agent", "read-health"};
  return options;
}

HealthSources::HealthSources(HealthSourcesOptions options)
    : options_(std::move(options)),
      reader_(
          {.helper = options_.helper, .limits = options_.limits, .nvml_library = {}, .wait = {}}) {
  if (!is_this_host()) {
    std::error_code failed;
    const std::string answers = options_.root + recorded_nvml;
    if (std::filesystem::is_regular_file(answers, failed)) {
      recorded_gpus_ = parse_gpu_readings(text_of_file(answers));
    }
  }
  read_identity();
}

void HealthSources::read_identity() {
  NodeReadRequest request;
  request.sources = {"/proc/uptime", "/proc/sys/kernel/random/boot_id", host_name_file};
  const NodeReadings readings = read(std::move(request));
  boot_id_ = boot_id_of(readings.files);
  host_ = readings.files.text(host_name_file).value_or("");
  if (host_.empty()) host_ = read_host_name();
  recorded_since_boot_ = uptime_of(readings.files).value_or(std::chrono::seconds(0));
}

NodeReadings HealthSources::read(NodeReadRequest request) {
  request.root = options_.root;
  const bool wants_gpus = request.gpus.has_value();
  if (recorded_gpus_) request.gpus.reset();
  NodeReadings readings = read_node(reader_, std::move(request));
  if (recorded_gpus_ && wants_gpus) readings.gpus = recorded_gpus_;
  note_hung(readings);
  keep(readings);
  return readings;
}

void HealthSources::note_hung(const NodeReadings& readings) {
  const auto note = [this](HungSource source) {
    if (std::ranges::find(hung_, source) == hung_.end()) hung_.push_back(std::move(source));
  };
  for (const auto& [path, reading] : readings.files.all()) {
    if (did_not_answer(reading)) note({path, reading.error});
  }
  if (readings.gpus && !readings.gpus->is_complete()) {
    const std::string& stopped = readings.gpus->stopped();
    const std::string& call = readings.gpus->calling();
    if (!call.empty() || !stopped.empty()) {
      note({call.empty() ? "the driver's library" : call, stopped.empty() ? "no answer" : stopped});
    }
  }
  if (!reader_.stuck_in().empty()) {
    note({reader_.stuck_in(), "its reader was killed, and the kernel does not give it up"});
  }
}

void HealthSources::keep(const NodeReadings& readings) {
  for (const auto& [path, reading] : readings.files.all()) all_.files.add(path, reading);
  if (readings.gpus) all_.gpus = readings.gpus;
}

std::vector<KernelLine> HealthSources::kernel_lines() {
  const std::string place = is_this_host() ? "" : options_.root;
  std::string recorded = is_this_host() ? "" : text_of_file(place + recorded_log_error);
  if (constexpr std::string_view word = "error "; recorded.starts_with(word)) {
    recorded.erase(0, word.size());
    log_error_ = recorded.substr(0, recorded.find('\n'));
    return {};
  }
  KernelLog log(place + kernel_log_path);
  std::vector<KernelLine> lines;
  for (int read = 0; read < log_reads_most && log.error().empty(); ++read) {
    std::vector<KernelLine> some = log.read();
    std::ranges::move(some, std::back_inserter(lines));
    if (!log.may_have_more()) break;
  }
  log_error_ = log.error();
  return lines;
}

CheckMoment HealthSources::now() const {
  return {wall_clock_now(), is_this_host() ? raw_time() : recorded_since_boot_};
}

SourceFiles infiniband_files(HealthSources& sources) {
  NodeReadRequest request;
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  return sources.read(std::move(request)).files;
}

bool is_infiniband(const SourceFiles& files, const InfinibandPort& port) {
  return !is_virtual_function(files, port.device) &&
         files.text(port.path("link_layer")) == "InfiniBand";
}

std::string hca_name(const InfinibandPort& port) {
  return port.number == "1" ? port.device : port.name();
}

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
