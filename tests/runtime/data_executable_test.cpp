// The real muster-train from text to tokens to weights, and with data that is not what it was.

#include "tests/catch.h"
#include "tests/runtime/a_trainer.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

// Tokens of this folder's sources at `out`.
void tokenize_sources(const Folder& folder, const std::string& out,
                      std::vector<std::string> options = {}) {
  std::vector<std::string> words{"tokenize",       MUSTER_SOURCE_DIR "/tests/runtime",
                                 "--out",          folder / out,
                                 "--shard-tokens", "50000"};
  words.insert(words.end(), options.begin(), options.end());
  const Ended ended = Trainer(folder).run_alone(words);
  INFO(ended.output);
  REQUIRE(ended.code == 0);
}

using Options = std::vector<std::string>;

Options with(Options options, const Options& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("text tokenized, trained on, killed and resumed ends in the bytes of one run") {
  Folder folder;
  tokenize_sources(folder, "set", {"--train", "--vocabulary", "700"});
  const Options job{"--data", folder / "set", "--steps", "20", "--checkpoint-every", "6"};
  const Ended whole = Trainer(folder).run(2, with(job, {"--out", folder / "whole"}));
  INFO(whole.output);
  REQUIRE(whole.code == 0);
  CHECK_THAT(whole.output, ContainsSubstring("verified"));
  const Options broken = with(job, {"--out", folder / "job", "--checkpoint-dir", folder / "ckpt",
                                    "--resume", "auto", "--fail-at-step", "15"});
  CHECK(Trainer(folder).run(2, broken).code == 137);
  const Ended resumed = Trainer(folder)
                            .with("MUSTER_ATTEMPT", "1")
                            .run(2, with(broken, {"--data-cache", folder / "cache"}));
  INFO(resumed.output);
  REQUIRE(resumed.code == 0);
  CHECK_THAT(resumed.output, ContainsSubstring("at step 12"));
  CHECK(weights(folder, "job") == weights(folder, "whole"));
}

TEST_CASE("bytes in files of tokens train to the weights of the text itself") {
  Folder folder;
  tokenize_sources(folder, "set");
  const Options job{"--steps", "5"};
  const Ended text = Trainer(folder).run(0, with(job, {"--out", folder / "text"}));
  REQUIRE(text.code == 0);
  const Ended tokens =
      Trainer(folder).run(0, with(job, {"--data", folder / "set", "--out", folder / "tokens"}));
  INFO(tokens.output);
  REQUIRE(tokens.code == 0);
  CHECK(weights(folder, "tokens") == weights(folder, "text"));
}

TEST_CASE("a run does not go on with another dataset") {
  Folder folder;
  tokenize_sources(folder, "one", {"--train", "--vocabulary", "400"});
  tokenize_sources(folder, "two", {"--train", "--vocabulary", "400", "--shard-version", "1"});
  const Options job{"--steps", "4",     "--checkpoint-dir", folder / "ckpt", "--resume",
                    "auto",    "--out", folder / "out"};
  REQUIRE(Trainer(folder).run(0, with(job, {"--data", folder / "one"})).code == 0);
  const Ended other = Trainer(folder).run(0, with(job, {"--data", folder / "two"}));
  CHECK(other.code == 2);
  CHECK_THAT(other.output, ContainsSubstring("is not the one"));
  // The same files without their index, and elsewhere, are the same dataset.
  std::filesystem::rename(folder / "one", folder / "moved");
  std::filesystem::remove(folder / "moved/muster-dataset.json");
  const Ended same = Trainer(folder).run(
      2, with(job, {"--data", folder / "moved", "--steps", "6", "--leaves", "1", "--leaves", "2"}));
  INFO(same.output);
  CHECK(same.code == 0);
}

TEST_CASE("damaged data ends with exit code 2, the file and the byte, before the first step") {
  Folder folder;
  tokenize_sources(folder, "set");
  const std::string shard = folder / "set/tokens-000001.bin";
  const std::string good = content_of(shard);
  const auto complaint = [&](int ranks, const Options& options) {
    const Ended ended = Trainer(folder).run(
        ranks, with({"--data", folder / "set", "--steps", "3", "--out", folder / "out"}, options));
    CHECK(ended.code == 2);
    CHECK_THAT(ended.output, ContainsSubstring(shard));
    CHECK_THAT(ended.output, !ContainsSubstring("step 1/"));
    return ended.output;
  };
  put(shard, good.substr(0, 7000));
  CHECK_THAT(complaint(2, {}), ContainsSubstring("byte 7000: the file has 7000 bytes"));
  std::string bad = good;
  bad[60000] ^= 1;
  put(shard, bad);
  CHECK_THAT(complaint(2, {}), ContainsSubstring("byte 0: the checksum of the MiB"));
  CHECK_THAT(complaint(0, {}), ContainsSubstring("byte 0: the checksum of the MiB"));
  bad = good;
  bad[8] ^= 1;
  put(shard, bad);
  CHECK_THAT(complaint(0, {"--verify-data", "headers"}),
             ContainsSubstring("byte 1020: the checksum of the header"));
  std::filesystem::remove(shard);
  CHECK_THAT(complaint(2, {}), ContainsSubstring("No such file"));
}

TEST_CASE("a document that cannot be printed is no success") {
  Folder folder;
  tokenize_sources(folder, "set");
  const Ended ended = Trainer(folder)
                          .through("exec \"$0\" \"$@\" > /dev/full")
                          .run_alone({"tokenize", "--show", folder / "set"});
  CHECK(ended.code == 1);
  CHECK_THAT(ended.output, ContainsSubstring("No space left on device"));
}

TEST_CASE("a name of a file commands no terminal") {
  Folder folder;
  const std::string name = folder /
                           "a\x1b[31m\xc2\x9b"
                           "b.txt";
  put(name, std::string(1, '\0'));
  for (const Options& words : {Options{"tokenize", name, "--out", folder / "out"},
                               Options{"--data", name, "--out", folder / "out"}}) {
    const Ended ended = Trainer(folder).run_alone(words);
    CHECK(ended.code == 2);
    CHECK_THAT(ended.output, ContainsSubstring("a?[31m??b.txt is not text"));
  }
}

TEST_CASE("the vocabulary is that of the data, or larger") {
  Folder folder;
  tokenize_sources(folder, "set", {"--train", "--vocabulary", "400"});
  const Options job{"--data", folder / "set", "--steps", "1", "--out", folder / "out"};
  CHECK(Trainer(folder).run(0, with(job, {"--vocabulary", "512"})).code == 0);
  const Ended small = Trainer(folder).run(0, with(job, {"--vocabulary", "399"}));
  CHECK(small.code == 2);
  CHECK(small.output == "muster-train: --vocabulary: the data has 400 tokens, got 399\n");
}

TEST_CASE("a file of llm.c trains when its vocabulary is given") {
  Folder folder;
  tokenize_sources(folder, "set", {"--shard-version", "1"});
  std::filesystem::remove(folder / "set/muster-dataset.json");
  const Options job{"--data", folder / "set", "--steps", "1", "--out", folder / "out"};
  const Ended unknown = Trainer(folder).run(0, job);
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.output, ContainsSubstring("give --vocabulary"));
  CHECK(Trainer(folder).run(0, with(job, {"--vocabulary", "256"})).code == 0);
  const Ended headers =
      Trainer(folder).run(0, with(job, {"--vocabulary", "256", "--verify-data", "headers"}));
  CHECK(headers.code == 2);
  CHECK_THAT(headers.output, ContainsSubstring("muster-train tokenize --index"));
}
