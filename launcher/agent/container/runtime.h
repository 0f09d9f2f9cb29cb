// What podman and docker are told. They make the place and nothing else: environment, words, output
// and ends of the ranks pass by them (holder.h). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

struct ContainerPlace {
  std::string image;
  std::string name;
  std::string shm_size;               // 2g
  std::string holder;                 // the directory that is /muster there
  std::vector<std::string> mounts{};  // directories that have the same path there
  std::vector<std::pair<std::string, std::string>> files{};  // of the host, and what they are there
  bool has_gpus = false;
  bool has_infiniband = false;
};

enum class ContainerRuntime { podman, docker };

// The first that is in a PATH-like list.
Result<ContainerRuntime> runtime_in(const std::string& path_list);

std::vector<std::string> run_words(ContainerRuntime runtime, const ContainerPlace& place);
std::vector<std::string> remove_words(ContainerRuntime runtime, const std::string& name);

// "python" is docker.io/library/python:latest, which only docker knows by itself.
std::string whole_image_name(const std::string& image);

// Whether every node would fail in the same way: of what a runtime says about an image that does
// not exist, or not for this account.
bool is_about_image(std::string_view said);

}  // namespace muster
