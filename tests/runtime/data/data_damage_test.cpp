// Every file of a dataset with random changes: never a crash, never a change that passes for good.
#include <random>

#include "runtime/data/token_dataset.h"
#include "runtime/tokenize/tokenizer.h"
#include "runtime/tokenize/tokenizer_file.h"
#include "tests/catch.h"
#include "tests/runtime/a_dataset.h"

using namespace muster;
using namespace muster::test;

namespace {

// Bytes changed, cut out, put in, or cut off; never the same as before.
std::string mutated(const std::string& good, std::mt19937_64& random) {
  std::string bad = good;
  const auto place = [&] { return random() % bad.size(); };
  switch (random() % 5) {
    case 0:
      bad[place()] ^= static_cast<char>(1 + random() % 255);
      break;
    case 1:
      for (int i = 0; i < 8; ++i) bad[place()] = static_cast<char>(random());
      break;
    case 2:
      bad.resize(place());
      break;
    case 3:
      bad.insert(place(), std::string(1 + random() % 9, static_cast<char>(random())));
      break;
    default:
      bad.erase(place(), 1 + random() % 9);
  }
  return bad;
}

}  // namespace

TEST_CASE("no changed file of tokens passes for the one in the index, or for its own checksums") {
  std::mt19937_64 random(1);
  for (const std::uint32_t version : {1u, 2u}) {
    Folder folder;
    const ADataset set{folder / "set", 700, 300, 500, version};
    set.write();
    const TokenDataset dataset = found_at(folder / "set");
    const std::string good = content_of(set.shard(1));
    for (int round = 0; round < 400; ++round) {
      const std::string bad = mutated(good, random);
      if (bad == good) continue;
      put(set.shard(1), bad);
      const auto found = find_token_dataset({folder / "set"});
      if (found) CHECK_FALSE(verify_chunks(*found.value(), {0, dataset.chunks()}, 500, 1));
      if (version == 1) continue;
      // The file alone, without an index.
      const auto alone = find_token_dataset({set.shard(1)});
      if (!alone || !alone.value()) continue;
      CHECK_FALSE(verify_chunks(*alone.value(), {0, alone.value()->chunks()}, 500, 1));
      const DatasetShard& shard = alone.value()->shards[0];
      read_token_shard_documents(shard.path, shard.layout).ok();
    }
  }
}

TEST_CASE(
    "no header of a file of tokens, whatever its bytes, is read as another size than planned") {
  std::mt19937_64 random(2);
  const TokenShardLayout layout = plan_token_shard(2, 2, 500, 300, 5);
  const std::string good = format_token_shard_header(layout);
  for (int round = 0; round < 20000; ++round) {
    const std::string bad = mutated(good, random);
    const auto read = parse_token_shard_header(bad, "x");
    if (read) CHECK(bad.substr(0, 1024) == good);
  }
}

TEST_CASE("no changed index is read") {
  std::mt19937_64 random(3);
  Folder folder;
  ADataset{folder / "set"}.write();
  const std::string good = content_of(folder / "set/muster-dataset.json");
  REQUIRE(parse_dataset_index(good, "x"));
  for (int round = 0; round < 20000; ++round) {
    const std::string bad = mutated(good, random);
    if (bad == good) continue;
    CHECK_FALSE(parse_dataset_index(bad, "x"));
  }
}

TEST_CASE("an index that is sealed and wrong inside is refused") {
  Folder folder;
  const DatasetIndex good = ADataset{folder / "set"}.write();
  const auto refused = [](DatasetIndex bad, const std::string& why) {
    const auto read = parse_dataset_index(format_dataset_index(bad), "x");
    REQUIRE_FALSE(read);
    CHECK_THAT(read.reason(), ContainsSubstring(why));
  };
  DatasetIndex bad = good;
  bad.dataset.shards[0].path = "../etc/passwd";
  refused(bad, "not a plain file name");
  bad = good;
  bad.dataset.shards[0].layout.tokens = 1ull << 63;
  refused(bad, "impossible");
  bad = good;
  bad.dataset.shards[0].layout.file_bytes += 1;
  refused(bad, "bytes does not match");
  bad = good;
  bad.dataset.shards[0].chunk_crc32c.push_back(0);
  refused(bad, "one checksum per MiB");
  bad = good;
  bad.dataset.vocabulary = 0;
  refused(bad, "vocabulary");
  bad = good;
  bad.dataset.shards.clear();
  refused(bad, "none");
}

TEST_CASE("a changed tokenizer file is refused or is another tokenizer, and never crashes") {
  std::mt19937_64 random(4);
  WordCounts words;
  words.add_text("the cat sat on the mat, the cat sat on the hat");
  const std::string good = format_tokenizer(train_tokenizer(words, 270));
  REQUIRE(parse_tokenizer(good, ""));
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string bad = mutated(good, random);
    if (bad == good) continue;
    CHECK(tokenizer_hash(bad) != tokenizer_hash(good));
    const auto read = parse_tokenizer(bad, "");
    if (!read) continue;
    ++accepted;
    std::vector<std::uint32_t> tokens;
    Encoder(read.value()).encode("the cat sat\xff", tokens);
    CHECK(read.value().decode(tokens) == "the cat sat\xff");
  }
  CHECK(accepted < 3000);
}
