// What a job reads and writes in stores: `$MUSTER_HOME/jobs/<job>/data.json`, written at
// submission, read when its nodes are prepared and its outputs copied. No credentials are in it:
// they are in secrets.h, and are looked up whenever they are needed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/data/listing.h"
#include "launcher/wire/agent_message.h"

namespace muster {

struct JobInput {
  std::string input;
  std::string manifest;  // SHA-256 of the list: a blob
  PlaceInStore place;
  std::string how = "stage";  // StagedData::how

  MUSTER_FIELDS(input, manifest, place, how)
};

struct JobOutput {
  std::string output;
  PlaceInStore place;
  std::string asset_name{};  // registered when it is there; empty: not
  std::string asset_version{};
  std::string uri{};  // what the asset names

  MUSTER_FIELDS(output, place, asset_name, asset_version, uri)
};

struct JobData {
  std::vector<JobInput> inputs;
  std::vector<JobOutput> outputs;
  DataCacheSettings cache;
  std::string mount_cache{};  // StagedData::mount_cache

  bool empty() const { return inputs.empty() && outputs.empty(); }
  MUSTER_FIELDS(inputs, outputs, cache, mount_cache)
};

std::filesystem::path job_data_file(const std::filesystem::path& job_directory);
Status save_job_data(const std::filesystem::path& job_directory, const JobData& data);
// Empty where there is no file.
Result<JobData> load_job_data(const std::filesystem::path& job_directory);

// What nodes are told, with the credentials of the stores.
Result<std::vector<StagedData>> staged_data(const std::filesystem::path& home, const JobData& data);

}  // namespace muster
