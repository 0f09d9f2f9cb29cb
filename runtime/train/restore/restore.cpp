#include "runtime/train/restore/restore.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <variant>
#include <vector>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/grading.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/start_error.h"
#include "runtime/train/restore/resume_offer.h"
#include "runtime/train/save/save.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t verify_elements = 1 << 20;
constexpr const char* no_checkpoint = ": no such checkpoint";

std::string root_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

// What was asked for, the same on every rank.
struct NoResume {};
struct ResumeNewest {
  std::string root;
  bool needed = false;  // there must be one
  CheckpointGrade at_least = CheckpointGrade::committed;
};
struct ResumeThis {
  std::string path;
};
using Wish = std::variant<NoResume, ResumeNewest, ResumeThis>;

// Throws StartError.
Wish read_wish(const TrainOptions& options, const RankVariables& variables) {
  const std::string asked = variables.resume_from.empty() ? options.resume : variables.resume_from;
  const std::string root = checkpoint_root(options, variables);
  if (asked.empty() || asked == "none") return NoResume{};
  if (asked == "auto" || asked == "certified") {
    if (root.empty()) {
      throw StartError("--resume " + asked + ": there is no checkpoint directory");
    }
    return ResumeNewest{normal_path(root), false,
                        asked == "auto" ? CheckpointGrade::committed : CheckpointGrade::certified};
  }
  const std::string path = normal_path(asked);
  const bool is_checkpoint =
      parse_checkpoint_directory_name(fs::path(path).filename().string()).has_value();
  return is_checkpoint ? Wish(ResumeThis{path}) : Wish(ResumeNewest{path, true});
}

// All ranks look for the same kind of thing, in directories that may differ.
Wish agreed_wish(const TrainOptions& options, const RankVariables& variables, Communicator& ranks) {
  const Wish wish = on_all_ranks(ranks, [&] { return read_wish(options, variables); });
  const auto kinds = ranks.gather_texts(std::to_string(wish.index()));
  if (std::ranges::count(kinds, kinds[0]) != std::ssize(kinds)) {
    throw StartError("--resume or MUSTER_RESUME_FROM differs between the ranks");
  }
  return wish;
}

// The checkpoint to load, and the rank that has it for certain.
struct Source {
  std::size_t rank = 0;
  std::string path;  // on that rank
};

// Every rank looks; nothing is found only when there is nothing anywhere. A start from the
// beginning in spite of checkpoints would put all of them off the lineage.
std::optional<Source> find_newest(const ResumeNewest& wish, Communicator& ranks,
                                  std::vector<std::string>& remarks) {
  const auto offers = gather_values(ranks, find_offer(wish.root, wish.at_least));
  const auto chosen = choose_offer(offers);
  const std::string complaint = complaint_of(offers);
  if (chosen) {
    std::ranges::move(passed_over(offers, chosen->name), std::back_inserter(remarks));
    const std::string path = wish.root + "/" + checkpoint_directory_name(chosen->name);
    return Source{chosen->rank, ranks.gather_texts(path)[chosen->rank]};
  }
  if (!complaint.empty()) {
    throw StartError(wish.root + ": " + complaint +
                     "; repair it, or name a checkpoint, or start again with --resume none");
  }
  std::error_code code;
  const std::string lack =
      fs::is_directory(wish.root, code) ? "holds no usable" : "no such directory, no";
  const std::string complaint_of_0 =
      wish.root + ": " + lack + " checkpoint on the node of any rank";
  if (wish.needed) throw StartError(from_rank_0(ranks, complaint_of_0));
  return std::nullopt;
}

Checked<std::string> look_at(const std::string& path) {
  std::error_code code;
  if (!fs::exists(path + "/" + checkpoint_manifest_name, code)) {
    return CheckpointFault{path + no_checkpoint};
  }
  if (const auto manifest = read_manifest(path); !manifest) {
    return CheckpointFault{path + ": " + manifest.reason()};
  }
  if (std::holds_alternative<CheckpointQuarantine>(standing_of_checkpoint(path))) {
    return CheckpointFault{path + ": is quarantined"};
  }
  return path;
}

// A launcher names the one it found; what is newer beside it is told here.
void report_passed_over(const std::string& path, std::vector<std::string>& remarks) {
  const auto chosen = parse_checkpoint_directory_name(fs::path(path).filename().string());
  const ResumeOffer beside = find_offer(root_of(path));
  std::ranges::move(passed_over({&beside, 1}, *chosen), std::back_inserter(remarks));
}

// The first rank that has it in order.
Source find_this(const ResumeThis& wish, Communicator& ranks) {
  const auto mine = look_at(wish.path);
  const auto views = ranks.gather_texts(mine ? "+" + mine.value() : "-" + mine.reason());
  std::string complaint;
  for (std::size_t r = 0; r < views.size(); ++r) {
    if (views[r].starts_with('+')) return {r, views[r].substr(1)};
    if (complaint.empty() || complaint.ends_with(no_checkpoint)) {
      complaint = views[r].substr(1);
    }
  }
  const bool many = ranks.size() > 1 && complaint.ends_with(no_checkpoint);
  throw StartError("cannot resume from " + complaint +
                   (many ? " on the node of any rank: share it between the nodes, or let the node "
                           "that holds it take part"
                         : ""));
}

// Sends the manifest of the source to all.
Restored announce(const Source& source, Communicator& ranks) {
  Checked<std::string> mine = std::string();
  if (ranks.rank() == source.rank) {
    mine = read_checkpoint_text(source.path + "/" + checkpoint_manifest_name, manifest_limit_bytes);
  }
  const auto texts = needed(gather_checked(ranks, mine));
  return {source.path, needed(parse_manifest(texts[source.rank]), source.path + ": "), source.rank};
}

Checked<std::string> load_own_part(const Restored& from, Communicator& ranks,
                                   TrainingState& state) {
  PlaneSource source(from.path, from.manifest, from.source_rank, ranks);
  const auto master = source.fill(0, state.owned, state.own(state.weights));
  const auto first = source.fill(1, state.owned, state.own(state.exp_avg));
  const auto second = source.fill(2, state.owned, state.own(state.exp_avg_sq));
  for (const auto* part : {&master, &first, &second}) {
    if (!*part) return part->fault();
  }
  std::uint64_t hash = 0;
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    hash += plane_hash(plane, state.owned.lo, state.own_planes()[plane]);
  }
  return std::to_string(hash);
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
  gather_copies(from.manifest.flat, ranks, state);
  state.step = from.manifest.step;
  static_cast<LossHistory&>(state) = from.manifest.train;
  return NoValue{};
}

// Whether what is stored is bad, as opposed to a node that cannot read it now.
bool is_damaged(const Restored& from) {
  CheckpointReader reader(from.path, from.manifest);
  std::vector<float> values(verify_elements);
  std::uint64_t sum = 0;
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    for (std::uint64_t at = 0; at < from.manifest.flat.numel; at += values.size()) {
      const std::size_t count =
          std::min<std::uint64_t>(values.size(), from.manifest.flat.numel - at);
      const auto piece = std::span(values).first(count);
      const auto got = reader.read(plane, at, piece);
      if (!got) return got.fault().content_is_wrong;
      sum += plane_hash(plane, at, piece);
    }
  }
  return sum != from.manifest.state_hash;
}

// The source rank only: keeps a damaged checkpoint from being chosen again. Returns what was done,
// for the message.
std::string set_aside(const Restored& from, const std::string& evidence) {
  if (!is_damaged(from)) return "";
  const std::string name = fs::path(from.path).filename().string();
  const auto done = quarantine_checkpoint(root_of(from.path), {name, "integrity", 0}, evidence);
  return done ? " (quarantined)" : " (cannot be quarantined: " + done.reason() + ")";
}

constexpr std::uint64_t broadcast_elements = 1 << 20;

}  // namespace

std::optional<Restored> restore_checkpoint(const RestoreTarget& target,
                                           const RankVariables& variables, Communicator& ranks,
                                           TrainingState& state,
                                           std::vector<std::string>& remarks) {
  const Wish wish = agreed_wish(target.options, variables, ranks);
  if (std::holds_alternative<NoResume>(wish)) return std::nullopt;
  while (true) {
    const auto* this_one = std::get_if<ResumeThis>(&wish);
    const auto source = this_one != nullptr
                            ? std::optional(find_this(*this_one, ranks))
                            : find_newest(std::get<ResumeNewest>(wish), ranks, remarks);
    if (!source) return std::nullopt;
    if (this_one != nullptr && ranks.rank() == 0) report_passed_over(source->path, remarks);
    Restored from = announce(*source, ranks);
    const std::string conflict = resume_conflict(target, from.manifest, remarks);
    if (!conflict.empty()) throw StartError("cannot resume from " + from.path + ": " + conflict);
    const auto loaded = load(from, ranks, state);
    if (loaded) return from;
    const std::string fate = ranks.rank() == source->rank ? set_aside(from, loaded.reason()) : "";
    const std::string verdict = ranks.gather_texts(fate)[source->rank];
    const std::string complaint = loaded.reason() + verdict;
    if (this_one != nullptr || verdict != " (quarantined)") {
      throw StartError("cannot resume: " + complaint);
    }
    remarks.push_back(complaint + "; an older checkpoint is tried");
  }
}

PlaneSource::PlaneSource(const std::string& path, const Manifest& manifest, std::size_t source_rank,
                         Communicator& ranks)
    : reader_(path, manifest),
      numel_(manifest.flat.numel),
      source_rank_(source_rank),
      ranks_(ranks) {
  // Another node may hold another checkpoint under the same name.
  const auto seen = read_manifest(path);
  const bool sees_files = seen && format_manifest(seen.value()) == format_manifest(manifest);
  for (const std::string& vote : ranks.gather_texts(sees_files ? "+" : "-")) {
    direct_ = direct_ && vote == "+";
  }
}

Checked<NoValue> PlaneSource::fill(std::size_t plane, const ElementRange& range,
                                   std::span<float> out) {
  return direct_ ? reader_.read(plane, range.lo, out) : receive(plane, range, out);
}

Checked<NoValue> PlaneSource::receive(std::size_t plane, const ElementRange& range,
                                      std::span<float> out) {
  Checked<NoValue> outcome = NoValue{};
  std::vector<float> piece;
  for (std::uint64_t at = 0; at < numel_; at += piece.size()) {
    piece.assign(std::min(broadcast_elements, numel_ - at), 0.0f);
    if (ranks_.rank() == source_rank_ && outcome.ok()) outcome = reader_.read(plane, at, piece);
    ranks_.broadcast({reinterpret_cast<char*>(piece.data()), piece.size() * sizeof(float)},
                     source_rank_);
    const std::uint64_t lo = std::max(at, range.lo);
    const std::uint64_t hi = std::min(at + piece.size(), range.hi);
    if (lo < hi) std::copy_n(&piece[lo - at], hi - lo, &out[lo - range.lo]);
  }
  return outcome;
}

}  // namespace muster
