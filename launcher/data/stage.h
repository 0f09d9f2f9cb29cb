// Data of one input onto this node: what the cache lacks is fetched, verified and kept, and a tree
// of it stands there. Blocking, for a child process that may be killed at any point: what was
// verified until then is not fetched again.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launcher/data/manifest.h"
#include "launcher/wire/agent_message.h"

namespace muster {

using TellData = std::function<void(std::string_view doing)>;

struct StagingFailure {
  std::string message;
  bool is_lasting = false;  // it would fail on every node: the data are not what was listed
};

struct StagedTree {
  std::string path;
  std::optional<std::int64_t> stream_cache{};  // not staged but to be mounted, with so many bytes
  std::optional<StagingFailure> failure{};
  std::int64_t fetched_bytes = 0;
};

// `manifest` is the text of the list that `data.manifest` names; `node` is for sentences.
StagedTree stage_data(const StagedData& data, std::string_view manifest,
                      const std::string& cache_directory, const std::string& node,
                      const TellData& tell);

}  // namespace muster
