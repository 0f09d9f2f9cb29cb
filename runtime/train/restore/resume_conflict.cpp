#include "runtime/train/restore/restore.h"

namespace muster {
namespace {

// Another value of one of these is another run; of the rest, the same run continued differently.
bool decides_identity(const std::string& option) {
  return option == "layers" || option == "width" || option == "heads" || option == "context" ||
         option == "vocabulary" || option == "tied" || option == "batch" || option == "seed";
}

}  // namespace

std::string resume_conflict(const RestoreTarget& target, const Manifest& manifest,
                            std::string& remarks) {
  const TrainState& train = manifest.train;
  for (const auto& [name, now] : result_options(target.options)) {
    const auto found = train.config.find(name);
    const std::string then = found == train.config.end() ? "unknown" : found->second;
    if (then == now) continue;
    const std::string difference =
        "--" + name + " is " + now + ", the checkpoint was made with " + then;
    if (decides_identity(name)) return difference;
    remarks += difference + "; training goes on with " + now + "\n";
  }
  if (layout_hash(manifest.flat) != layout_hash(target.space)) {
    return "the model of the checkpoint has other parameters";
  }
  if (train.leaves != target.plan.leaves || train.micro_batch != target.plan.micro_batch) {
    const std::string difference =
        "the checkpoint was made with " + std::to_string(train.leaves) +
        " leaves and micro-batches of " + std::to_string(train.micro_batch) + ", now there are " +
        std::to_string(target.plan.leaves) + " and " + std::to_string(target.plan.micro_batch);
    if (target.options.deterministic) {
      return "--deterministic: " + difference + ": continue with --leaves " +
             std::to_string(train.leaves) + " --micro-batch " + std::to_string(train.micro_batch);
    }
    remarks += difference + "; sums are rounded otherwise than in the run before\n";
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
