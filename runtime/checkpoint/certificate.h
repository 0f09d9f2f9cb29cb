// cert.json: what became known about the health of a checkpoint after its commit.
//
//   COMMITTED -> SANE -> CERTIFIED        grading.h says when
//        any  -> QUARANTINED(reason)      -> COMMITTED only when an operator releases it
//
// Sealed as in runtime/protocol/checkpoint_layout.h and replaced as a whole. A missing or
// unreadable certificate means COMMITTED; a quarantine stands in resume_log.jsonl too, so that
// losing the certificate cannot lift it. Plain data; parse_certificate accepts any bytes and never
// throws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

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
  std::vector<std::string> evidence;     // sentences
  std::optional<std::uint64_t> at_step;  // how far training had come
  std::uint64_t generation = 0;          // who wrote it; 0: nobody who trains
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

}  // namespace muster
