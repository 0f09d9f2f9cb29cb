#include "cli/health/profile.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/client/targets.h"
#include "cli/health/benchmark.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/checks/check_names.h"
#include "health/checks/infiniband/port.h"
#include "health/learn/profile.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/profile/reader.h"
#include "templates/yaml/value.h"

namespace muster {

namespace {

constexpr std::size_t profile_bytes_max = 1u << 20;
constexpr const char* gpu_folders = "/proc/driver/nvidia/gpus";
constexpr const char* vendor_file = "/sys/class/dmi/id/sys_vendor";
constexpr const char* product_file = "/sys/class/dmi/id/product_name";

bool names_file(const std::string& typed) {
  std::error_code ignored;
  return typed.find('/') != typed.npos || typed.ends_with(".yml") || typed.ends_with(".yaml") ||
         typed == "-" || std::filesystem::is_regular_file(typed, ignored);
}

Result<HealthProfile> profile_in(const std::string& path, bool alone, const CommonOptions& common) {
  const auto text = read_input(path, profile_bytes_max);
  if (!text) return text.error();
  HealthProfileFile file = alone ? read_health_profile(path, *text, names_of_checks())
                                 : read_site_profile(path, *text, names_of_checks());
  print_findings(file.findings, common);
  if (has_errors(file.findings)) return Error{path + " has errors"};
  return std::move(file.profile);
}

// "Model: \t\t NVIDIA H100 80GB HBM3"
std::string model_of(std::string_view information) {
  constexpr std::string_view key = "Model:";
  const std::size_t at = information.find(key);
  if (at == information.npos) return {};
  const std::string_view model = information.substr(at + key.size());
  return std::string(trimmed(model.substr(0, model.find('\n'))));
}

// The model of most of them: one of another is a fault and no other kind of node.
void note_models(const std::vector<std::string>& models, NodeKind& kind) {
  std::map<std::string, int> seen;
  for (const std::string& model : models) ++seen[model];
  const auto count = [](const auto& one) { return one.second; };
  const auto most = std::ranges::max_element(seen, {}, count);
  if (most != seen.end()) kind.gpu_name = most->first;
}

bool know_gpus(const SourceFiles& files, NodeKind& kind) {
  std::vector<std::string> models;
  for (const std::string& address : files.names_below(gpu_folders)) {
    const std::string path = std::string(gpu_folders) + "/" + address + "/information";
    const std::string model = model_of(files.text(path).value_or(""));
    if (!model.empty()) models.push_back(model);
  }
  note_models(models, kind);
  kind.gpu_count = static_cast<int>(models.size());
  return !models.empty();
}

std::vector<std::string> judged_ports_of(const SourceFiles& files) {
  std::vector<std::string> names;
  for (const InfinibandPort& port : find_ports(files)) {
    if (is_infiniband(files, port) && !is_management_device(files, port.device)) {
      names.push_back(port.name());
    }
  }
  return names;
}

// "vmSize": "Standard_ND96isr_H100_v5"
std::string size_of(std::string_view metadata) {
  constexpr std::string_view key = "\"vmSize\"";
  const std::size_t at = metadata.find(key);
  if (at == metadata.npos) return {};
  metadata.remove_prefix(at + key.size());
  const std::size_t begin = metadata.find('"');
  const std::size_t end = begin == metadata.npos ? begin : metadata.find('"', begin + 1);
  return end == metadata.npos ? std::string()
                              : std::string(metadata.substr(begin + 1, end - begin - 1));
}

std::string profile_name(const std::string& host) {
  std::string name = "learned-" + host.substr(0, host.find('.'));
  for (char& c : name) {
    if (!is_word_of({&c, 1}, "-_")) c = '-';
  }
  return name;
}

// A profile that its own reader refuses is of no use: a source told nonsense.
void read_back(const std::string& text, const CommonOptions& common) {
  const auto findings = read_health_profile("profile", text, names_of_checks()).findings;
  if (!has_errors(findings)) return;
  print_findings(findings, common);
  throw VerbEnd(internal_error, "no profile can be made of what was read: is this node healthy?");
}

void report_left_out(const LearnedProfile& learned, const HealthSources& sources,
                     const CommonOptions& common) {
  for (const HungSource& hung : sources.hung()) {
    notice("hung: " + hung.source + ": " + hung.why, common);
  }
  for (const std::string& one : learned.left_out) notice("skipped: " + one, common);
}

// A number that is missing on one device makes no floor.
void measure_floors(HealthSources& sources, const HealthLearnOptions& options,
                    HealthProfile& profile, const CommonOptions& common) {
  if (!options.measure) {
    return notice("skipped: minimums: how fast its devices are was not measured; --measure does",
                  common);
  }
  if (!sources.is_this_host()) {
    throw VerbEnd(usage_error, "--measure goes with this host alone, not with a recorded one");
  }
  MeasureWanted wanted;
  wanted.learns = true;
  wanted.disk = options.disk;
  wanted.force = options.force;
  const ProbeFigures measured = measure_node(sources, profile, wanted, common);
  if (!measured.busy.empty()) {
    notice("measured on a host that is not idle (" + measured.busy + "): minimums are low", common);
  }
  learn_floors(worst_values(measured.samples), profile);
  for (const PerformanceSample& one : measured.samples) {
    if (!one.value) notice("skipped: minimums: " + one.metric + ": " + one.error, common);
  }
}

}  // namespace

HealthProfile profile_of(const ShippedProfile& shipped) {
  return read_health_profile(std::string(shipped.name), shipped.text, names_of_checks()).profile;
}

Error unknown_profile(const std::string& typed) {
  std::vector<std::string> names;
  for (const ShippedProfile& each : shipped_profiles()) names.emplace_back(each.name);
  return Error{"there is no health profile '" + typed + "'; " +
               did_you_mean(typed, names, "`muster health profiles` lists them, or name a file")};
}

Result<HealthProfile> named_profile(const std::string& typed, const CommonOptions& common,
                                    bool alone) {
  if (alone || names_file(typed)) return profile_in(typed, alone, common);
  const ShippedProfile* shipped = find_shipped_profile(typed);
  if (shipped == nullptr) return unknown_profile(typed);
  return profile_of(*shipped);
}

HealthProfile profile_by_sources(HealthSources& sources, const std::string& before,
                                 const std::string& hint, const CommonOptions& common) {
  ChosenProfile chosen = choose_profile(kind_of(sources), before);
  if (!chosen.why_none.empty()) notice(chosen.why_none + hint, common);
  return std::move(chosen.profile);
}

NodeKind kind_of(HealthSources& sources) {
  NodeReadRequest request;
  request.sources.push_back(std::string(gpu_folders) + "/*/information");
  for (const char* one : {vendor_file, product_file, cloud_metadata}) {
    request.sources.emplace_back(one);
  }
  for (const std::string_view one : infiniband_state_sources()) request.sources.emplace_back(one);
  const NodeReadings files = sources.read(request);
  NodeKind kind;
  const FileReading& devices = files.files.reading(infiniband_root);
  if (devices.ok() || devices.is_missing) kind.ports = judged_ports_of(files.files);
  kind.sku = size_of(files.files.text(cloud_metadata).value_or(""));
  kind.vendor = files.files.text(vendor_file).value_or("");
  kind.product = files.files.text(product_file).value_or("");
  if (know_gpus(files.files, kind)) return kind;
  NodeReadRequest asking;
  asking.gpus = GpuReadingScope{.processes = false, .inforom = false};
  const NodeReadings answers = sources.read(asking);
  if (!answers.gpus) return kind;
  kind.gpu_count = answers.gpus->count();
  std::vector<std::string> models;
  for (int gpu = 0; gpu < kind.gpu_count; ++gpu) {
    const auto name = answers.gpus->text("gpu" + std::to_string(gpu) + ".name");
    if (name) models.emplace_back(*name);
  }
  note_models(models, kind);
  return kind;
}

ChosenProfile choose_profile(const NodeKind& kind, const std::string& before) {
  const auto chosen = choose_shipped_profile(kind);
  const ShippedProfile* earlier = still_fitting_profile(before, kind);
  // More may be known than at that time.
  const bool is_kept = earlier != nullptr && (!chosen || !is_for_all_makers(*earlier));
  if (is_kept) return {profile_of(*earlier), {}};
  if (chosen) return {profile_of(**chosen), {}};
  return {{}, chosen.error().message};
}

int learn_health(const HealthSourcesOptions& where, const HealthLearnOptions& options,
                 const CommonOptions& common) {
  HealthSources sources(where);
  const std::string name = options.name.empty() ? profile_name(sources.host()) : options.name;
  LearnedProfile learned = learn_profile(sources.read(learning_request()), name);
  measure_floors(sources, options, learned.profile, common);
  const std::string text = write_health_profile(learned.profile);
  read_back(text, common);
  report_left_out(learned, sources, common);
  if (options.file.empty()) {
    write_all(Stream::out, text);
    return 0;
  }
  write_new_file(options.file, text);
  notice("wrote " + options.file + "; next: muster health --profile " + options.file, common);
  return 0;
}

}  // namespace muster
