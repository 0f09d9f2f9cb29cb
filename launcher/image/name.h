// Names of images: what a job file says, what a registry is asked for, what a node runs. Pure.
//
//   python -> docker.io/library/python:latest -> registry.lab:5000/hub/library/python:latest
//   REPOSITORY[:TAG][@sha256:HEX], where REPOSITORY begins with the registry's host
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/job_spec.h"

namespace muster {

// As docker takes it; podman knows no short names.
std::string whole_image_name(const std::string& image);

// The following take whole names.

inline std::string registry_of(const std::string& name) {  // docker.io, host:5000
  return name.substr(0, name.find('/'));
}
// No registry has it: it is on a machine, or is not.
inline bool is_of_no_registry(const std::string& name) {
  return registry_of(name) == "localhost";
}
std::string repository_of(const std::string& name);
inline std::string digest_in(const std::string& name) {  // sha256:<hex>; empty: there is none
  const std::size_t at = name.find('@');
  return at == name.npos ? "" : name.substr(at + 1);
}
inline std::string with_digest(const std::string& name, const std::string& digest) {
  return repository_of(name) + "@" + digest;
}
// The longest beginning that has a mirror is replaced.
std::string mirrored(const std::string& name, const std::map<std::string, std::string>& mirrors);
bool is_image_allowed(const std::string& name, const std::vector<std::string>& patterns);

// Of JobSpec::recorded: nodes that cannot reach the registry get the image from the controller.
inline constexpr const char* image_pull_key = "containers.pull";

// sha256: and 64 hex digits.
bool is_image_digest(std::string_view text);

// What a node runs once the image is there, however it came: under this name nothing else is
// pulled, and what a tag means elsewhere does not matter. Without a digest: the name itself.
std::string name_on_node(const std::string& name, const std::string& digest);
// Its whole name, as nodes ask for it.
std::string pulled_image(const EnvironmentSpec& environment);

}  // namespace muster
