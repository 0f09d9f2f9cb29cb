// Checkpoints for people and machines: the lines of a list, one manifest in full, what reading all
// bytes has found. `checkpoint_lines` reads a directory; everything else is pure.
//
// The list is an array, the newest first; absent things are null:
//   name path         texts
//   step generation   numbers
//   state             COMMITTED VALID VERIFIED QUARANTINED, CORRUPT, or INCOMPLETE: no manifest
//   usable newest     whether a resume may take it, whether the next one would
//   reason            one sentence: why it is not usable
//   pinned            never deleted by retention
//   bytes created_at world loss_ema   from the manifest
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/verify.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {

// What a list shows of a manifest.
struct CheckpointFacts {
  std::uint64_t bytes = 0;
  std::uint64_t created_ns = 0;
  std::uint64_t world = 0;
  double loss_ema = 0;
};

struct CheckpointLine {
  CheckpointName name;
  std::string path;
  std::string state;
  std::string reason;  // empty: it is usable
  bool newest = false;
  bool pinned = false;
  std::optional<CheckpointFacts> facts;
  std::vector<std::string> evidence;  // what its certificate gives for its state
  std::string pin_reason;             // empty: none was given, or it is not pinned
};

// Everything in `root` that bears the name of a checkpoint, the newest first; and what kept from
// looking at all of it, empty: nothing.
struct CheckpointLines {
  std::vector<CheckpointLine> lines;
  std::string trouble;
};
CheckpointLines checkpoint_lines(const std::string& root);

Document lines_document(const std::vector<CheckpointLine>& lines);
Table lines_table(const std::vector<CheckpointLine>& lines);

// A manifest with the words of people: what was trained, how far, on what, where its bytes are.
Document manifest_document(const Manifest& manifest, const CheckpointLine& line);

// One checkpoint that was read.
struct CheckedCheckpoint {
  std::string path;
  CheckpointVerdict verdict;
  bool unsealed = false;  // it has no manifest and is the newest: it may be on its way
};
Document checked_document(const std::vector<CheckedCheckpoint>& checked);
// A line for each, and for each thing that is wrong.
std::string checked_text(const std::vector<CheckedCheckpoint>& checked, bool color);

}  // namespace muster
