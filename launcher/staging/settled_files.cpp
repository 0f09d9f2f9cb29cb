#include "launcher/staging/settled_files.h"

#include <cerrno>
#include <fstream>

#include "launcher/os/read_file.h"
#include "launcher/staging/escaped_name.h"
#include "launcher/staging/stage_error.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr int settled_files_version = 1;

}  // namespace

Status save_settled(const fs::path& file, const SettledFiles& settled) {
  Json files = Json::object();
  for (const auto& [path, content] : settled) files[escaped(path)] = escaped(content);
  const Json json = {{"version", settled_files_version}, {"files", std::move(files)}};
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  if (replace_file(file, json.dump() + '\n', 0600, Durable::on_disk)) return Done{};
  return stage_error("write", file, errno);
}

Result<SettledFiles> load_settled(const fs::path& file) {
  std::error_code absent;
  if (!fs::exists(file, absent)) return SettledFiles{};
  std::ifstream in(file, std::ios::binary);
  if (!in) return stage_error("read", file, errno);
  try {
    const Json json = Json::parse(in);
    if (json.at("version").get<int>() > settled_files_version) {
      return Error{"'" + file.string() + "' was written by a newer muster"};
    }
    SettledFiles settled;
    for (const auto& [path, content] : json.at("files").items()) {
      settled[unescaped(path)] = unescaped(content.get<std::string>());
    }
    return settled;
  } catch (const std::exception& failure) {
    return Error{"'" + file.string() + "' cannot be read: " + failure.what()};
  }
}

}  // namespace muster
