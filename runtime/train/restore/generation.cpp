#include "runtime/train/restore/generation.h"

#include <algorithm>
#include <tuple>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

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

}  // namespace

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

}  // namespace muster
