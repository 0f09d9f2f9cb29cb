#include "cli/health/record.h"

#include <algorithm>
#include <filesystem>

#include "cli/health/host.h"
#include "cli/health/profile.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "health/learn/profile.h"
#include "health/monitor/node_monitor.h"
#include "health/read/recording.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr const char* profile_file = "profile.yml";

// Recording into a folder of other files would mix them with sources.
Status make_empty(const std::string& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (!failed && fs::is_empty(directory, failed) && !failed) return Done{};
  return Error{"cannot record to " + directory + ": " +
               (failed ? failed.message() : "it is not empty")};
}

Result<HealthProfile> profile_for(const HealthRecordOptions& options, HealthSources& sources,
                                  const CommonOptions& common) {
  if (!options.profile.empty()) return named_profile(options.profile, common);
  ChosenProfile chosen = choose_profile(kind_of(sources), "");
  if (!chosen.why_none.empty()) notice(chosen.why_none, common);
  return std::move(chosen.profile);
}

std::string log_text(const std::vector<KernelLine>& lines) {
  std::string text;
  for (const KernelLine& line : lines) text += kmsg_text(line);
  return text.empty() ? "\n" : text;  // a log without lines is a log
}

// The log and the driver's answers are readings too: each goes where a recorded root has it.
SourceFiles files_of(HealthSources& sources) {
  SourceFiles files = sources.all().files;
  // It names the subscription and its users' keys.
  if (files.all().contains(cloud_metadata)) {
    files.add(cloud_metadata, FileReading{{}, "not recorded", true});
  }
  const std::string log = log_text(sources.kernel_lines());
  if (sources.log_error().empty()) {
    files.add(kernel_log_path, log);
  } else {
    files.add(kernel_log_path, FileReading{{}, sources.log_error(), false});
  }
  if (sources.all().gpus) files.add(recorded_nvml, write_gpu_readings(*sources.all().gpus));
  return files;
}

}  // namespace

Status record_sources(HealthSources& sources, const HealthProfile& profile,
                      const std::string& directory) {
  sources.read(learning_request());
  NodeMonitor monitor(profile, {.root = sources.root(), .nvml_library = {}});
  monitor.begin(sources.boot_id(), sources.now());
  CheckSituation situation;
  situation.may_pause = false;
  run_checks(monitor, sources, situation);
  return write_files(files_of(sources), directory);
}

int record_health(const HealthRecordOptions& options, const CommonOptions& common) {
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const auto empty = make_empty(options.directory);
  if (!empty) return complain(empty.error().message, internal, common);
  HealthSources sources(own_sources(options.root));
  const auto profile = profile_for(options, sources, common);
  if (!profile) {
    return complain(profile.error().message, static_cast<int>(ExitCode::invalid_job), common);
  }
  const auto written = record_sources(sources, *profile, options.directory);
  if (!written) return complain(written.error().message, internal, common);
  std::string replay = "muster health --root " + options.directory;
  if (!profile->name.empty()) {
    const std::string file = options.directory + "/" + profile_file;
    const int code = write_new_file(file, write_health_profile(*profile), common);
    if (code != 0) return code;
    replay += " --profile " + file;
  }
  notice(std::to_string(sources.all().files.all().size()) + " sources are in " + options.directory +
             ", with lines of the kernel's log; next: " + replay,
         common);
  return 0;
}

}  // namespace muster
