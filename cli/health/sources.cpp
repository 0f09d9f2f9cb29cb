#include "cli/health/sources.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "health/checks/host/facts.h"
#include "health/checks/infiniband/port.h"
#include "health/checks/infiniband/sources.h"
#include "health/read/files.h"
#include "launcher/agent/node_check.h"
#include "launcher/os/child.h"
#include "launcher/os/clocks.h"
#include "launcher/os/read_file.h"
#include "scheduler/text/duration.h"

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

}  // namespace muster
