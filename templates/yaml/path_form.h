// What kind of place a path in a job file names. Pure text, nothing is looked up.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "scheduler/model/job_spec.h"

namespace muster {

struct PathForm {
  PathKind kind = PathKind::none;
  std::string path;  // `file:` and doubled `azureml:` prefixes removed; local ones not yet absolute
};

// nullopt: a scheme that is not known.
std::optional<PathForm> path_form(std::string_view text);

// Absolute and without `.`, `..` or a trailing slash. Text only: links are not followed.
std::string absolute_path(const std::string& path, const std::string& directory);
std::string directory_of(const std::string& absolute_path);
std::string file_name_of(const std::string& absolute_path);

// `azureml:<name>`, `azureml:<name>:<version>` or `azureml:<name>@<label>`.
bool is_asset_reference(std::string_view text);

// The `azureml:N:V` that `azureml:/subscriptions/…/{codes,data,…}/N/versions/V` means, as Azure ML
// prints it; empty for anything else.
std::string asset_of_resource_id(std::string_view text);

}  // namespace muster
