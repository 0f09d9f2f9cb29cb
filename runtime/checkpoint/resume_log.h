// resume_log.jsonl: the append-only history of a checkpoint directory.
//
// One sealed line per generation, fsync'd before the first step of that generation, and one per
// quarantine, fsync'd before cert.json is written. Lines that are torn or damaged are skipped and
// counted. The newest generation appends; anybody reads.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/checked.h"
#include "runtime/checkpoint/manifest.h"

namespace muster {

// Beginning of a generation.
struct GenerationLine {
  std::uint64_t generation = 0;
  std::uint64_t fork_step = 0;         // it continues from the state after this step
  std::string from;                    // directory name, empty for a fresh start
  std::string reason;                  // "start" or "resume"
  std::uint64_t world = 0;             // ranks
  std::vector<std::string> nodes;      // host names
  std::string run_id;                  // whose generation this is
  std::optional<std::uint64_t> epoch;  // fencing epoch of the launcher, when there is one
};

// A checkpoint that is never resumed from again.
struct QuarantineLine {
  std::string checkpoint;  // directory name
  std::string reason;      // "integrity"
  std::uint64_t generation = 0;
};

struct ResumeLog {
  std::vector<GenerationLine> generations;
  std::set<std::string> quarantined;  // directory names
  std::uint64_t damaged_lines = 0;
  std::string unreadable;  // why the file could not be read; empty: it could, or there is none
};

std::string format_generation_line(const GenerationLine& line);
std::string format_quarantine_line(const QuarantineLine& line);

// Accepts any bytes.
ResumeLog parse_resume_log(std::string_view text);

// An absent log is an empty one; one that cannot be read is empty too, and says so.
ResumeLog read_resume_log(const std::string& root);

// Quarantines root/directory: the log line first, then cert.json.
Checked<NoValue> quarantine_checkpoint(const std::string& root, const QuarantineLine& line,
                                       const std::string& evidence);

// True when cert.json of the checkpoint at `path` says QUARANTINED. Missing or unreadable means no.
bool is_certified_bad(const std::string& path);

}  // namespace muster
