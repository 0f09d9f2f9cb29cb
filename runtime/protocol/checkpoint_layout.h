// Names inside a checkpoint directory, and the seal that ends each of its JSON files.
//
//   <root>/LATEST                hint: a directory name and "\n"; recovery never trusts it
//   <root>/resume_log.jsonl      one sealed line per generation or quarantine
//   <root>/s000001200-g3/        step and generation; never reused
//     shard-00000-of-00008.safetensors
//     manifest.json              the commit record
//     cert.json                  health state, the only file that changes
//     pin.json                   while it is there, retention does not delete the checkpoint
//
// A sealed JSON text ends with exactly 22 bytes ,"crc32c":"xxxxxxxx"}\n and the CRC-32C covers all
// bytes before them. Pure functions; no file is touched here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scheduler/text/fields.h"

namespace muster {

inline constexpr const char* checkpoint_manifest_name = "manifest.json";
inline constexpr const char* checkpoint_cert_name = "cert.json";
inline constexpr const char* checkpoint_pin_name = "pin.json";
inline constexpr const char* checkpoint_latest_name = "LATEST";
inline constexpr const char* checkpoint_log_name = "resume_log.jsonl";
inline constexpr const char* checkpoint_trash_prefix = ".trash-";
inline constexpr std::size_t checkpoint_seal_bytes = 22;

// State after `step` optimizer updates, written by `generation` (the fencing epoch of its writers).
struct CheckpointName {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  friend bool operator==(const CheckpointName&, const CheckpointName&) = default;
  friend auto operator<=>(const CheckpointName&, const CheckpointName&) = default;
  MUSTER_FIELDS(step, generation)
};

// The tokenizer of the data that has this checksum, beside the checkpoints of runs on it: a
// tokenizer.json of Hugging Face's layout, for exports.
std::string kept_tokenizer_name(std::uint32_t data_crc32c);

// "s000001200-g3": the step in at least nine digits.
std::string checkpoint_directory_name(const CheckpointName& name);

// The inverse; none for every text that the function above would not have written.
std::optional<CheckpointName> parse_checkpoint_directory_name(std::string_view text);

// "shard-00000-of-00008.safetensors"
std::string checkpoint_shard_name(std::size_t rank, std::size_t ranks);

// Seals `object`, the text of a JSON object with at least one member: its last "}" becomes the
// trailer.
std::string seal_json(std::string object);

// True when `text` ends in a well-formed seal whose CRC matches.
bool is_committed_json(std::string_view text);

// Whether a JSON text nests deeper than any that is written here: what reads or frees it calls
// itself for every level, and would run out of stack. Of a text that is no JSON it says nothing.
inline constexpr std::size_t json_depth_limit = 64;
bool nests_too_deeply(std::string_view text);

}  // namespace muster
