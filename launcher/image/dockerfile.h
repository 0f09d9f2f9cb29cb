// What an image is built of: the images that a Dockerfile begins with, the files that a build sees,
// and one hash of all of it. Pure, but for files that are read.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/staging/glob.h"
#include "scheduler/model/result.h"

namespace muster {

// The images behind FROM, with the defaults of ARG before it, in order, each once: without
// `scratch` and the names of earlier stages.
std::vector<std::string> base_images(std::string_view dockerfile);
// With these for those.
std::string with_base_images(std::string_view dockerfile,
                             const std::map<std::string, std::string>& others);

// The lines of a .dockerignore: the last that a path, or a directory around it, fits decides.
class DockerIgnore {
 public:
  explicit DockerIgnore(std::string_view text);
  bool leaves_out(std::string_view path) const;

 private:
  struct Line {
    Glob glob;
    bool keeps = false;
  };
  std::vector<Line> lines_;
};

// Of the files' names, modes and contents, as far as the build sees them, and of `dockerfile`:
// equal where an image built before is the same.
Result<std::string> build_hash(const std::filesystem::path& context, std::string_view dockerfile);

// That puts a conda environment into an image.
std::string conda_dockerfile(const std::string& image);

}  // namespace muster
