#include "runtime/train/restore/restore.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/start_error.h"
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

// Whether the writer of `line` came with `mine` or after it.
bool is_passed(const GenerationLine& mine, const GenerationLine& line,
               std::uint64_t known_to_ranks) {
  if (line.run_id != mine.run_id) return false;
  if (mine.epoch && line.epoch) {
    return std::tie(*line.epoch, line.members_epoch) >= std::tie(*mine.epoch, mine.members_epoch);
  }
  return mine.members_epoch && line.members_epoch && line.generation > known_to_ranks &&
         *line.members_epoch >= *mine.members_epoch;
}

std::string complaint_about(const GenerationLine& mine, const GenerationLine& line) {
  if (mine.members_epoch && line.members_epoch && mine.epoch == line.epoch) {
    return "epoch " + std::to_string(*line.members_epoch) +
           " of the members has already written here, and this process is of epoch " +
           std::to_string(*mine.members_epoch) + " (MUSTER_MEMBERS): it must not write";
  }
  return "epoch " + std::to_string(line.epoch.value_or(0)) +
         " of this job has already written here, and this process carries epoch " +
         std::to_string(mine.epoch.value_or(0)) + " (MUSTER_EPOCH): it must not write";
}

// Another value of one of these is another run; of the rest, the same run continued differently.
bool decides_identity(const std::string& option) {
  return option == "layers" || option == "width" || option == "heads" || option == "context" ||
         option == "vocabulary" || option == "tied" || option == "batch" || option == "seed";
}

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

std::uint64_t highest_generation(const std::string& root, const std::optional<Restored>& restored,
                                 Communicator& ranks) {
  std::uint64_t highest = 0;
  for (const std::uint64_t one :
       gather_values(ranks, search_checkpoints(root).highest_generation)) {
    highest = std::max(highest, one);
  }
  if (!restored) return highest;
  for (const GenerationFork& fork : restored->manifest.lineage) {
    highest = std::max(highest, fork.generation);
  }
  return std::max(highest, restored->manifest.generation);
}

Checked<std::uint64_t> choose_generation(const GenerationLine& line, const KnownGenerations& known,
                                         const ResumeLog& log) {
  std::uint64_t highest = std::max(known.to_ranks, known.highest);
  for (const GenerationLine& earlier : log.generations) {
    if (is_passed(line, earlier, known.to_ranks)) {
      return CheckpointFault{complaint_about(line, earlier)};
    }
    highest = std::max(highest, earlier.generation);
  }
  if (highest == ~std::uint64_t{0}) {
    return CheckpointFault{"the checkpoint directory names generation " + std::to_string(highest) +
                           ", above which there is none: remove that directory, or use another"};
  }
  return std::max(line.epoch.value_or(1), highest + 1);
}

Checked<std::uint64_t> take_generation(const std::string& root, const GenerationLine& draft,
                                       std::uint64_t known_to_ranks) {
  if (auto made = make_checkpoint_directory(root); !made) return made.fault();
  const auto lock = CheckpointLock::take(root, checkpoint_log_name);
  if (!lock) return lock.fault();
  const ResumeLog log = read_resume_log(root);
  if (!log.unreadable.empty()) return CheckpointFault{log.unreadable};
  const std::uint64_t here = search_checkpoints(root).highest_generation;
  const auto chosen = choose_generation(draft, {known_to_ranks, here}, log);
  if (!chosen) return chosen;
  GenerationLine line = draft;
  line.generation = chosen.value();
  auto written = append_line_durably(root, checkpoint_log_name, format_generation_line(line));
  if (!written) return written.fault();
  return line.generation;
}

ResumeOffer find_offer(const std::string& root, CheckpointGrade at_least) {
  const CheckpointSearch search = search_checkpoints(root);
  ResumeOffer offer;
  for (const FoundCheckpoint& found : search.usable) {
    if (found.grade >= at_least) {
      offer.usable.push_back({found.step, found.generation});
    } else {
      offer.rejected.push_back(
          {{found.step, found.generation},
           at_least == CheckpointGrade::certified ? "is not certified" : "is not sane"});
    }
  }
  offer.forks = search.forks;
  offer.trouble = search.trouble;
  for (const RejectedCheckpoint& rejected : search.rejected) {
    const auto name = parse_checkpoint_directory_name(rejected.directory);
    if (name && rejected.committed) offer.rejected.push_back({*name, rejected.reason});
  }
  return offer;
}

std::optional<ChosenOffer> choose_offer(std::span<const ResumeOffer> offers) {
  std::vector<GenerationFork> forks;
  for (const ResumeOffer& offer : offers) {
    forks.insert(forks.end(), offer.forks.begin(), offer.forks.end());
  }
  std::optional<ChosenOffer> best;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    for (const CheckpointName& name : offers[rank].usable) {
      if (!is_on_lineage(name.step, name.generation, forks)) continue;
      if (!best || name > best->name) best = {rank, name};
    }
  }
  return best;
}

std::vector<std::string> passed_over(std::span<const ResumeOffer> offers,
                                     const CheckpointName& chosen) {
  std::set<std::string> sentences;  // ranks that share a directory say the same
  for (const ResumeOffer& offer : offers) {
    for (const auto& [name, reason] : offer.rejected) {
      if (!(name > chosen)) continue;
      sentences.insert(checkpoint_directory_name(name) + " is newer and is passed over: " + reason);
    }
  }
  return {sentences.begin(), sentences.end()};
}

std::string complaint_of(std::span<const ResumeOffer> offers) {
  for (const ResumeOffer& offer : offers) {
    if (!offer.trouble.empty()) return offer.trouble;
  }
  for (const ResumeOffer& offer : offers) {
    std::string reasons;
    for (const auto& [name, reason] : offer.rejected) {
      reasons += "; " + checkpoint_directory_name(name) + ": " + reason;
    }
    if (!reasons.empty()) return "none can be used" + reasons;
    if (!offer.usable.empty()) return "none can be used: a later generation began before each";
  }
  return "";
}

std::string resume_conflict(const RestoreTarget& target, const Manifest& manifest,
                            std::vector<std::string>& remarks) {
  const TrainState& train = manifest.train;
  for (const auto& [name, now] : result_options(target.options)) {
    const auto found = train.config.find(name);
    const std::string then = found == train.config.end() ? "unknown" : found->second;
    if (then == now) continue;
    const std::string difference =
        "--" + name + " is " + now + ", the checkpoint was made with " + then;
    if (decides_identity(name)) return difference;
    remarks.push_back(difference + "; training continues with " + now);
  }
  if (layout_hash(manifest.flat) != layout_hash(target.space)) {
    return "the model of the checkpoint has other parameters";
  }
  if (train.leaves != target.plan.leaves || train.micro_batch != target.plan.micro_batch) {
    const std::string difference = "the checkpoint was made with " + std::to_string(train.leaves) +
                                   " accumulation chunks and micro-batches of " +
                                   std::to_string(train.micro_batch) + ", now there are " +
                                   std::to_string(target.plan.leaves) + " and " +
                                   std::to_string(target.plan.micro_batch);
    if (target.options.deterministic) {
      return "--deterministic: " + difference + ": continue with --accumulation-chunks " +
             std::to_string(train.leaves) + " --micro-batch " + std::to_string(train.micro_batch);
    }
    remarks.push_back(difference + "; sums are rounded otherwise than in the run before");
  }
  if (train.sampler.kind != target.data.kind ||
      train.sampler.data_bytes != target.data.data_bytes ||
      train.sampler.data_crc32c != target.data.data_crc32c) {
    return "--data: the text is not the one the checkpoint was trained on (" +
           std::to_string(target.data.data_bytes) + " bytes now, " +
           std::to_string(train.sampler.data_bytes) + " then, or other content)";
  }
  return "";
}

}  // namespace muster
