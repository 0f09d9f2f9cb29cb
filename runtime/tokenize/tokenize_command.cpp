#include "runtime/tokenize/tokenize_command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "runtime/protocol/start_error.h"
#include "runtime/report/terminal_text.h"
#include "runtime/tokenize/tokenize.h"

namespace muster {
namespace {

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

}  // namespace

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

}  // namespace muster
