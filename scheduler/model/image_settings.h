// What a site says about images: `containers`, `mirrors` and `environments` of its cluster file.
// Plain values; made by templates/cluster, used on the submitter's machine alone.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace muster {

// Who fetches an image from its registry: each node, or the submitter for all of them; or the
// nodes, and the submitter where they cannot reach it.
enum class ImageBringer { automatic, nodes, controller };

struct ImageSettings {
  std::vector<std::string> allow{};  // patterns of whole names; empty: every image
  ImageBringer pull = ImageBringer::automatic;
  std::map<std::string, std::string> mirrors{};       // beginnings of whole names
  std::map<std::string, std::string> environments{};  // NAME[:VERSION] -> an image, or `host`
  bool refuses_unknown_environments = false;
  std::string runtime{};  // of containers; empty: whichever a node has
};

}  // namespace muster
