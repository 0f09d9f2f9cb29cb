#include "launcher/image/registry.h"

#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/image/name.h"
#include "launcher/os/child.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

using Json = nlohmann::json;

// As registries name the machine's kind.
std::string platform() {
  utsname names{};
  ::uname(&names);
  const std::string machine = names.machine;
  if (machine == "x86_64") return "amd64";
  return machine == "aarch64" ? "arm64" : machine;
}

std::int64_t size_in(const Json& part) {
  const auto size = part.value("size", std::int64_t{0});
  return std::clamp(size, std::int64_t{0}, std::int64_t{1} << 50);
}

std::string fitting(const Json& list) {
  for (const Json& each : list) {
    const Json kind = each.value("platform", Json::object());
    const bool fits = kind.value("os", "") == "linux" &&
                      kind.value("architecture", "") == platform() &&
                      is_image_digest(each.value("digest", ""));
    if (fits) return each.value("digest", "");
  }
  return {};
}

Result<std::string> manifest_of(const std::string& name, Milliseconds limit) {
  return run_within({"skopeo", "inspect", "--raw", "docker://" + name}, limit);
}

RegistryAnswer why_not(const std::string& name, const Error& failed) {
  const std::string words = plain_words(failed.message);
  if (is_about_image(words)) {
    return ImageRefused{"the registry " + registry_of(name) + " does not give " + name + ": " +
                        words};
  }
  return RegistryUnknown{words};
}

}  // namespace

RegistryAnswer ask_registry(const std::string& name, Milliseconds limit) {
  const auto text = manifest_of(name, limit);
  if (!text) return why_not(name, text.error());
  const auto manifest = read_image_manifest(*text);
  if (!manifest) return RegistryUnknown{manifest.error().message};
  RegistryImage found{"sha256:" + content_hash_of(*text), manifest->bytes};
  if (!manifest->is_list) return found;
  if (manifest->other.empty()) {
    return ImageRefused{name + " has no image for linux/" + platform()};
  }
  const auto chosen = manifest_of(with_digest(name, manifest->other), limit);
  const auto size = chosen ? read_image_manifest(*chosen) : chosen.error();
  if (size) found.bytes = size->bytes;
  return found;
}

Result<ImageManifest> read_image_manifest(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    ImageManifest manifest;
    if (json.contains("manifests")) {
      manifest.is_list = true;
      manifest.other = fitting(json.at("manifests"));
      return manifest;
    }
    if (json.contains("config")) manifest.bytes = size_in(json.at("config"));
    for (const Json& layer : json.value("layers", Json::array())) manifest.bytes += size_in(layer);
    return manifest;
  } catch (const Json::exception&) {
    return Error{"the registry's answer is not a manifest"};
  }
}

bool is_about_image(std::string_view said) {
  constexpr std::string_view signs[] = {"manifest unknown",
                                        "name unknown",
                                        "access denied",
                                        "is denied",
                                        "denied: ",
                                        "unauthorized",
                                        "invalid username/password",
                                        "image not known",
                                        "no image found in",
                                        "no matching manifest",
                                        "invalid reference format",
                                        "no image with name",
                                        "repository does not exist"};
  return std::ranges::any_of(signs, [&](std::string_view sign) { return mentions(said, sign); });
}

std::string plain_words(std::string_view said) {
  constexpr std::size_t most_lines = 20, most_bytes = 400;
  std::string words;
  for (const std::string& line : last_utf8_lines(said, most_lines)) {
    if (!mentions(line, "level=warning")) words += (words.empty() ? "" : ": ") + line;
  }
  for (std::size_t at = 0; (at = words.find('?', at)) != words.npos; ++at) {
    const std::size_t end = std::min(words.find_first_of(" \"'\\", at), words.size());
    words.erase(at, end - at);
  }
  constexpr std::string_view fatal = "level=fatal msg=\"";
  if (const auto at = words.rfind(fatal); at != words.npos) {
    words.erase(0, at + fatal.size());
    if (words.ends_with('"')) words.pop_back();
  }
  return shortened(without_controls(replaced(words, "\\\"", "'")), most_bytes);
}

}  // namespace muster
