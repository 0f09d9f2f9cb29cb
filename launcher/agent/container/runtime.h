// What the container runtimes are told. They make the place and nothing else: environment, words,
// output and ends of the ranks pass by them (container.h). Pure functions but for runtime_in.
//
// podman and docker keep images themselves; the others are given a directory, the unpacked image,
// which stays as it is: what is written besides the mounts is refused or lost.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

struct ContainerPlace {
  std::string image;  // that is there
  std::string name;
  std::string shm_size;               // 2g
  std::string holder;                 // the directory that is /muster there
  std::vector<std::string> mounts{};  // directories that have the same path there
  std::vector<std::pair<std::string, std::string>> files{};  // of the host, and what they are there
  bool has_gpus = false;
  bool has_infiniband = false;
  std::string root{};  // of an unpacked image
};

enum class ContainerRuntime { podman, docker, apptainer, enroot, charliecloud, bubblewrap };

// The first that is in a PATH-like list, or the wanted one; charliecloud and bubblewrap only where
// skopeo and umoci, which unpack images for them, are there too.
Result<ContainerRuntime> runtime_in(const std::string& path_list, const std::string& wanted);
bool keeps_images(ContainerRuntime runtime);

std::vector<std::string> run_words(ContainerRuntime runtime, const ContainerPlace& place);
// Empty: when its processes have ended nothing is left.
std::vector<std::string> remove_words(ContainerRuntime runtime, const std::string& name);

// What has to stand in an unpacked image to be mounted on, and whether it is a file.
std::vector<std::pair<std::string, bool>> mount_points(const ContainerPlace& place);

}  // namespace muster
