// resume_log.jsonl: the append-only history of a checkpoint directory.
//
// One sealed line per generation, fsync'd before the first step of that generation, and one per
// quarantine and release from it, fsync'd before cert.json is written. Lines that are torn or
// damaged are skipped and counted. The newest generation appends; anybody reads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/manifest.h"

namespace muster {

// cert.json: what became known about the health of a checkpoint after its commit.
//
//   COMMITTED -> SANE -> CERTIFIED        mark_sane(), certify()
//        any  -> QUARANTINED(reason)      -> COMMITTED only when an operator releases it
//
// Sealed as in runtime/protocol/checkpoint_layout.h and replaced as a whole. A missing or
// unreadable certificate means COMMITTED; a quarantine stands in resume_log.jsonl too, so that
// losing the certificate cannot lift it. Plain data; parse_certificate accepts any bytes and never
// throws.

// In order: each says all that the one before says.
enum class CheckpointGrade { committed, sane, certified };

struct CheckpointQuarantine {
  std::string reason;  // integrity, replica, loss, node_fault, crash_loop or manual
  std::optional<std::uint64_t> suspect_from = {};  // the first step that is not trusted
};

using CheckpointStanding = std::variant<CheckpointGrade, CheckpointQuarantine>;

struct Certificate {
  std::string checkpoint;  // directory name
  CheckpointStanding standing = CheckpointGrade::committed;
  std::vector<std::string> evidence = {};     // sentences
  std::optional<std::uint64_t> at_step = {};  // how far training had come
  std::uint64_t generation = 0;               // who wrote it; 0: nobody who trains
};

// "COMMITTED", "SANE", "CERTIFIED", "QUARANTINED".
const char* standing_word(const CheckpointStanding& standing);

// The sealed text. Evidence that is not UTF-8 is repaired.
std::string format_certificate(const Certificate& certificate);

// Checks the seal, the version and every type.
Checked<Certificate> parse_certificate(std::string_view text);

// Of the checkpoint at `path`. A missing file is COMMITTED, one that is damaged, of a newer version
// or of another checkpoint a fault.
Checked<Certificate> read_certificate(const std::string& path);

// Replaces path/cert.json durably.
Checked<NoValue> write_certificate(const std::string& path, const Certificate& certificate);

// Beginning of a generation.
struct GenerationLine {
  std::uint64_t generation = 0;
  std::uint64_t fork_step = 0;         // it continues from the state after this step
  std::string from;                    // directory name, empty for a fresh start
  std::string reason;                  // "start", "resume", or "members": an epoch of them began
  std::uint64_t world = 0;             // ranks
  std::vector<std::string> nodes;      // host names
  std::string run_id;                  // whose generation this is
  std::optional<std::uint64_t> epoch;  // fencing epoch of the launcher, when there is one
  // Of the members (runtime/protocol/membership.h), in an elastic run.
  std::optional<std::uint64_t> members_epoch = {};
};

// A checkpoint that is not resumed from again, unless an operator releases it.
struct QuarantineLine {
  std::string checkpoint;        // directory name
  std::string reason;            // integrity, replica, loss, node_fault, crash_loop or manual
  std::uint64_t generation = 0;  // who says so; 0: nobody who trains
  std::optional<std::uint64_t> suspect_from = {};  // the first step that is not trusted
};

struct ResumeLog {
  std::vector<GenerationLine> generations;
  std::map<std::string, CheckpointQuarantine> quarantined;  // by directory name; not the released
  std::uint64_t damaged_lines = 0;
  std::string unreadable;  // why the file could not be read; empty: it could, or there is none
};

std::string format_generation_line(const GenerationLine& line);
std::string format_quarantine_line(const QuarantineLine& line);
// An operator's word that the quarantine of a checkpoint is over.
std::string format_release_line(const std::string& checkpoint, const std::string& reason);

// Accepts any bytes.
ResumeLog parse_resume_log(std::string_view text);

// An absent log is an empty one; one that cannot be read is empty too, and says so.
ResumeLog read_resume_log(const std::string& root);

// In a fault that says that another has taken over; then the run that it is of.
inline constexpr std::string_view taken_over_words = " has taken over from generation ";

// A fault when the log of `root` cannot be read, or names a generation above `generation`: the
// caller has been replaced and may change nothing.
Checked<NoValue> check_newest_generation(const std::string& root, std::uint64_t generation);

// Quarantines root/directory: the log line first, then cert.json.
Checked<NoValue> quarantine_checkpoint(const std::string& root, const QuarantineLine& line,
                                       const std::string& evidence);

// What is known of the checkpoint at `path`: the log's word about a quarantine counts before the
// certificate's. A certificate that cannot be read means COMMITTED.
CheckpointStanding standing_in(const ResumeLog& log, const std::string& path);

// True when cert.json of the checkpoint at `path` says QUARANTINED. Missing or unreadable means no.
bool is_certified_bad(const std::string& path);

// What is decided about a committed checkpoint later on: grades, release from quarantine, pins.
//
// Grades are given by the newest generation of training, which knows what came after the save;
// releases and pins are an operator's. A grade is never lowered here, and none lifts a quarantine:
// quarantine_checkpoint is in resume_log.h. Every function writes durably before it returns, and
// returns a sentence when it refuses. `path` is a checkpoint's directory. No state, any thread.

// Why a grade is deserved, and who says so.
struct GradingEvidence {
  std::uint64_t at_step = 0;     // how far training has come
  std::uint64_t generation = 0;  // of the caller; an older one than the newest is refused
  std::vector<std::string> sentences;
};

// SANE: every value of the state is finite, the hashes that the ranks took of their weights agree.
// Both are looked up in the manifest; anything else that the caller requires it has checked before.
Checked<NoValue> mark_sane(const std::string& path, const GradingEvidence& evidence);

// CERTIFIED: sane, and training went on long enough after it without a doubt. How long is the
// caller's rule; `evidence.at_step` must lie behind the checkpoint's own step.
Checked<NoValue> certify(const std::string& path, const GradingEvidence& evidence);

// Lifts a quarantine: the log first, then the certificate, which is COMMITTED again.
Checked<NoValue> release_checkpoint(const std::string& path, const std::string& reason);

// What is known of the checkpoint at `path`, as standing_in() has it.
CheckpointStanding standing_of_checkpoint(const std::string& path);

// While the file pin.json exists in it, whatever it says, retention spares a checkpoint.
Checked<NoValue> pin_checkpoint(const std::string& path, const std::string& reason);
Checked<NoValue> unpin_checkpoint(const std::string& path);
bool is_pinned(const std::string& path);
// Why it was; empty: nobody said it, or it cannot be read.
std::string pin_reason(const std::string& path);

}  // namespace muster
