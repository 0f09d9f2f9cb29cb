#include "cli/health_profile.h"

#include <algorithm>
#include <filesystem>

#include "cli/input_file.h"
#include "cli/job_check.h"
#include "health/check_names.h"
#include "health/infiniband/port.h"
#include "health/infiniband/sources.h"
#include "templates/spelling.h"

namespace muster {

namespace {

constexpr std::size_t profile_bytes_max = 1u << 20;
constexpr const char* gpu_folders = "/proc/driver/nvidia/gpus";

bool names_file(const std::string& typed) {
  std::error_code ignored;
  return typed.find('/') != typed.npos || typed.ends_with(".yml") || typed.ends_with(".yaml") ||
         typed == "-" || std::filesystem::is_regular_file(typed, ignored);
}

Result<HealthProfile> site_profile(const std::string& path, const CommonOptions& common) {
  const auto text = read_input(path, profile_bytes_max);
  if (!text) return text.error();
  HealthProfileFile file = read_site_profile(path, *text, names_of_checks());
  print_findings(file.findings, common);
  if (has_errors(file.findings)) return Error{path + " has errors"};
  return std::move(file.profile);
}

HealthProfile profile_of(const ShippedProfile& shipped) {
  return read_health_profile(std::string(shipped.name), shipped.text, names_of_checks()).profile;
}

// "Model: \t\t NVIDIA H100 80GB HBM3"
std::string model_of(std::string_view information) {
  constexpr std::string_view key = "Model:";
  const std::size_t at = information.find(key);
  if (at == information.npos) return {};
  std::string_view model = information.substr(at + key.size());
  model = model.substr(0, model.find('\n'));
  const std::size_t begin = model.find_first_not_of(" \t");
  return begin == model.npos ? std::string{} : std::string(model.substr(begin));
}

bool know_gpus(const SourceFiles& files, NodeKind& kind) {
  for (const std::string& address : files.names_below(gpu_folders)) {
    const std::string path = std::string(gpu_folders) + "/" + address + "/information";
    const std::string model = model_of(files.text(path).value_or(""));
    if (model.empty()) continue;
    kind.gpu_name = model;
    ++kind.gpu_count;
  }
  return kind.gpu_count > 0;
}

int judged_ports_of(const SourceFiles& files) {
  const auto ports = find_ports(files);
  return static_cast<int>(std::ranges::count_if(ports, [&](const InfinibandPort& port) {
    return !is_virtual_function(files, port.device) && !is_management_device(files, port.device) &&
           files.text(port.path("link_layer")) == "InfiniBand";
  }));
}

}  // namespace

Error unknown_profile(const std::string& typed) {
  std::vector<std::string> names;
  for (const ShippedProfile& each : shipped_profiles()) names.emplace_back(each.name);
  const std::string meant = did_you_mean(typed, names);
  return Error{"there is no health profile '" + typed + "'; " +
               (meant.empty() ? "`muster health profiles` lists them, or name a file" : meant)};
}

Result<HealthProfile> named_profile(const std::string& typed, const CommonOptions& common) {
  if (names_file(typed)) return site_profile(typed, common);
  const ShippedProfile* shipped = find_shipped_profile(typed);
  if (shipped == nullptr) return unknown_profile(typed);
  return profile_of(*shipped);
}

Result<HealthProfile> lone_profile(const std::string& path, const CommonOptions& common) {
  const auto text = read_input(path, profile_bytes_max);
  if (!text) return text.error();
  HealthProfileFile file = read_health_profile(path, *text, names_of_checks());
  print_findings(file.findings, common);
  if (has_errors(file.findings)) return Error{path + " has errors"};
  return std::move(file.profile);
}

NodeKind kind_of(HealthSources& sources) {
  NodeReadRequest request;
  request.sources.push_back(std::string(gpu_folders) + "/*/information");
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  const NodeReadings files = sources.read(request);
  NodeKind kind;
  const FileReading& devices = files.files.reading(infiniband_root);
  if (devices.ok() || devices.is_missing) kind.infiniband_ports = judged_ports_of(files.files);
  if (know_gpus(files.files, kind)) return kind;
  NodeReadRequest asking;
  asking.gpus = GpuReadingScope{.processes = false, .inforom = false, .topology = false};
  const NodeReadings answers = sources.read(asking);
  if (!answers.gpus) return kind;
  kind.gpu_count = answers.gpus->count();
  kind.gpu_name = answers.gpus->text("gpu0.name").value_or("");
  return kind;
}

ChosenProfile choose_profile(const NodeKind& kind, const std::string& before) {
  const ShippedProfile* earlier = before.empty() ? nullptr : find_shipped_profile(before);
  // Ports tell sizes apart, but not when one of them is gone.
  NodeKind by_gpus = kind;
  by_gpus.infiniband_ports.reset();
  auto chosen = choose_shipped_profile(by_gpus);
  if (chosen) return {profile_of(**chosen), {}};
  if (earlier != nullptr) return {profile_of(*earlier), {}};
  chosen = choose_shipped_profile(kind);
  if (chosen) return {profile_of(**chosen), {}};
  return {{}, chosen.error().message};
}

}  // namespace muster
