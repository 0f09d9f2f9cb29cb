#include "templates/cluster/images.h"

#include <algorithm>
#include <iterator>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t most_image_names = 1000;

std::vector<std::string> read_allowed(const Value& value) {
  std::vector<std::string> patterns = value.texts();
  if (value.present() && patterns.empty()) value.error("expected at least one pattern of names");
  for (const std::string& pattern : patterns) {
    if (!is_word_of(pattern, "-_./:@*[]")) {
      value.error("expected a pattern of image names such as mcr.microsoft.com/*, got " +
                  quoted_text(pattern));
    }
  }
  return patterns;
}

std::map<std::string, std::string> read_names(const Value& value, std::string_view also,
                                              const char* expected) {
  std::map<std::string, std::string> names = value.text_map();
  if (names.size() > most_image_names) value.error("expected at most 1000 entries");
  for (const auto& [from, to] : names) {
    const bool is_plain = is_word_of(from, also) && is_word_of(to, "-_./:@") && to[0] != '-';
    if (!is_plain) value.error(expected + quoted_text(from) + ": " + quoted_text(to));
  }
  return names;
}

}  // namespace

ImageSettings read_images(MapReader& file) {
  ImageSettings images;
  MapReader containers(file.take("containers"));
  images.allow = read_allowed(containers.take("allow"));
  images.pull = containers.take("pull")
                    .choice<ImageBringer>(
                        {{"nodes", ImageBringer::nodes}, {"controller", ImageBringer::controller}})
                    .value_or(ImageBringer::nodes);
  const auto runtime = containers.take("runtime").word(
      {"auto", "podman", "docker", "apptainer", "enroot", "charliecloud", "bubblewrap"});
  if (runtime && *runtime != "auto") images.runtime = *runtime;
  containers.finish();
  images.mirrors = read_names(
      file.take("mirrors"), "-_./:", "expected beginnings of image names such as docker.io/, got ");
  images.environments = read_names(file.take("environments"), "-_./:*",
                                   "expected NAME[:VERSION] and an image or host, got ");
  images.refuses_unknown_environments = file.take("unknown_environment")
                                            .choice<bool>({{"host", false}, {"refuse", true}})
                                            .value_or(false);
  return images;
}

void add_images(ImageSettings& to, ImageSettings more) {
  std::ranges::move(more.allow, std::back_inserter(to.allow));
  if (to.pull == ImageBringer::nodes) to.pull = more.pull;
  if (to.runtime.empty()) to.runtime = more.runtime;
  to.mirrors.merge(more.mirrors);
  to.environments.merge(more.environments);
  to.refuses_unknown_environments |= more.refuses_unknown_environments;
}

}  // namespace muster
