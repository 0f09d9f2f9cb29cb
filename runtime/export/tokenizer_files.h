// The tokenizer that belongs to exported weights, in the layout of Hugging Face: tokenizer.json as
// the run kept it beside its checkpoints (protocol/checkpoint_layout.h), and what transformers asks
// for besides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/file/checked.h"

namespace muster {

struct ExportedTokenizer {
  std::string file;  // tokenizer.json
  // The token that ends a document, and its text where it is a special one.
  std::optional<std::uint64_t> end_id;
  std::string end_text;
};

// Nothing where the run kept none: its tokens came without a tokenizer, or it is an older run.
Checked<std::optional<ExportedTokenizer>> find_tokenizer(const std::string& root,
                                                         std::uint32_t data_crc32c);

Checked<NoValue> write_tokenizer_files(const ExportedTokenizer& tokenizer, std::uint64_t context,
                                       const std::string& directory);

}  // namespace muster
