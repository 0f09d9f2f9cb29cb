#include "runtime/tokenize/tokenize.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "runtime/data/shard_cache.h"
#include "runtime/data/token_dataset.h"
#include "runtime/protocol/number_text.h"
#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/tokenizer.h"
#include "runtime/tokenize/tokenizer_file.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

constexpr std::size_t blocks_per_thread = 4;  // in one round, so that no thread waits for long

using Clock = std::chrono::steady_clock;

std::string rate(std::uint64_t bytes, Clock::time_point begin) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return printed("%.1f MB in %.1f s, %.1f MB/s", static_cast<double>(bytes) / 1e6, seconds,
                 static_cast<double>(bytes) / 1e6 / seconds);
}

// The blocks of all files, round by round: `work` is called for the blocks of a round in several
// threads, with the number of the block in its round and that of the thread, then `after` once.
void for_each_round(const TokenizeOptions& options, TextBlockReader& reader,
                    const std::function<void(const TextBlock&, std::size_t, std::size_t)>& work,
                    const std::function<void(std::size_t)>& after) {
  std::vector<TextBlock> blocks(options.threads * blocks_per_thread);
  std::vector<std::exception_ptr> errors(blocks.size());
  while (true) {
    std::size_t count = 0;
    while (count < blocks.size() && reader.next(blocks[count])) ++count;
    if (count == 0) return;
    std::atomic<std::size_t> next = 0;
    const auto serve = [&](std::size_t thread) {
      for (std::size_t i = next++; i < count; i = next++) {
        try {
          work(blocks[i], i, thread);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      }
    };
    std::vector<std::thread> helpers;
    for (std::size_t t = 1; t < options.threads; ++t) helpers.emplace_back(serve, t);
    serve(0);
    for (std::thread& helper : helpers) helper.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    after(count);
  }
}

void for_each_text(const TextBlock& block, const std::string& jsonl_field, NulInText nul,
                   const std::function<void(std::string_view)>& each) {
  if (block.is_jsonl) {
    for_each_json_document(block, jsonl_field, nul, each);
  } else {
    each(block.content);
  }
}

Tokenizer train(const TokenizeOptions& options, const std::vector<std::string>& files,
                const std::function<void(const std::string&)>& say) {
  const auto begin = Clock::now();
  TextBlockReader reader(files, options.files);
  std::vector<WordCounts> counts(options.threads);
  for_each_round(
      options, reader,
      [&](const TextBlock& block, std::size_t, std::size_t thread) {
        for_each_text(block, options.jsonl_field, NulInText::allowed,
                      [&](std::string_view text) { counts[thread].add_text(text); });
      },
      [](std::size_t) {});
  for (std::size_t t = 1; t < counts.size(); ++t) counts[0].add(counts[t]);
  Tokenizer tokenizer = train_tokenizer(counts[0], options.vocabulary);
  say("trained a tokenizer of " + std::to_string(tokenizer.vocabulary()) + " tokens on " +
      rate(reader.bytes_read(), begin));
  if (tokenizer.vocabulary() < options.vocabulary) {
    say("warning: the text has no more pairs that occur twice: --vocabulary " +
        std::to_string(options.vocabulary) + " was not reached");
  }
  return tokenizer;
}

Tokenizer chosen_tokenizer(const TokenizeOptions& options, const std::vector<std::string>& files,
                           const std::function<void(const std::string&)>& say) {
  if (options.train) return train(options, files, say);
  if (options.tokenizer.empty()) return Tokenizer::of_bytes();
  return read_tokenizer(options.tokenizer, options.end_of_document);
}

void check_options(const TokenizeOptions& options) {
  if (options.out.empty()) throw StartError("--out: name the directory that gets the tokens");
  if (options.files.empty()) throw StartError("no text was named; give files or directories");
  if (options.train && !options.tokenizer.empty()) {
    throw StartError("--train makes a tokenizer and --tokenizer names one: use either");
  }
  if (options.train && options.vocabulary < smallest_trained_vocabulary) {
    throw StartError(
        "--train: --vocabulary: expected 257 or more (256 bytes and the end of a "
        "document), got " +
        std::to_string(options.vocabulary));
  }
  if (!options.train && options.vocabulary != 0) {
    throw StartError("--vocabulary is that of the tokenizer, unless --train makes one");
  }
  // Before the hours that training a tokenizer may take.
  check_dataset_form(
      {options.out, options.shard_version, options.shard_tokens, options.vocabulary, ""});
}

// Those from `at` on, without the first `end` and what follows it.
std::vector<std::uint32_t> tokens_until(const TokenSource& line, std::uint64_t at,
                                        std::uint32_t end) {
  constexpr std::uint64_t piece_tokens = 1 << 14;  // each read asks the kernel for its pages
  std::vector<std::uint32_t> tokens;
  while (at + tokens.size() < line.size()) {
    const std::uint64_t held = tokens.size();
    tokens.resize(held + std::min(piece_tokens, line.size() - at - held));
    line.copy(at + held, std::span(tokens).subspan(held));
    const auto found =
        std::find(tokens.begin() + static_cast<std::ptrdiff_t>(held), tokens.end(), end);
    if (found == tokens.end()) continue;
    tokens.erase(found, tokens.end());
    break;
  }
  return tokens;
}

std::string text_of_tokenizer(const std::string& path) {
  return needed(read_checkpoint_text(path, tokenizer_file_limit_bytes));
}

struct Command {
  TokenizeOptions options;
  std::string index;  // directory that gets an index
  std::string show;   // directory of which a document is printed
  std::uint64_t document = 0;
};

void add_options(CLI::App& app, Command& command) {
  TokenizeOptions& options = command.options;
  app.add_option("FILES", options.files, "text files, JSONL files, or directories of them");
  app.add_option("--out", options.out, "directory that gets shards, index and tokenizer");
  app.add_flag("--train", options.train, "make a tokenizer of this text (otherwise: bytes)");
  app.add_option("--vocabulary", options.vocabulary,
                 "tokens of the tokenizer that --train makes, the end of a document included")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 24));
  app.add_option("--tokenizer", options.tokenizer,
                 "a tokenizer.json to use: byte-level BPE in the layout of Hugging Face");
  app.add_option("--end-of-document", options.end_of_document,
                 "its special token for the end of a document (default <|endoftext|>)");
  app.add_option("--jsonl-field", options.jsonl_field, "member of a JSONL line that is the text")
      ->capture_default_str();
  app.add_option("--shard-tokens", options.shard_tokens, "tokens in each file")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 33))
      ->capture_default_str();
  app.add_option("--shard-version", options.shard_version,
                 "2, or 1 for tools of llm.c (16 bits, without documents)")
      ->check(CLI::Range(1u, 2u))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads (the result does not depend on it)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}))
      ->capture_default_str();
  app.add_option("--index", command.index,
                 "instead: write the index of the files of tokens in this directory");
  app.add_option("--show", command.show, "instead: print a document of this dataset");
  app.add_option("--document", command.document, "its number, from 0")->capture_default_str();
}

void obey(const Command& command) {
  if (!command.index.empty()) {
    index_token_files(command.index, command.options.vocabulary, command.options.threads);
  } else if (!command.show.empty()) {
    const std::string text = read_document(command.show, command.document);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
      throw std::runtime_error("--show: standard output cannot be written: " +
                               std::string(std::strerror(errno)));
    }
  } else {
    tokenize(command.options, [](const std::string& line) {
      std::printf("muster-train: %s\n", without_controls(line).c_str());
    });
  }
}

constexpr std::uint64_t narrow_vocabulary = 65536;

std::string shard_name(std::size_t number) {
  return printed("tokens-%06zu.bin", number);
}

}  // namespace

EncodedBlock encode_block(const TextBlock& block, const std::string& jsonl_field, Encoder& encoder,
                          const Tokenizer& tokenizer) {
  EncodedBlock encoded;
  const std::uint32_t end_of_document = tokenizer.end_of_document();
  const bool nul_ends = end_of_document == tokenizer.token_of_byte(0);
  const NulInText nul = nul_ends ? NulInText::refused : NulInText::allowed;
  for_each_text(block, jsonl_field, nul, [&](std::string_view text) {
    if (block.is_jsonl || block.begins_document) encoded.begins.push_back(encoded.tokens.size());
    encoder.encode(text, encoded.tokens);
    if (block.is_jsonl || block.ends_document) encoded.tokens.push_back(end_of_document);
  });
  return encoded;
}

Tokenizer read_tokenizer(const std::string& path, const std::string& end_of_document) {
  const std::string text = text_of_tokenizer(path);
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const std::string home = directory.empty() ? "." : directory;
  std::error_code code;
  if (std::filesystem::exists(home + "/" + dataset_index_name, code)) {
    const DatasetIndex index = needed(read_dataset_index(home));
    if (index.dataset.tokenizer_hash != tokenizer_hash(text)) {
      throw StartError(path + ": was changed since the dataset beside it was made");
    }
  }
  return needed(parse_tokenizer(text, end_of_document), path + ": ");
}

void tokenize(const TokenizeOptions& options, const std::function<void(const std::string&)>& say) {
  check_options(options);
  const std::vector<std::string> files = find_data_files(options.files, {options.out});
  const Tokenizer tokenizer = chosen_tokenizer(options, files, say);
  // A file that was read is kept as it is, for the tokens to belong to it.
  const std::string text = options.tokenizer.empty() ? format_tokenizer(tokenizer)
                                                     : text_of_tokenizer(options.tokenizer);
  DatasetWriter writer({options.out, options.shard_version, options.shard_tokens,
                        tokenizer.vocabulary(), tokenizer_hash(text)});
  needed(replace_durably(options.out, tokenizer_file_name, text), "--out: ");
  const auto begin = Clock::now();
  TextBlockReader reader(files, options.files);
  std::vector<Encoder> encoders(options.threads, Encoder(tokenizer));
  std::vector<EncodedBlock> encoded(options.threads * blocks_per_thread);
  for_each_round(
      options, reader,
      [&](const TextBlock& block, std::size_t i, std::size_t thread) {
        encoded[i] = encode_block(block, options.jsonl_field, encoders[thread], tokenizer);
      },
      [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) writer.add(encoded[i].tokens, encoded[i].begins);
      });
  const DatasetIndex index = writer.finish();
  say("wrote " + std::to_string(index.dataset.tokens()) + " tokens of " +
      std::to_string(index.documents) + " documents in " +
      std::to_string(index.dataset.shards.size()) + " shards to " + options.out + ": " +
      rate(reader.bytes_read(), begin));
}

void index_token_files(const std::string& directory, std::uint64_t vocabulary,
                       std::size_t threads) {
  std::error_code code;
  if (std::filesystem::exists(directory + "/" + dataset_index_name, code)) {
    throw StartError("--index: " + directory + " has a " + dataset_index_name + " already");
  }
  const std::vector<std::string> files = find_token_shards(directory);
  if (files.empty()) throw StartError("--index: " + directory + " holds no files of tokens");
  DatasetIndex index{needed(dataset_of_files(files), "--index: ")};
  if (vocabulary > 0) index.dataset.vocabulary = vocabulary;
  if (index.dataset.vocabulary == 0) {
    throw StartError("--index: the files do not say how many tokens there are: give --vocabulary");
  }
  const auto checksums = needed(
      verify_chunks(index.dataset, {0, index.dataset.chunks()}, index.dataset.vocabulary, threads),
      "--index: ");
  set_checksums(index.dataset, checksums);
  for (DatasetShard& shard : index.dataset.shards) {
    shard.path = std::filesystem::path(shard.path).filename().string();
    index.documents += shard.layout.documents;
  }
  const std::string tokenizer = directory + "/" + tokenizer_file_name;
  if (std::filesystem::exists(tokenizer, code)) {
    index.dataset.tokenizer_hash = tokenizer_hash(text_of_tokenizer(tokenizer));
  }
  needed(replace_durably(directory, dataset_index_name, format_dataset_index(index)), "--index: ");
}

std::string read_document(const std::string& directory, std::uint64_t number) {
  const Tokenizer tokenizer = read_tokenizer(directory + "/" + tokenizer_file_name, "");
  const TokenDataset dataset = needed(read_dataset_index(directory)).dataset;
  const auto line = needed(ShardTokens::open(dataset, tokenizer.vocabulary(), {}));
  std::uint64_t shard_begin = 0;
  std::uint64_t skipped = 0;
  for (const DatasetShard& shard : dataset.shards) {
    if (number - skipped < shard.layout.documents) {
      const auto documents = needed(read_token_shard_documents(shard.path, shard.layout));
      const std::uint64_t at = shard_begin + documents[number - skipped];
      return tokenizer.decode(tokens_until(*line, at, tokenizer.end_of_document()));
    }
    skipped += shard.layout.documents;
    shard_begin += shard.layout.tokens;
  }
  throw StartError("--document: " + directory + " has an index of " + std::to_string(skipped) +
                   " documents, got " + std::to_string(number));
}

int run_tokenize_command(int argc, const char* const* argv) {
  Command command;
  command.options.threads = std::max(1u, std::thread::hardware_concurrency());
  CLI::App app("Makes a dataset of tokens of text, for --data of muster-train.",
               "muster-train tokenize");
  add_options(app, command);
  try {
    app.parse(argc, argv);
    obey(command);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_cannot_start;
  } catch (const StartError& error) {
    std::fprintf(stderr, "muster-train: tokenize: %s\n", without_controls(error.what()).c_str());
    return exit_cannot_start;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster-train: tokenize: %s\n", without_controls(error.what()).c_str());
    return 1;
  }
  return 0;
}

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
