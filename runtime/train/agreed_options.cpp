#include "runtime/train/agreed_options.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

using Given = std::map<std::string, std::string>;

std::string yes_or_no(bool flag) {
  return flag ? "given" : "not given";
}

std::string steps_text(const std::optional<StepRange>& steps) {
  if (!steps) return "not given";
  return std::to_string(steps->first) + "-" + std::to_string(steps->last);
}

Given agreed(const TrainOptions& options) {
  Given given = result_options(options);
  if (!options.deterministic) given.erase("threads");
  given.erase("tied");
  given["untied"] = yes_or_no(!options.shape.tied);
  given["recompute"] = yes_or_no(options.model.recompute);
  given["deterministic"] = yes_or_no(options.deterministic);
  given["steps"] = std::to_string(options.steps);
  given["micro-batch"] = std::to_string(options.micro_batch);
  given["leaves"] = std::to_string(options.leaves);
  given["zero"] = std::to_string(static_cast<int>(options.zero));
  given["bucket-bytes"] = std::to_string(options.buckets.least_bytes);
  given["bucket-limit-bytes"] = std::to_string(options.buckets.most_bytes);
  given["checkpoint-every"] = std::to_string(options.checkpoint_every);
  given["checkpoint-mode"] = options.save_mode == SaveMode::automatic    ? "auto"
                             : options.save_mode == SaveMode::background ? "background"
                                                                         : "blocking";
  given["keep"] = std::to_string(options.keep);
  given["replica-check-every"] = std::to_string(options.replica_check_every);
  given["divergence-steps"] = std::to_string(options.most_far_above);
  given["verify-data"] = options.verify_data ? "all" : "headers";
  given["jsonl-field"] = options.jsonl_field;
  given["profile"] = yes_or_no(!options.profile.empty());
  given["profile-steps"] = steps_text(options.profile_steps);
  return given;
}

std::string without_newlines(std::string value) {
  std::ranges::replace(value, '\n', ' ');
  return value;
}

}  // namespace

std::string agreed_text(const TrainOptions& options) {
  std::string text;
  for (const auto& [name, value] : agreed(options)) {
    text += name + "=" + without_newlines(value) + "\n";
  }
  return text;
}

void check_sharing_options(const TrainOptions& options, Communicator& ranks) {
  std::vector<GivenOptions> all;
  for (std::string& text : ranks.gather_texts(agreed_text(options))) {
    all.push_back({"rank " + std::to_string(all.size()), std::move(text)});
  }
  const std::string difference = options_difference(all);
  if (!difference.empty()) throw StartError(difference);
  const BucketLimits& buckets = options.buckets;
  if (buckets.least_bytes > buckets.most_bytes) {
    throw StartError("--bucket-bytes: " + std::to_string(buckets.least_bytes) +
                     " is more than the " + std::to_string(buckets.most_bytes) +
                     " of --bucket-limit-bytes");
  }
}

}  // namespace muster
