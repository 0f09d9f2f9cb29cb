#include "cli/job/staging.h"

#include <algorithm>

namespace muster {

bool seen_by_nodes(const std::string& path, const ComputeTarget& target) {
  const bool all_here =
      std::all_of(target.nodes.begin(), target.nodes.end(),
                  [](const NodeAddress& node) { return node.transport == TransportKind::local; });
  if (all_here) return true;
  if (target.shared_root.empty()) return false;
  const std::string root =
      target.shared_root.back() == '/' ? target.shared_root : target.shared_root + "/";
  return path == target.shared_root || path.starts_with(root);
}

std::vector<SnapshotRequest> sources_of(const JobSpec& spec, const ComputeTarget& target) {
  std::vector<SnapshotRequest> requests;
  if (!spec.code.empty()) requests.push_back({.source = spec.code, .place = "code"});
  for (const auto& [name, input] : spec.inputs) {
    if (input.is_literal || input.path_kind != PathKind::local) continue;
    const bool in_place = input.mode != InputMode::download && seen_by_nodes(input.path, target);
    if (in_place || input.mode == InputMode::direct) continue;
    SnapshotRequest request;
    request.source = input.path;
    request.place = "inputs/" + name;
    request.writable = false;
    request.honour_ignore_files = false;
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<Staged> stage_sources(const Home& home, const JobSpec& spec, const ComputeTarget& target) {
  Staged staged;
  const auto requests = sources_of(spec, target);
  if (requests.empty()) return staged;
  const auto store = BlobStore::open(home.blobs());
  if (!store) return store.error();
  for (const SnapshotRequest& request : requests) {
    auto snapshot = take_snapshot(request, *store);
    if (!snapshot) return snapshot.error();
    staged.trees.push_back(std::move(snapshot->tree));
    for (std::string& warning : snapshot->warnings) staged.warnings.push_back(std::move(warning));
  }
  return staged;
}

}  // namespace muster
