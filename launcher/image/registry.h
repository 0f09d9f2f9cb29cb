// A registry asked, by skopeo, for what a name means there; what the words of registries and of the
// programs that ask them say; and a user's login, as the files of docker and podman have it: the
// one entry that an image needs, for a node that pulls it. A secret: never in words of a program, a
// variable, a log or the journal. Blocking; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/staging/source_tree.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

struct RegistryImage {
  std::string digest;      // sha256:<hex>; of the list, where there is one for each platform
  std::int64_t bytes = 0;  // of what is fetched; 0: not known
};
// The user's error: no later try does better.
struct ImageRefused {
  std::string why;
};
// Nobody can be asked, or did not answer.
struct RegistryUnknown {
  std::string why;
};
using RegistryAnswer = std::variant<RegistryImage, ImageRefused, RegistryUnknown>;

// With the user's own logins, as skopeo finds them.
RegistryAnswer ask_registry(const std::string& name, Milliseconds limit);

// What a registry says an image is: an image or a list of them. `other`: the name of the one in
// the list that this platform takes, which is asked for its size. Pure.
struct ImageManifest {
  std::int64_t bytes = 0;
  bool is_list = false;
  std::string other{};  // sha256:<hex>; empty in a list: there is none for the platform
};
Result<ImageManifest> read_image_manifest(std::string_view text);

// Whether every node would fail in the same way: of what a runtime says about an image that does
// not exist, or not for this account.
bool is_about_image(std::string_view said);

// Whether the registry was not reached at all: refused, no way there, or no such name.
bool is_about_connection(std::string_view said);

// The last words of such a program in one line: without its retries, and without what follows the ?
// of an address, which may be a signature.
std::string plain_words(std::string_view said);

// Asks `docker-credential-<helper> get` about a server; the answer is its JSON.
using AskHelper =
    std::function<Result<std::string>(const std::string& helper, const std::string& server)>;

// {"auths": {"<registry>": {"auth": "…"}}} for this whole name; empty: the text has none. An Error:
// a helper was to be asked, and failed. Pure but for the helper.
Result<std::string> login_in(std::string_view text, const std::string& name, const AskHelper& ask);

// Of the user's own files; `limit` is of each helper. Empty: there is none.
Result<std::string> login_for(const std::string& name, Milliseconds limit);

// What an image is built of: the images that a Dockerfile begins with, the files that a build sees,
// and one hash of all of it. Pure, but for files that are read.

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
