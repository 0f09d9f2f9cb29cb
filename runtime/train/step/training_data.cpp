#include "runtime/train/step/training_data.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/data/shard_cache.h"
#include "runtime/data/token_dataset.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/crc32c.h"
#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/text_blocks.h"
#include "runtime/tokenize/tokenizer_file.h"
#include "scheduler/text/number.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t corpus_limit_bytes = 4ull << 30;
constexpr std::uint64_t byte_vocabulary = 256;
constexpr const char* order_of_samples = "windows-feistel-philox";
// Enough reads at once for a disk or a network to be busy.
constexpr std::size_t least_verify_threads = 4;

// This rank's share of the work that it has in common with the ranks that read the same files.
struct Share {
  std::vector<std::size_t> ranks;  // with the same files, this one among them
  ChunkRange chunks;
};

Share own_share(const TokenDataset& dataset, const std::string& host, Communicator& ranks) {
  const std::vector<std::string> files = ranks.gather_texts(name_of_files(dataset, host));
  Share share;
  std::size_t place = 0;
  for (std::size_t r = 0; r < files.size(); ++r) {
    if (files[r] != files[ranks.rank()]) continue;
    if (r == ranks.rank()) place = share.ranks.size();
    share.ranks.push_back(r);
  }
  share.chunks = share_of_chunks(dataset.chunks(), place, share.ranks.size());
  return share;
}

std::string rate(std::uint64_t bytes, double seconds) {
  return printed("verified %.2f GB of tokens in %.2f s (%.2f GB/s)",
                 static_cast<double>(bytes) / 1e9, seconds,
                 static_cast<double>(bytes) / 1e9 / std::max(seconds, 1e-9));
}

// Reads the files of tokens once. Those without an index have no checksums before. Collective.
std::string verify_together(const TrainOptions& options, TokenDataset& dataset,
                            const std::string& host, Communicator& ranks) {
  const auto begin = std::chrono::steady_clock::now();
  const Share share = own_share(dataset, host, ranks);
  const bool are_known = dataset.has_checksums();
  const auto threads = std::max(least_verify_threads, static_cast<std::size_t>(options.threads));
  const auto own = verify_chunks(dataset, share.chunks, options.shape.vocabulary, threads);
  Checked<std::string> vote = std::string();
  if (!own) vote = CheckpointFault{"--data: " + own.reason()};
  if (own && !are_known) vote = base64_of_u32(own.value());
  const auto votes = needed(gather_checked(ranks, vote));
  if (!are_known) {
    std::vector<std::uint32_t> checksums;
    for (const std::size_t r : share.ranks) {
      const auto part = u32_of_base64(votes[r]);
      checksums.insert(checksums.end(), part->begin(), part->end());
    }
    set_checksums(dataset, checksums);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return rate(dataset.bytes(), took.count());
}

std::optional<TokenDataset> find_training_tokens(const TrainOptions& options) {
  auto found = needed(find_token_dataset(options.data), "--data: ");
  if (found && !options.verify_data && !found->has_checksums()) {
    throw StartError("--verify-data headers: " + options.data.front() + " has no " +
                     dataset_index_name +
                     ", so its files have to be read to tell them from others: write the index "
                     "once with muster-train tokenize --index, or use --verify-data all");
  }
  return found;
}

// With the vocabulary of the data where none was chosen.
TrainOptions with_vocabulary_of(const std::optional<TokenDataset>& dataset,
                                const TrainOptions& options) {
  TrainOptions settled = options;
  std::size_t& chosen = settled.shape.vocabulary;
  if (!dataset) {
    if (chosen == 0) chosen = byte_vocabulary;
    if (chosen >= byte_vocabulary) return settled;
    throw StartError("--vocabulary: text is read byte by byte, which needs at least 256");
  }
  if (dataset->vocabulary == 0 && chosen == 0) {
    throw StartError(
        "--data: the files of tokens do not say how many tokens there are: give "
        "--vocabulary");
  }
  if (chosen == 0) chosen = dataset->vocabulary;
  if (chosen >= dataset->vocabulary) return settled;
  throw StartError("--vocabulary: the data has " + std::to_string(dataset->vocabulary) +
                   " tokens, got " + std::to_string(chosen));
}

// The same on all ranks, or none of them begins.
void require_equal(const std::vector<std::string>& data) {
  for (std::size_t r = 1; r < data.size(); ++r) {
    if (data[r] == data[0]) continue;
    throw StartError("--data: rank " + std::to_string(r) +
                     " reads another text than rank 0: every node needs the same files");
  }
}

TrainingData open_text(const TrainOptions& options, const std::vector<std::string>& left_out,
                       Communicator& ranks) {
  return on_all_ranks(ranks, [&] {
    TrainingData data;
    std::string corpus =
        read_corpus(options.data, corpus_limit_bytes, left_out, options.jsonl_field);
    data.fingerprint = {order_of_samples, 0, 0, corpus.size(), crc32c(corpus)};
    data.tokens = std::make_unique<TextTokens>(std::move(corpus));
    if (ranks.rank() == 0) data.tokenizer = format_tokenizer(Tokenizer::of_bytes());
    return data;
  });
}

void warn(std::size_t rank, const std::string& trouble) {
  std::fprintf(stderr, "muster-train: rank %zu: warning: %s\n", rank, trouble.c_str());
}

// Of the directory that the files lie in, when they were made by it.
std::string tokenizer_of(const TokenDataset& dataset) {
  const fs::path directory = fs::path(dataset.shards.front().path).parent_path();
  auto text = read_checkpoint_text(directory / tokenizer_file_name, tokenizer_file_limit_bytes);
  return text && tokenizer_hash(text.value()) == dataset.tokenizer_hash ? text.value() : "";
}

TrainingData open_tokens(const TrainOptions& options, TokenDataset dataset, const std::string& host,
                         Communicator& ranks) {
  TrainingData data;
  data.unit = "tokens";
  if (ranks.rank() == 0) data.tokenizer = tokenizer_of(dataset);
  if (options.verify_data) data.remark = verify_together(options, dataset, host, ranks);
  const auto say = [rank = ranks.rank()](const std::string& trouble) { warn(rank, trouble); };
  auto line = on_all_ranks(ranks, [&] {
    return needed(ShardTokens::open(dataset, options.shape.vocabulary, say), "--data: ");
  });
  data.fingerprint = {order_of_samples, 0, 0, dataset.bytes(), dataset_identity(dataset)};
  ShardTokens& tokens = *line;
  data.tokens = std::move(line);
  if (!options.data_cache.empty()) {
    const std::size_t first = dataset.shards.size() * ranks.rank() / ranks.size();
    data.cache = std::make_unique<ShardCache>(
        dataset, ShardCacheSettings{options.data_cache, options.data_cache_limit_bytes, first},
        tokens, say);
  }
  return data;
}

}  // namespace

TrainingDataPlan plan_training_data(const TrainOptions& options, Communicator& ranks) {
  const TrainingDataPlan plan = on_all_ranks(ranks, [&] {
    TrainingDataPlan mine;
    mine.dataset = find_training_tokens(options);
    mine.options = with_vocabulary_of(mine.dataset, options);
    return mine;
  });
  require_equal(ranks.gather_texts(plan.dataset ? std::to_string(plan.dataset->bytes()) +
                                                      " bytes, vocabulary " +
                                                      std::to_string(plan.dataset->vocabulary)
                                                : "text"));
  return plan;
}

TrainingData open_training_data(const TrainOptions& options, std::optional<TokenDataset> dataset,
                                const std::vector<std::string>& left_out, const std::string& host,
                                Communicator& ranks) {
  const bool has_tokens = dataset.has_value();
  TrainingData data = has_tokens ? open_tokens(options, std::move(*dataset), host, ranks)
                                 : open_text(options, left_out, ranks);
  require_equal(ranks.gather_texts(std::to_string(data.fingerprint.data_bytes) + "/" +
                                   std::to_string(data.fingerprint.data_crc32c)));
  return data;
}

std::string keep_tokenizer(const TrainingData& data, const std::string& checkpoint_root) {
  const std::string name = kept_tokenizer_name(data.fingerprint.data_crc32c);
  std::error_code code;
  if (data.tokenizer.empty() || fs::exists(checkpoint_root + "/" + name, code)) return "";
  const auto put = replace_durably(checkpoint_root, name, data.tokenizer);
  return put ? "" : "the tokenizer is not kept beside the checkpoints: " + put.reason();
}

void check_windows(const TrainingData& data, const Sampler& sampler, std::uint64_t context) {
  if (sampler.windows() > 0) return;
  throw StartError("--data: " + std::to_string(data.tokens->size()) +
                   " tokens are too few for one window of --context " + std::to_string(context));
}

}  // namespace muster
