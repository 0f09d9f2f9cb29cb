#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "runtime/data/sampler.h"
#include "runtime/tokenize/text_blocks.h"
#include "tests/catch.h"
#include "tests/runtime/folder.h"

using namespace muster;
using muster::test::Folder;
using muster::test::put;

TEST_CASE("every window is drawn exactly once per epoch, in another order each time") {
  for (const std::size_t windows : {1, 2, 3, 5, 16, 17, 100, 1000}) {
    const TextTokens corpus(std::string(windows * 4 + 1, 'x'));
    const Sampler sampler(corpus, 4, 9);
    REQUIRE(sampler.windows() == windows);
    std::vector<std::vector<std::uint64_t>> orders(3);
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      for (std::size_t i = 0; i < windows; ++i) {
        orders[epoch].push_back(sampler.window_of(epoch * windows + i));
      }
      const std::set<std::uint64_t> distinct(orders[epoch].begin(), orders[epoch].end());
      CHECK(distinct.size() == windows);
      CHECK(*distinct.rbegin() == windows - 1);
    }
    if (windows >= 16) CHECK(orders[0] != orders[1]);
  }
}

TEST_CASE("the order of samples depends on the seed") {
  const TextTokens corpus(std::string(4001, 'x'));
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    same += Sampler(corpus, 4, 1).window_of(i) == Sampler(corpus, 4, 2).window_of(i);
  }
  CHECK(same < 10);
}

TEST_CASE("a sample is context + 1 consecutive bytes, and all bytes are targets once") {
  std::string corpus;
  for (int i = 0; i < 41; ++i) corpus.push_back(static_cast<char>(i));
  const TextTokens line(corpus);
  const Sampler sampler(line, 8, 3);
  REQUIRE(sampler.windows() == 5);
  std::set<int> targets;
  for (std::uint64_t g = 0; g < 5; ++g) {
    std::vector<std::uint32_t> bytes(9);
    sampler.copy(g, bytes);
    for (int i = 1; i <= 8; ++i) {
      CHECK(bytes[i] == bytes[0] + i);
      targets.insert(bytes[i]);
    }
  }
  CHECK(targets.size() == 40);
  const TextTokens too_short("too short");
  CHECK(Sampler(too_short, 9, 1).windows() == 0);
}

TEST_CASE("what a source is told to expect for a sample is what is copied for it") {
  struct Asked final : TokenSource {
    using Stretch = std::pair<std::uint64_t, std::uint64_t>;
    std::uint64_t size() const override { return 41; }
    void expect(std::uint64_t at, std::uint64_t count) const override {
      expected.push_back({at, count});
    }
    void copy(std::uint64_t at, std::span<std::uint32_t> tokens) const override {
      copied.push_back({at, tokens.size()});
    }
    mutable std::vector<Stretch> expected, copied;
  };
  const Asked source;
  const Sampler sampler(source, 8, 3);
  std::vector<std::uint32_t> tokens(9);
  for (std::uint64_t sample = 0; sample < 12; ++sample) {
    sampler.expect(sample);
    sampler.copy(sample, tokens);
  }
  CHECK(source.expected.size() == 12);
  CHECK(source.expected == source.copied);
}

TEST_CASE("text is found recursively in sorted order, without hidden entries and binaries") {
  Folder folder;
  put(folder / "b/two.txt", "two");
  put(folder / "a.txt", "one");
  put(folder / ".git/config", "hidden");
  put(folder / ".secret", "hidden");
  put(folder / "image.bin", std::string("\x7f\0ELF", 5));
  put(folder / "empty.txt", "");
  CHECK(read_corpus({folder.path()}, 1000) == std::string("one\0two\0", 8));
  CHECK(read_corpus({folder / "b", folder / "a.txt"}, 1000) == std::string("two\0one\0", 8));
}

TEST_CASE("every line of a JSONL file is a document") {
  Folder folder;
  put(folder / "a.jsonl",
      "{\"text\": \"one\\u00e9\"}\n\n{\"n\": 1, \"text\": \"\"}\n{\"text\":\"two\"}");
  put(folder / "b.txt", "three");
  CHECK(read_corpus({folder.path()}, 1000) == std::string("one\xc3\xa9\0two\0three\0", 16));
  CHECK_THROWS_WITH(read_corpus({folder.path()}, 1000, {}, "body"),
                    ContainsSubstring("a.jsonl:1: is no JSON object with the text \"body\""));
  put(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \n");
  CHECK_THROWS_WITH(read_corpus({folder.path()}, 1000), ContainsSubstring("a.jsonl:2:"));
}

TEST_CASE("data that cannot be trained on is refused, with its name") {
  Folder folder;
  put(folder / "image.bin", std::string("\x7f\0ELF", 5));
  put(folder / "large.txt", std::string(100, 'x'));
  CHECK_THROWS_WITH(read_corpus({}, 1000), ContainsSubstring("no training text was named"));
  CHECK_THROWS_WITH(read_corpus({folder / "gone"}, 1000), ContainsSubstring("gone does not exist"));
  CHECK_THROWS_WITH(read_corpus({folder / "image.bin"}, 1000), ContainsSubstring("is not text"));
  CHECK_THROWS_WITH(
      read_corpus({folder.path()}, 50),
      ContainsSubstring("large.txt the text is more than is held in memory: tokenize"));
  put(folder / "nothing/x.bin", std::string(1, '\0'));
  CHECK_THROWS_WITH(read_corpus({folder / "nothing"}, 50), ContainsSubstring("no text found"));
}

TEST_CASE("what is no file is refused when it is named, and passed over in a directory") {
  Folder folder;
  put(folder / "text/a.txt", "hello");
  REQUIRE(::mkfifo((folder / "text/pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("circle", folder / "text/circle");
  std::filesystem::create_symlink("gone", folder / "text/dangling");
  CHECK(read_corpus({folder / "text"}, 1000) == std::string("hello\0", 6));
  CHECK_THROWS_WITH(read_corpus({folder / "text/pipe"}, 1000),
                    ContainsSubstring("neither a regular file nor a directory"));
  CHECK_THROWS_WITH(read_corpus({"/dev/zero"}, 1000),
                    ContainsSubstring("neither a regular file nor a directory"));
  // A file that opens and then cannot be read.
  CHECK_THROWS_AS(read_corpus({folder / "text/circle"}, 1000), StartError);
}

TEST_CASE("what a run writes below its own text does not become text") {
  Folder folder;
  put(folder / "a.txt", "hello");
  put(folder / "out/metrics.jsonl", "{}");
  put(folder / "ckpt/resume_log.jsonl", "{}");
  CHECK(find_data_files({folder.path()}, {folder / "out/", folder / "./ckpt", "/none"}) ==
        std::vector<std::string>{folder / "a.txt"});
}

TEST_CASE("a dataset inside a directory of text is not taken for text") {
  Folder folder;
  put(folder / "a.txt", "hello");
  put(folder / "tokens/muster-dataset.json", "{}");
  CHECK_THROWS_WITH(read_corpus({folder.path()}, 1000),
                    ContainsSubstring("tokens holds tokens and is in a directory of text"));
  CHECK(find_data_files({folder.path()}, {folder / "tokens"}).size() == 1);
}

TEST_CASE("a text of exactly the limit leaves no room for another") {
  Folder folder;
  put(folder / "a", "1234");
  put(folder / "b", "5");
  CHECK(read_corpus({folder / "a"}, 4).size() == 5);
  CHECK_THROWS_AS(read_corpus({folder / "a", folder / "b"}, 4), StartError);
}
