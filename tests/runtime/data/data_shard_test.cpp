#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include "runtime/data/sampler.h"
#include "runtime/data/token_dataset.h"
#include "runtime/protocol/crc32c.h"
#include "tests/catch.h"
#include "tests/runtime/a_dataset.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("a file of version 1 is what tools of llm.c expect, byte for byte") {
  Folder folder;
  ADataset{folder.path(), 5, 5, 65536, 1}.write();
  const std::string file = content_of(folder / "tokens-000000.bin");
  REQUIRE(file.size() == 1024 + 5 * 2);
  std::int32_t header[256];
  std::memcpy(header, file.data(), 1024);
  CHECK(header[0] == 20240520);
  CHECK(header[1] == 1);
  CHECK(header[2] == 5);
  for (int i = 3; i < 256; ++i) CHECK(header[i] == 0);
  for (int i = 0; i < 5; ++i) {
    std::uint16_t token = 0;
    std::memcpy(&token, file.data() + 1024 + i * 2, 2);
    CHECK(token == token_number(i, 65536));
  }
}

TEST_CASE("tokens come back from files of either version and either width") {
  for (const std::uint32_t version : {1u, 2u}) {
    for (const std::uint64_t vocabulary : {256ull, 65536ull, 65537ull, 4000000ull}) {
      if (version == 1 && vocabulary > 65536) continue;
      Folder folder;
      ADataset{folder / "set", 1000, 300, vocabulary, version}.write();
      const TokenDataset dataset = found_at(folder / "set");
      CHECK(dataset.shards.size() == 4);
      CHECK(dataset.vocabulary == vocabulary);
      CHECK(dataset.shards[0].layout.token_bytes == (vocabulary > 65536 ? 4 : 2));
      const auto line = opened(dataset);
      REQUIRE(line->size() == 1000);
      for (const std::uint64_t begin : {0, 1, 299, 300, 250, 899}) {
        std::vector<std::uint32_t> tokens(101);
        line->expect(begin, tokens.size());
        line->copy(begin, tokens);
        for (std::uint64_t i = 0; i < tokens.size(); ++i) {
          CHECK(tokens[i] == token_number(begin + i, vocabulary));
        }
      }
    }
  }
}

TEST_CASE(
    "windows cross the borders of files, so that every token but the first is a target once") {
  Folder folder;
  ADataset{folder / "set", 1001, 17, 500}.write();
  const auto line = opened(found_at(folder / "set"));
  const Sampler sampler(*line, 8, 3);
  REQUIRE(sampler.windows() == 125);
  std::vector<int> targets(1001);
  for (std::uint64_t sample = 0; sample < 125; ++sample) {
    const std::uint64_t begin = sampler.window_of(sample) * 8;
    std::vector<std::uint32_t> tokens(9);
    sampler.copy(sample, tokens);
    for (std::uint64_t i = 0; i < 9; ++i) CHECK(tokens[i] == token_number(begin + i, 500));
    for (std::uint64_t i = 1; i < 9; ++i) ++targets[begin + i];
  }
  CHECK(targets[0] == 0);
  for (std::size_t i = 1; i < targets.size(); ++i) CHECK(targets[i] == 1);
}

TEST_CASE("a line of more than 2^32 tokens is counted in 64 bits") {
  const TokenShardLayout layout = plan_token_shard(2, 4, 1 << 20, 5ull << 32, 3);
  const auto back = parse_token_shard_header(format_token_shard_header(layout), "x");
  REQUIRE(back);
  CHECK(back.value() == layout);
  CHECK(layout.file_bytes > 20ull << 32);
}

TEST_CASE("the documents of a dataset are found in the files in which they begin") {
  Folder folder;
  const DatasetIndex index = ADataset{folder / "set"}.write();
  CHECK(index.documents == 15);
  std::uint64_t shard_begin = 0;
  std::uint64_t expected = 0;
  for (const DatasetShard& shard : found_at(folder / "set").shards) {
    const auto documents = read_token_shard_documents(shard.path, shard.layout);
    REQUIRE(documents);
    for (const std::uint64_t document : documents.value()) {
      CHECK(shard_begin + document == expected);
      expected += 70;
    }
    shard_begin += shard.layout.tokens;
  }
  CHECK(expected == 15 * 70);
}

TEST_CASE("datasets, directories and lists of files are one line of tokens") {
  Folder folder;
  ADataset{folder / "a", 40, 30}.write();
  ADataset{folder / "b", 20, 30}.write();
  const auto both = find_token_dataset({folder / "a", folder / "b/muster-dataset.json"});
  REQUIRE(both);
  CHECK(both.value()->tokens() == 60);
  CHECK(both.value()->has_checksums());
  std::filesystem::remove(folder / "a/muster-dataset.json");
  const TokenDataset bare = found_at(folder / "a");
  CHECK(bare.tokens() == 40);
  CHECK(bare.vocabulary == 500);
  CHECK_FALSE(bare.has_checksums());
  const auto list =
      find_token_dataset({folder / "a/tokens-000001.bin", folder / "a/tokens-000000.bin"});
  REQUIRE(list);
  CHECK(list.value()->shards[0].layout.tokens == 10);
  put(folder / "text/a.txt", "text");
  const auto text = find_token_dataset({folder / "text"});
  REQUIRE(text);
  CHECK_FALSE(text.value());
}

TEST_CASE("what is no line of tokens is refused with the reason") {
  Folder folder;
  ADataset{folder / "a", 40, 30}.write();
  put(folder / "text.txt", "text");
  const auto mixed = find_token_dataset({folder / "a", folder / "text.txt"});
  REQUIRE_FALSE(mixed);
  CHECK_THAT(mixed.reason(), ContainsSubstring("text.txt is text"));
  DatasetWriter({folder / "b", 2, 30, 500, "another"}).add(std::vector<std::uint32_t>(9), {});
  DatasetWriter other({folder / "c", 2, 30, 500, "fedcba9876543210"});
  other.add(std::vector<std::uint32_t>(9), {});
  other.finish();
  const auto tokenizers = find_token_dataset({folder / "a", folder / "c"});
  REQUIRE_FALSE(tokenizers);
  CHECK_THAT(tokenizers.reason(), ContainsSubstring("from another tokenizer"));
  put(folder / "a/extra.bin", "no tokens");
  std::filesystem::remove(folder / "a/muster-dataset.json");
  const auto stranger = find_token_dataset({folder / "a"});
  REQUIRE_FALSE(stranger);
  CHECK_THAT(stranger.reason(), ContainsSubstring("extra.bin: byte 9: the file ends inside"));
}

TEST_CASE("a file that is missing, short, long or another one is named with the byte") {
  Folder folder;
  const ADataset set{folder / "set"};
  set.write();
  const std::string good = content_of(set.shard(1));
  const auto complaint = [&] {
    const auto found = find_token_dataset({folder / "set"});
    REQUIRE_FALSE(found);
    CHECK_THAT(found.reason(), ContainsSubstring("tokens-000001.bin"));
    return found.reason();
  };
  put(set.shard(1), good.substr(0, 1500));
  CHECK_THAT(complaint(), ContainsSubstring("byte 1500: the file has 1500 bytes"));
  put(set.shard(1), good.substr(0, 100));
  CHECK_THAT(complaint(), ContainsSubstring("byte 100: the file ends inside its header"));
  put(set.shard(1), good + "x");
  CHECK_THAT(complaint(), ContainsSubstring("byte " + std::to_string(good.size())));
  put(set.shard(1), content_of(set.shard(3)));
  CHECK_THAT(complaint(), ContainsSubstring("is another file than"));
  std::filesystem::remove(set.shard(1));
  CHECK_THAT(complaint(), ContainsSubstring("No such file"));
}

TEST_CASE("verification finds a changed byte wherever it is, and says where") {
  Folder folder;
  const ADataset set{folder / "set", 1500000, 700000};
  set.write();
  TokenDataset dataset = found_at(folder / "set");
  REQUIRE(dataset.chunks() == 5);
  CHECK(verify_chunks(dataset, {0, 5}, 500, 3));
  TokenDataset bare = dataset;
  for (DatasetShard& shard : bare.shards) shard.chunk_crc32c.clear();
  const auto computed = verify_chunks(bare, {0, 5}, 500, 2);
  REQUIRE(computed);
  set_checksums(bare, computed.value());
  CHECK(dataset_identity(bare) == dataset_identity(dataset));
  for (DatasetShard& shard : bare.shards) shard.chunk_crc32c.clear();

  damage(set.shard(1), 1100000);
  for (const TokenDataset& known : {dataset, bare}) {
    const auto damaged = verify_chunks(known, {0, 5}, 500, 3);
    REQUIRE_FALSE(damaged);
    CHECK_THAT(damaged.reason(),
               ContainsSubstring("tokens-000001.bin: byte 1048576: the checksum"));
    CHECK(verify_chunks(known, {0, 3}, 500, 1));  // another rank's share
  }
}

TEST_CASE("a token outside the vocabulary is found before it is used") {
  Folder folder;
  const ADataset set{folder / "set", 1000, 300, 500, 1};
  set.write();
  const TokenDataset dataset = found_at(folder / "set");
  std::uint64_t first = 0;
  while (token_number(first, 500) < 400) ++first;
  REQUIRE(first < 300);
  const std::string where = "tokens-000000.bin: byte " + std::to_string(1024 + first * 2) + ": ";
  const auto verified = verify_chunks(dataset, {0, 4}, 400, 2);
  REQUIRE_FALSE(verified);
  CHECK_THAT(verified.reason(), ContainsSubstring(where));
  const auto line = opened(dataset, nullptr, 400);
  std::vector<std::uint32_t> tokens(300);
  CHECK_THROWS_WITH(line->copy(0, tokens), ContainsSubstring(where + "token"));
}

TEST_CASE("a file that becomes shorter while it is read is an error, not the end of the process") {
  Folder folder;
  const ADataset set{folder / "set", 100000, 100000};
  set.write();
  const auto line = opened(found_at(folder / "set"));
  std::vector<std::uint32_t> tokens(100);
  line->copy(90000, tokens);
  std::filesystem::resize_file(set.shard(0), 4096);
  CHECK_THROWS_WITH(line->copy(90000, tokens),
                    ContainsSubstring("tokens-000000.bin: byte 181024: the 200 bytes from here"));
}

TEST_CASE("the shares of the ranks are all chunks, each once") {
  for (const std::size_t parties : {1, 2, 3, 7}) {
    std::uint64_t next = 0;
    for (std::size_t party = 0; party < parties; ++party) {
      const ChunkRange share = share_of_chunks(10, party, parties);
      CHECK(share.lo == next);
      next = share.hi;
    }
    CHECK(next == 10);
  }
}

namespace {

// What this program is told of the file system of a path: its type, or nothing.
std::function<std::optional<std::uint32_t>(const std::string& path)> reported_file_system;

bool are_of_one_storage(const TokenDataset& dataset) {
  CHECK(name_of_files(dataset, "a") == name_of_files(dataset, "a"));
  return name_of_files(dataset, "a") == name_of_files(dataset, "b");
}

}  // namespace

extern "C" int statfs(const char* path, struct statfs* facts) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_statfs, path, facts));
  if (!reported_file_system) return result;
  const auto told = reported_file_system(path);
  if (told) facts->f_type = static_cast<decltype(facts->f_type)>(*told);
  return told ? result : -1;
}

TEST_CASE("files are those of another node where they lie on a file system that nodes share") {
  Folder folder;
  ADataset{folder / "set"}.write();
  const TokenDataset dataset = found_at(folder / "set");
  REQUIRE(dataset.shards.size() > 2);
  std::optional<std::uint32_t> type;
  reported_file_system = [&](const std::string&) { return type; };
  CHECK_FALSE(are_of_one_storage(dataset));  // not known
  // NFS, SMB 2, CIFS, Lustre, Ceph, GPFS, BeeGFS.
  for (const std::uint32_t shared :
       {0x6969u, 0xFE534D42u, 0xFF534D42u, 0x0BD00BD0u, 0x00C36400u, 0x47504653u, 0x19830326u}) {
    type = shared;
    CHECK(are_of_one_storage(dataset));
  }
  // ext4, XFS, tmpfs.
  for (const std::uint32_t own : {0xEF53u, 0x58465342u, 0x01021994u}) {
    type = own;
    CHECK_FALSE(are_of_one_storage(dataset));
  }
  for (const DatasetShard& odd : {dataset.shards.front(), dataset.shards.back()}) {
    reported_file_system = [path = odd.path](const std::string& asked) {
      return asked == path ? 0xEF53u : 0x6969u;
    };
    CHECK_FALSE(are_of_one_storage(dataset));
  }
  reported_file_system = nullptr;
}

TEST_CASE("files that were written anew have another name, on the same node too") {
  Folder folder;
  ADataset{folder / "set"}.write();
  const TokenDataset dataset = found_at(folder / "set");
  const std::string before = name_of_files(dataset, "a");
  const std::string path = dataset.shards[1].path;
  const std::string content = content_of(path);
  put(path, content + "x");
  CHECK(name_of_files(dataset, "a") != before);
  std::filesystem::remove(path);
  CHECK(name_of_files(dataset, "a") != before);
  CHECK(name_of_files(dataset, "a") != name_of_files(dataset, "b"));
}

TEST_CASE("a directory that holds a dataset is not written over") {
  Folder folder;
  ADataset{folder / "set"}.write();
  CHECK_THROWS_WITH(ADataset{folder / "set"}.write(), ContainsSubstring("holds a dataset already"));
  CHECK_THROWS_WITH((ADataset{folder / "new", 10, 10, 65537, 1}.write()),
                    ContainsSubstring("--shard-version 1 holds tokens below 65536"));
}
