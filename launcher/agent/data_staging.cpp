#include "launcher/agent/data_staging.h"

#include <unistd.h>

#include <filesystem>

#include "launcher/os/read_file.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/blob_store.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// `inputs/<name>` of the job leads to the tree.
Status lead_to(const std::string& tree, const std::string& link) {
  std::error_code failure;
  fs::create_directories(fs::path(link).parent_path(), failure);
  const std::string made = link + ".new";
  ::unlink(made.c_str());
  if (!fs::is_symlink(link, failure)) fs::remove_all(link, failure);
  if (::symlink(tree.c_str(), made.c_str()) == 0 && ::rename(made.c_str(), link.c_str()) == 0) {
    return Done{};
  }
  return system_error("make " + link);
}

std::string cache_of(const StagedData& data, const RunDirectory& run) {
  return data.cache.empty() ? run.home + "/data" : data.cache;
}

}  // namespace

Result<std::vector<Fd>> hold_data(const StageTrees& request, const RunDirectory& run) {
  std::vector<Fd> held;
  for (const StagedData& data : request.data) {
    auto cache = DataCache::open(cache_of(data, run));
    if (!cache) return cache.error();
    auto lock = cache->hold(data.manifest);
    if (!lock) return Error{"the data of input '" + data.input + "' are just being removed"};
    held.push_back(std::move(*lock));
  }
  return held;
}

std::optional<StagingFailure> bring_data(const StageTrees& request, const BlobStore& store,
                                         const RunDirectory& run, const AttemptLayout& layout,
                                         const ChildTasks::Tell& tell) {
  for (const StagedData& data : request.data) {
    if (const std::string why = unsafe_path_reason(data.input);
        !why.empty() || data.input.find('/') != std::string::npos) {
      return StagingFailure{"the input's name cannot be used: " + why, true};
    }
    const StagedTree staged = stage_data(data, text_of_file(store.path_of(data.manifest)),
                                         cache_of(data, run), run.node.value, tell);
    if (staged.failure) return staged.failure;
    if (auto linked = lead_to(staged.path, layout.inputs + "/" + data.input); !linked) {
      return StagingFailure{linked.error().message};
    }
  }
  return std::nullopt;
}

}  // namespace muster
