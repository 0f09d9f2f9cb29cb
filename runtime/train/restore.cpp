#include "runtime/train/restore.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "runtime/checkpoint/durable_file.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/train/plane_source.h"
#include "runtime/train/rank_vote.h"
#include "runtime/train/start_error.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t verify_elements = 1 << 20;

// One checkpoint to try: its path, or empty for a fresh start, and whether older ones may be tried
// after it.
struct Candidate {
  std::string path;
  bool may_step_back = false;
};

std::string normal_path(const std::string& path) {
  std::string text = fs::absolute(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string root_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

std::string reasons_of(const CheckpointSearch& search) {
  std::string text;
  for (const RejectedCheckpoint& rejected : search.rejected) {
    text += "; " + rejected.directory + ": " + rejected.reason;
  }
  return text;
}

Candidate newest_in(const std::string& root, bool needed) {
  const CheckpointSearch search = search_checkpoints(root);
  if (const FoundCheckpoint* newest = search.newest()) return {newest->path, true};
  if (needed) throw StartError(root + ": holds no usable checkpoint" + reasons_of(search));
  return {};
}

// Rank 0 only. Throws StartError.
Candidate choose_candidate(const TrainOptions& options, const RankVariables& variables) {
  const std::string asked = variables.resume_from.empty() ? options.resume : variables.resume_from;
  const std::string root =
      variables.checkpoint_dir.empty() ? options.checkpoint_dir : variables.checkpoint_dir;
  if (asked.empty() || asked == "none") return {};
  if (asked == "auto") {
    if (root.empty())
      throw StartError("--resume auto: there is no checkpoint directory to look in");
    return newest_in(normal_path(root), false);
  }
  const std::string path = normal_path(asked);
  if (!fs::is_directory(path)) throw StartError("resume from " + asked + ": no such directory");
  const auto name = parse_checkpoint_directory_name(fs::path(path).filename().string());
  return name ? Candidate{path, false} : newest_in(path, true);
}

Checked<std::string> offer(const Candidate& candidate) {
  if (candidate.path.empty()) return std::string();
  if (const auto manifest = read_manifest(candidate.path); !manifest) {
    return CheckpointFault{candidate.path + ": " + manifest.reason()};
  }
  const std::string name = fs::path(candidate.path).filename().string();
  if (is_certified_bad(candidate.path) ||
      read_resume_log(root_of(candidate.path)).quarantined.contains(name)) {
    return CheckpointFault{candidate.path + ": is quarantined"};
  }
  auto text =
      read_checkpoint_text(candidate.path + "/" + checkpoint_manifest_name, manifest_limit_bytes);
  if (!text) return text.fault();
  return candidate.path + "\n" + text.value();
}

Checked<std::string> load_own_part(const Restored& from, Communicator& ranks,
                                   TrainingState& state) {
  PlaneSource source(from.path, from.manifest, ranks);
  const auto own = std::span(state.weights).subspan(state.owned.lo, state.owned.size());
  const auto master = source.fill(0, state.owned, own);
  const auto first = source.fill(1, state.owned, state.exp_avg);
  const auto second = source.fill(2, state.owned, state.exp_avg_sq);
  for (const auto* part : {&master, &first, &second}) {
    if (!*part) return part->fault();
  }
  return std::to_string(plane_hash(0, state.owned.lo, own) +
                        plane_hash(1, state.owned.lo, state.exp_avg) +
                        plane_hash(2, state.owned.lo, state.exp_avg_sq));
}

// The values are right when the hashes of all parts add up to the manifest's.
Checked<NoValue> load(const Restored& from, Communicator& ranks, TrainingState& state) {
  const auto hashes = gather_checked(ranks, load_own_part(from, ranks, state));
  if (!hashes) return hashes.fault();
  std::uint64_t sum = 0;
  for (const std::string& hash : hashes.value()) sum += std::stoull(hash);
  if (sum != from.manifest.state_hash) {
    return CheckpointFault{from.path + ": the values do not match the state hash"};
  }
  std::vector<ElementRange> owned;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    owned.push_back(owned_elements(from.manifest.flat, r, ranks.size()));
  }
  ranks.all_gather(state.weights, owned);
  state.step = from.manifest.step;
  state.loss_ema = from.manifest.train.loss_ema;
  state.skipped_in_a_row = from.manifest.train.skipped_in_a_row;
  return NoValue{};
}

// Whether the files themselves are bad, as opposed to a node that cannot read them.
bool is_damaged(const Restored& from) {
  CheckpointReader reader(from.path, from.manifest);
  std::vector<float> values(verify_elements);
  std::uint64_t sum = 0;
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    for (std::uint64_t at = 0; at < from.manifest.flat.numel; at += values.size()) {
      const std::size_t count =
          std::min<std::uint64_t>(values.size(), from.manifest.flat.numel - at);
      const auto piece = std::span(values).first(count);
      if (!reader.read(plane, at, piece)) return true;
      sum += plane_hash(plane, at, piece);
    }
  }
  return sum != from.manifest.state_hash;
}

// Rank 0 only: keeps a damaged checkpoint from being chosen again. Returns what was done, for the
// message.
std::string set_aside(const Restored& from, const std::string& evidence) {
  if (!is_damaged(from)) return "";
  const std::string name = fs::path(from.path).filename().string();
  const auto done = quarantine_checkpoint(root_of(from.path), {name, "integrity", 0}, evidence);
  return done ? " (quarantined)" : " (cannot be quarantined: " + done.reason() + ")";
}

}  // namespace

std::optional<Restored> restore_checkpoint(const RestoreTarget& target,
                                           const RankVariables& variables, Communicator& ranks,
                                           TrainingState& state, std::string& remarks) {
  while (true) {
    Checked<std::string> mine = std::string();
    bool may_step_back = false;
    if (ranks.rank() == 0) {
      try {
        const Candidate candidate = choose_candidate(target.options, variables);
        may_step_back = candidate.may_step_back;
        mine = offer(candidate);
      } catch (const StartError& error) {
        mine = CheckpointFault{error.what()};
      }
    }
    const auto offers = gather_checked(ranks, mine);
    if (!offers) throw StartError(offers.reason());
    const std::string& text = offers.value().front();
    if (text.empty()) return std::nullopt;
    const std::size_t line_end = text.find('\n');
    auto manifest = parse_manifest(std::string_view(text).substr(line_end + 1));
    if (!manifest) throw StartError(manifest.reason());
    Restored from{text.substr(0, line_end), std::move(manifest.value())};
    const std::string conflict = resume_conflict(target, from.manifest, remarks);
    if (!conflict.empty()) throw StartError("cannot resume from " + from.path + ": " + conflict);
    const auto loaded = load(from, ranks, state);
    if (loaded) return from;
    const std::string fate = ranks.rank() == 0 ? set_aside(from, loaded.reason()) : "";
    const std::string verdict = from_rank_0(ranks, (may_step_back ? "+" : "-") + fate);
    const std::string complaint = loaded.reason() + verdict.substr(1);
    if (verdict != "+ (quarantined)") throw StartError("cannot resume: " + complaint);
    remarks += complaint + "; an older checkpoint is tried\n";
  }
}

}  // namespace muster
