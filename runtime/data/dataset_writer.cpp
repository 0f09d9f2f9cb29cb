#include "runtime/data/dataset_writer.h"

#include <algorithm>
#include <filesystem>

#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"

namespace muster {
namespace {

constexpr std::uint64_t narrow_vocabulary = 65536;

std::string shard_name(std::size_t number) {
  return printed("tokens-%06zu.bin", number);
}

}  // namespace

void check_dataset_form(const DatasetForm& form) {
  if (form.shard_version == 1 && form.vocabulary > narrow_vocabulary) {
    throw StartError("--shard-version 1 holds tokens below 65536, the vocabulary is " +
                     std::to_string(form.vocabulary) + ": use version 2");
  }
  if (form.shard_version == 1 && form.shard_tokens > 0x7FFFFFFF) {
    throw StartError("--shard-tokens: version 1 holds at most 2147483647 tokens in a file");
  }
  std::error_code code;
  if (std::filesystem::exists(form.directory + "/" + dataset_index_name, code)) {
    throw StartError("--out: " + form.directory + " holds a dataset already (" +
                     dataset_index_name + "): name another directory, or remove that one");
  }
}

DatasetWriter::DatasetWriter(DatasetForm form) : form_(std::move(form)) {
  check_dataset_form(form_);
  needed(make_checkpoint_directory(form_.directory), "--out: ");
  needed(replace_durably(form_.directory, dataset_unfinished_name, ""), "--out: ");
  index_.dataset.vocabulary = form_.vocabulary;
  index_.dataset.tokenizer_hash = form_.tokenizer_hash;
}

void DatasetWriter::add(std::span<const std::uint32_t> tokens,
                        std::span<const std::uint64_t> begins) {
  for (const std::uint64_t begin : begins) begins_.push_back(pending_.size() + begin);
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  index_.documents += begins.size();
  std::uint64_t first = 0;
  for (; pending_.size() - first >= form_.shard_tokens; first += form_.shard_tokens) {
    write_shard(first, form_.shard_tokens);
  }
  if (first > 0) drop(first);
}

// The documents that begin among these tokens, counted from the first of them.
std::vector<std::uint64_t> DatasetWriter::documents_in(std::uint64_t first,
                                                       std::uint64_t tokens) const {
  std::vector<std::uint64_t> documents;
  if (form_.shard_version == 1) return documents;
  auto begin = std::lower_bound(begins_.begin(), begins_.end(), first);
  for (; begin != begins_.end() && *begin < first + tokens; ++begin) {
    documents.push_back(*begin - first);
  }
  return documents;
}

void DatasetWriter::write_shard(std::uint64_t first, std::uint64_t tokens) {
  const std::vector<std::uint64_t> documents = documents_in(first, tokens);
  const TokenShardLayout layout =
      plan_token_shard(form_.shard_version, form_.vocabulary <= narrow_vocabulary ? 2 : 4,
                       form_.vocabulary, tokens, documents.size());
  const std::string name = shard_name(index_.dataset.shards.size());
  const auto checksums =
      needed(write_token_shard(form_.directory, name, layout,
                               std::span(pending_).subspan(first, tokens), documents),
             "--out: ");
  index_.dataset.shards.push_back({name, layout, checksums});
}

// The first so many pending tokens, which are written.
void DatasetWriter::drop(std::uint64_t tokens) {
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(tokens));
  begins_.erase(begins_.begin(), std::lower_bound(begins_.begin(), begins_.end(), tokens));
  for (std::uint64_t& begin : begins_) begin -= tokens;
}

DatasetIndex DatasetWriter::finish() {
  if (!pending_.empty()) write_shard(0, pending_.size());
  if (index_.dataset.shards.empty()) throw StartError("there is no text in what was named");
  needed(replace_durably(form_.directory, dataset_index_name, format_dataset_index(index_)),
         "--out: ");
  std::error_code code;  // beside an index it says nothing
  std::filesystem::remove(form_.directory + "/" + dataset_unfinished_name, code);
  return index_;
}

}  // namespace muster
