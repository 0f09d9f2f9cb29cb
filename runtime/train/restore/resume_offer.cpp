#include "runtime/train/restore/resume_offer.h"

#include <set>
#include <tuple>

#include "runtime/train/restore/restore.h"

namespace muster {

namespace {

// Another value of one of these is another run; of the rest, the same run continued differently.
bool decides_identity(const std::string& option) {
  return option == "layers" || option == "width" || option == "heads" || option == "context" ||
         option == "vocabulary" || option == "tied" || option == "batch" || option == "seed";
}

}  // namespace

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
