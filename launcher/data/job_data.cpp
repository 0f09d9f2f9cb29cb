#include "launcher/data/job_data.h"

#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "launcher/data/secrets.h"
#include "launcher/data/store_config.h"
#include "launcher/os/read_file.h"
#include "launcher/wire/json_fields.h"

namespace muster {
namespace {

constexpr int job_data_version = 1;

}  // namespace

std::filesystem::path job_data_file(const std::filesystem::path& job_directory) {
  return job_directory / "data.json";
}

Status save_job_data(const std::filesystem::path& job_directory, const JobData& data) {
  const auto file = job_data_file(job_directory);
  if (replace_file(file, versioned_json(data, job_data_version), 0600, Durable::on_disk)) {
    return Done{};
  }
  return Error{"cannot write " + file.string() + ": " + std::strerror(errno)};
}

Result<JobData> load_job_data(const std::filesystem::path& job_directory) {
  const auto file = job_data_file(job_directory);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return JobData{};
  auto data = read_versioned_json<JobData>(text_of_file(file), job_data_version);
  if (!data) return Error{"cannot read " + file.string() + ": " + data.error().message};
  return data;
}

Result<std::vector<StagedData>> staged_data(const std::filesystem::path& home,
                                            const JobData& data) {
  std::vector<StagedData> all;
  for (const JobInput& input : data.inputs) {
    const auto credentials = load_secrets(home, input.place.store);
    if (!credentials) return credentials.error();
    const auto config = rclone_config(input.place.store, *credentials);
    if (!config) return config.error();
    StagedData staged{input.input, input.manifest, *config,
                      rclone_place(input.place.store, root_of(input.place))};
    staged.cache = data.cache.shared.empty() ? data.cache.cache : data.cache.shared;
    staged.size = data.cache.size;
    staged.is_file = input.place.is_file;
    staged.how = input.how;
    staged.stage_below = data.cache.stage_below;
    staged.mount_cache = data.mount_cache;
    all.push_back(std::move(staged));
  }
  return all;
}

}  // namespace muster
