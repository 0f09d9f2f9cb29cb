// Writes a line of tokens as shards of a fixed length, and at the end the index that makes them a
// dataset: before that the directory holds none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/token_dataset.h"

namespace muster {

struct DatasetForm {
  std::string directory;
  std::uint32_t shard_version = 2;
  std::uint64_t shard_tokens = 100000000;  // in each but the last
  std::uint64_t vocabulary = 0;
  std::string tokenizer_hash;
};

// Throws StartError when the directory holds a dataset, and when tokens of this vocabulary do not
// fit the version. Changes nothing.
void check_dataset_form(const DatasetForm& form);

class DatasetWriter {
 public:
  // As above, and throws StartError when the directory cannot be made.
  explicit DatasetWriter(DatasetForm form);

  // Appends tokens; `begins` are those of them with which a document begins. Throws StartError.
  void add(std::span<const std::uint32_t> tokens, std::span<const std::uint64_t> begins);

  // Writes the last shard and the index. Throws StartError, also when there are no tokens.
  DatasetIndex finish();

 private:
  std::vector<std::uint64_t> documents_in(std::uint64_t first, std::uint64_t tokens) const;
  void write_shard(std::uint64_t first, std::uint64_t tokens);
  void drop(std::uint64_t tokens);

  DatasetForm form_;
  DatasetIndex index_;
  std::vector<std::uint32_t> pending_;
  std::vector<std::uint64_t> begins_;  // in pending_
};

}  // namespace muster
