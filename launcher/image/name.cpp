#include "launcher/image/name.h"

#include <algorithm>

#include "launcher/staging/content_hash.h"
#include "scheduler/text/pattern.h"

namespace muster {

namespace {

constexpr std::string_view algorithm = "sha256:";

}  // namespace

std::string whole_image_name(const std::string& image) {
  const std::size_t slash = image.find('/');
  const std::string first = image.substr(0, slash);
  const bool has_registry =
      slash != image.npos && (first.find_first_of(".:") != first.npos || first == "localhost");
  std::string whole = has_registry ? image : "docker.io/" + image;
  if (!has_registry && slash == image.npos) whole = "docker.io/library/" + image;
  const std::string last = whole.substr(whole.rfind('/'));
  return last.find_first_of(":@") == last.npos ? whole + ":latest" : whole;
}

std::string repository_of(const std::string& name) {
  const std::string plain = name.substr(0, name.find('@'));
  const std::size_t colon = plain.rfind(':');
  return colon == plain.npos || colon < plain.rfind('/') ? plain : plain.substr(0, colon);
}

std::string mirrored(const std::string& name, const std::map<std::string, std::string>& mirrors) {
  std::string longest;
  for (const auto& [beginning, other] : mirrors) {
    const bool is_longer = beginning.size() > longest.size();
    if (is_longer && name.starts_with(beginning)) longest = beginning;
  }
  return longest.empty() ? name : mirrors.at(longest) + name.substr(longest.size());
}

bool is_image_allowed(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return fits_pattern(pattern, name);
         });
}

bool is_image_digest(std::string_view text) {
  return text.starts_with(algorithm) && is_content_hash(text.substr(algorithm.size()));
}

std::string name_on_node(const std::string& name, const std::string& digest) {
  if (digest.empty()) return name;
  return "localhost/muster/image:" + digest.substr(algorithm.size());
}

std::string pulled_image(const EnvironmentSpec& environment) {
  const std::string& name = environment.pull_name;
  return name.empty() ? whole_image_name(environment.image) : name;
}

}  // namespace muster
