#include "templates/yaml/path_form.h"

#include <algorithm>
#include <filesystem>

#include "scheduler/text/text.h"

namespace muster {
namespace {

bool is_http_url(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://");
}

bool is_storage_uri(std::string_view text) {
  const auto schemes = words_in("wasb:// wasbs:// abfs:// abfss:// adl:// s3:// gs://");
  return std::ranges::any_of(schemes, [&](auto scheme) { return text.starts_with(scheme); });
}

std::optional<PathKind> kind_of_azureml_uri(std::string_view rest) {
  if (rest.starts_with("registries/")) return PathKind::registry;
  if (rest.starts_with("jobs/")) return PathKind::job_output;
  if (rest.starts_with("datastores/")) return PathKind::datastore;
  if (!rest.starts_with("subscriptions/")) return std::nullopt;
  return mentions(rest, "/datastores/") ? PathKind::datastore : PathKind::asset;
}

bool has_scheme(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  return text.substr(0, colon).find_first_of("/. $") == std::string_view::npos;
}

bool is_name_part(std::string_view text) {
  return !text.empty() && text.find_first_of(" /:@${}<>") == std::string_view::npos;
}

}  // namespace

std::optional<PathForm> path_form(std::string_view text) {
  if (text.starts_with("file://")) return PathForm{PathKind::local, std::string(text.substr(7))};
  if (text.starts_with("file:")) return PathForm{PathKind::local, std::string(text.substr(5))};
  if (is_http_url(text)) return PathForm{PathKind::http, std::string(text)};
  if (is_storage_uri(text)) return PathForm{PathKind::datastore, std::string(text)};
  if (text.starts_with("runs:/")) return PathForm{PathKind::job_output, std::string(text)};
  if (text.starts_with("azureml://")) {
    const auto kind = kind_of_azureml_uri(text.substr(10));
    return kind ? std::optional(PathForm{*kind, std::string(text)}) : std::nullopt;
  }
  if (text.starts_with("azureml:")) {
    const std::string_view rest = text.substr(8);
    if (is_storage_uri(rest)) return PathForm{PathKind::datastore, std::string(rest)};
    if (is_http_url(rest)) return PathForm{PathKind::http, std::string(rest)};
    if (const std::string asset = asset_of_resource_id(text); !asset.empty()) {
      return PathForm{PathKind::asset, asset};
    }
    if (!is_asset_reference(text)) return std::nullopt;
    return PathForm{PathKind::asset, std::string(text)};
  }
  if (has_scheme(text)) return std::nullopt;
  return PathForm{PathKind::local, std::string(text)};
}

std::string absolute_path(const std::string& path, const std::string& directory) {
  const std::filesystem::path joined = std::filesystem::path(directory) / path;
  std::string out = joined.lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

std::string directory_of(const std::string& absolute_path) {
  const std::size_t slash = absolute_path.rfind('/');
  if (slash == std::string::npos || slash == 0) return "/";
  return absolute_path.substr(0, slash);
}

std::string file_name_of(const std::string& absolute_path) {
  return absolute_path.substr(absolute_path.rfind('/') + 1);
}

std::string asset_of_resource_id(std::string_view text) {
  if (!text.starts_with("azureml:/subscriptions/")) return "";
  const auto parts = words_in(text, "/");
  const std::size_t n = parts.size();
  if (n < 5 || parts[n - 2] != "versions") return "";
  const auto kinds = words_in("codes data models environments components");
  const bool known = std::ranges::count(kinds, parts[n - 4]) > 0;
  std::string asset = "azureml:" + std::string(parts[n - 3]) + ':' + std::string(parts[n - 1]);
  return known && is_asset_reference(asset) ? asset : "";
}

bool is_asset_reference(std::string_view text) {
  if (!text.starts_with("azureml:")) return false;
  const std::string_view rest = text.substr(8);
  const std::size_t mark = rest.find_first_of(":@");
  if (!is_name_part(rest.substr(0, mark))) return false;
  return mark == std::string_view::npos || is_name_part(rest.substr(mark + 1));
}

}  // namespace muster
