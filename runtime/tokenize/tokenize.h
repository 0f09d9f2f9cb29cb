// `muster-train tokenize`: makes a dataset of text, once, for many runs.
//
// Reads text (text_blocks.h), trains a tokenizer where one is asked for, and writes shards, their
// index and the tokenizer into one directory. Blocks are worked on by several threads and joined in
// their order: equal text and options give equal bytes, whatever the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/token_dataset.h"
#include "runtime/tokenize/text_blocks.h"
#include "runtime/tokenize/tokenizer.h"

namespace muster {

struct TokenizeOptions {
  std::vector<std::string> files;  // and directories
  std::string out;
  std::string tokenizer;  // a file; empty: bytes, or a trained one
  bool train = false;
  std::size_t vocabulary = 0;  // of the trained tokenizer
  std::string jsonl_field = usual_jsonl_field;
  std::string end_of_document;  // of the tokenizer file; empty: the usual one
  std::uint64_t shard_tokens = 100000000;
  std::uint32_t shard_version = 2;
  std::size_t threads = 1;
};

// The tokens of one block.
struct EncodedBlock {
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint64_t> begins;  // tokens with which a document begins
};

// `tokenizer` is that of the encoder.
EncodedBlock encode_block(const TextBlock& block, const std::string& jsonl_field, Encoder& encoder,
                          const Tokenizer& tokenizer);

// The tokenizer of a file; where its directory holds a dataset, that of this dataset. Throws
// StartError.
Tokenizer read_tokenizer(const std::string& path, const std::string& end_of_document);

// Says what it did line by line. Throws StartError.
void tokenize(const TokenizeOptions& options, const std::function<void(const std::string&)>& say);

// Writes the index of the files of tokens in `directory`, which have none. Throws StartError.
void index_token_files(const std::string& directory, std::uint64_t vocabulary, std::size_t threads);

// The text of document number `number` of a dataset with a tokenizer beside it. Throws StartError.
std::string read_document(const std::string& directory, std::uint64_t number);

// The command line of `muster-train tokenize`.

// argv[0] is "tokenize". Prints what it does, help and complaints; returns the exit code.
int run_tokenize_command(int argc, const char* const* argv);

// Writes a line of tokens as shards of a fixed length, and at the end the index that makes them a
// dataset: before that the directory holds none.
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
