#include <filesystem>

#include "runtime/protocol/start_error.h"
#include "runtime/tokenize/text_blocks.h"
#include "runtime/tokenize/tokenize.h"
#include "runtime/tokenize/tokenizer_file.h"
#include "tests/catch.h"
#include "tests/runtime/a_dataset.h"

using namespace muster;
using namespace muster::test;

namespace {

// Text enough for several blocks: a long file, a JSONL file, small files and a binary.
void put_text(const Folder& folder) {
  std::string sentence;
  std::string long_text;
  std::string lines;
  for (int i = 0; long_text.size() < 2200000; ++i) {
    sentence = "Number " + std::to_string(i * 7919 % 10007) +
               " isn't \xc3\xbc"
               "ber " +
               std::to_string(i) + ".\n";
    long_text += sentence;
    if (i % 3 == 0) lines += "{\"text\": \"line " + std::to_string(i) + " of\\nmany\"}\n";
  }
  put(folder / "text/a.txt", long_text);
  put(folder / "text/b.jsonl", lines);
  put(folder / "text/c/small.txt", "small");
  put(folder / "text/d.bin", std::string("\x7f\0ELF", 5));
  put(folder / "text/empty.txt", "");
  put(folder / "text/solid.txt", std::string(1200000, 'x'));
}

void run_tokenize(TokenizeOptions options) {
  tokenize(options, [](const std::string&) {});
}

TokenizeOptions a_job(const Folder& folder, const std::string& out) {
  TokenizeOptions options;
  options.files = {folder / "text"};
  options.out = folder / out;
  options.shard_tokens = 400000;
  return options;
}

void check_same_files(const std::string& one, const std::string& other) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(one)) {
    ++files;
    CHECK(content_of(entry.path()) == content_of(other + "/" + entry.path().filename().string()));
  }
  CHECK(files >= 4);
}

}  // namespace

TEST_CASE("equal text and options give equal bytes, whatever the number of threads") {
  Folder folder;
  put_text(folder);
  TokenizeOptions options = a_job(folder, "one");
  options.train = true;
  options.vocabulary = 600;
  run_tokenize(options);
  for (const std::size_t threads : {2, 5}) {
    options.threads = threads;
    options.out = folder / std::to_string(threads);
    run_tokenize(options);
    check_same_files(folder / "one", options.out);
  }
  TokenizeOptions again = a_job(folder, "again");
  again.tokenizer = folder / "one/tokenizer.json";
  run_tokenize(again);
  check_same_files(folder / "one", folder / "again");
}

TEST_CASE("every document comes back from the dataset, in order") {
  Folder folder;
  put_text(folder);
  TokenizeOptions options = a_job(folder, "out");
  options.train = true;
  options.vocabulary = 400;
  options.threads = 2;
  run_tokenize(options);
  CHECK(read_document(folder / "out", 0) == content_of(folder / "text/a.txt"));
  CHECK(read_document(folder / "out", 1) == "line 0 of\nmany");
  CHECK(read_document(folder / "out", 5) == "line 12 of\nmany");
  const auto index = read_dataset_index(folder / "out");
  REQUIRE(index);
  CHECK(index.value().documents > 1000);
  CHECK(read_document(folder / "out", index.value().documents - 2) == "small");
  CHECK(read_document(folder / "out", index.value().documents - 1) == std::string(1200000, 'x'));
  CHECK_THROWS_WITH(read_document(folder / "out", index.value().documents),
                    ContainsSubstring("--document"));
}

TEST_CASE("a long text has the same tokens as when it is not cut into blocks") {
  Folder folder;
  put_text(folder);
  TokenizeOptions options = a_job(folder, "out");
  options.files = {folder / "text/a.txt"};
  options.train = true;
  options.vocabulary = 500;
  run_tokenize(options);
  const Tokenizer tokenizer = read_tokenizer(folder / "out/tokenizer.json", "");
  std::vector<std::uint32_t> expected;
  Encoder(tokenizer).encode(content_of(folder / "text/a.txt"), expected);
  expected.push_back(tokenizer.end_of_document());
  const auto line = opened(found_at(folder / "out"));
  REQUIRE(line->size() == expected.size());
  std::vector<std::uint32_t> tokens(expected.size());
  line->copy(0, tokens);
  CHECK(tokens == expected);
}

TEST_CASE("bytes are the tokens that training on text itself has") {
  Folder folder;
  put(folder / "text/a.txt", "one");
  put(folder / "text/b.txt", "\xff");
  run_tokenize(a_job(folder, "out"));
  const auto line = opened(found_at(folder / "out"));
  std::vector<std::uint32_t> tokens(line->size());
  line->copy(0, tokens);
  CHECK(tokens == std::vector<std::uint32_t>{'o', 'n', 'e', 0, 255, 0});
  CHECK(found_at(folder / "out").vocabulary == 256);
}

TEST_CASE("a dataset without an index gets one that finds the same tokens") {
  Folder folder;
  put_text(folder);
  run_tokenize(a_job(folder, "out"));
  const std::string index = content_of(folder / "out/muster-dataset.json");
  std::filesystem::remove(folder / "out/muster-dataset.json");
  index_token_files(folder / "out", 0, 2);
  CHECK(content_of(folder / "out/muster-dataset.json") == index);
  CHECK_THROWS_WITH(index_token_files(folder / "out", 0, 2), ContainsSubstring("already"));
  CHECK_THROWS_WITH(index_token_files(folder / "text", 0, 2), ContainsSubstring("no files"));
  ADataset{folder / "plain", 100, 100, 500, 1}.write();
  std::filesystem::remove(folder / "plain/muster-dataset.json");
  CHECK_THROWS_WITH(index_token_files(folder / "plain", 0, 1), ContainsSubstring("--vocabulary"));
  CHECK_THROWS_WITH(index_token_files(folder / "plain", 300, 1), ContainsSubstring("byte 10"));
  index_token_files(folder / "plain", 500, 1);
  CHECK(found_at(folder / "plain").vocabulary == 500);
}

TEST_CASE("shards of a tokenization that was ended are not taken for all of them") {
  Folder folder;
  std::vector<std::uint32_t> tokens(1000, 7);
  {
    DatasetWriter writer({folder / "set", 2, 300, 500, "0123456789abcdef"});
    writer.add(tokens, {});
  }
  const std::string whole = "belongs to tokens that are not whole";
  for (const char* path : {"set", "set/tokens-000001.bin"}) {
    CHECK_THAT(find_token_dataset({folder / path}).reason(), ContainsSubstring(whole));
  }
  CHECK_THROWS_WITH(index_token_files(folder / "set", 0, 1), ContainsSubstring(whole));
  DatasetWriter again({folder / "set", 2, 300, 500, "0123456789abcdef"});
  again.add(tokens, {});
  again.finish();
  CHECK(found_at(folder / "set").tokens() == 1000);
  CHECK(found_at(folder / "set/tokens-000001.bin").tokens() == 300);
}

TEST_CASE("where the tokens cannot go is said before a tokenizer is trained") {
  Folder folder;
  put_text(folder);
  run_tokenize(a_job(folder, "out"));
  TokenizeOptions options = a_job(folder, "out");
  options.train = true;
  options.vocabulary = 300;
  const auto complaint = [&] {
    std::string said;
    CHECK_THROWS_AS(tokenize(options, [&](const std::string& line) { said += line; }), StartError);
    return said;
  };
  CHECK(complaint() == "");
  options.out = folder / "other";
  options.vocabulary = 65537;
  options.shard_version = 1;
  CHECK(complaint() == "");
}

TEST_CASE("a NUL in JSONL is no end of a document") {
  Folder folder;
  put(folder / "text/a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"a\\u0000b\"}\n");
  const std::string complaint = "a.jsonl:2: holds a NUL character";
  CHECK_THROWS_WITH(run_tokenize(a_job(folder, "bytes")), ContainsSubstring(complaint));
  CHECK_THROWS_WITH(read_corpus({folder / "text"}, 1000), ContainsSubstring(complaint));
  TokenizeOptions options = a_job(folder, "trained");
  options.train = true;
  options.vocabulary = 257;
  run_tokenize(options);
  CHECK(read_document(folder / "trained", 1) == std::string("a\0b", 3));
}

TEST_CASE("the vocabulary that an index is given counts, whatever the files say") {
  Folder folder;
  ADataset{folder / "set", 100, 40, 500}.write();
  std::filesystem::remove(folder / "set/muster-dataset.json");
  index_token_files(folder / "set", 512, 1);
  CHECK(found_at(folder / "set").vocabulary == 512);
}

TEST_CASE("a tokenizer that was changed beside its dataset is refused") {
  Folder folder;
  put_text(folder);
  run_tokenize(a_job(folder, "out"));
  damage(folder / "out/tokenizer.json", 300);
  CHECK_THROWS_WITH(read_tokenizer(folder / "out/tokenizer.json", ""),
                    ContainsSubstring("was changed since"));
}

TEST_CASE("mistakes in tokenizing are one sentence each") {
  Folder folder;
  put(folder / "text/a.txt", "one");
  const auto refused = [&](const std::function<void(TokenizeOptions&)>& change,
                           const std::string& why) {
    TokenizeOptions options = a_job(folder, "out");
    change(options);
    CHECK_THROWS_WITH(run_tokenize(options), ContainsSubstring(why));
  };
  refused([](TokenizeOptions& o) { o.out = ""; }, "--out");
  refused([](TokenizeOptions& o) { o.files = {}; }, "no text was named");
  refused([](TokenizeOptions& o) { o.files = {"/gone"}; }, "/gone does not exist");
  refused([](TokenizeOptions& o) { o.files = {"/dev/zero"}; }, "neither a regular file");
  refused([](TokenizeOptions& o) { o.train = true; }, "expected 257 or more");
  refused([](TokenizeOptions& o) { o.vocabulary = 300; }, "unless --train");
  refused(
      [](TokenizeOptions& o) {
        o.train = true;
        o.tokenizer = "x";
      },
      "use either");
  refused([](TokenizeOptions& o) { o.tokenizer = "/gone.json"; }, "/gone.json");
  put(folder / "text/a.txt", std::string(100000, 'x') + '\0');
  refused([](TokenizeOptions&) {}, "a.txt: byte 100000: is not text");
  put(folder / "text/a.txt", "");
  refused([](TokenizeOptions&) {}, "no text");
  put(folder / "text/a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
  refused([](TokenizeOptions&) {}, "a.jsonl:2: is no JSON object");
  put(folder / "text/a.jsonl", "{\"text\": \"caf\xe9\"}\n");
  refused([](TokenizeOptions&) {}, "a.jsonl:1: is not JSON in UTF-8");
}
