#include "launcher/agent/image/unpacked.h"

#include <fcntl.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"

namespace muster {

std::string images_in(const std::string& home) {
  return home + "/images";
}

std::string unpacked_image(const std::string& images, const std::string& name) {
  return images + "/" + content_hash_of(name);
}

Result<std::map<std::string, std::string>> variables_of_image(const std::string& unpacked) {
  std::map<std::string, std::string> variables;
  const std::string text = text_of_file(unpacked + "/config.json");
  if (text.empty()) return variables;
  try {
    const nlohmann::json config = nlohmann::json::parse(text);
    for (const nlohmann::json& each : config.at("process").at("env")) {
      const std::string entry = each.get<std::string>();
      const std::size_t equals = entry.find('=');
      if (equals != entry.npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  } catch (const nlohmann::json::exception& broken) {
    return Error{unpacked + "/config.json: " + broken.what()};
  }
  return variables;
}

Status make_mount_points(const std::string& root,
                         const std::vector<std::pair<std::string, bool>>& points) {
  const Fd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const auto& [point, is_file] : points) {
    const std::string_view path = std::string_view(point).substr(1);
    const auto [directory, name] = split_last_component(path);
    Fd made = open_directory_beneath(top, is_file ? directory : path, true);
    if (made && is_file) made = open_file_beneath(top, path, O_RDONLY | O_CREAT, 0644);
    if (!made && is_file && errno == ELOOP) continue;  // a link of the image's own: it stays
    if (!made) return system_error("make " + point + " in the unpacked image");
  }
  return Done{};
}

}  // namespace muster
