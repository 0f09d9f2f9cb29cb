// Every byte of a checkpoint is read, and damage of each kind is named with its place.

#include "runtime/checkpoint/verify.h"

#include <filesystem>

#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/crc32c.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

std::string shard_of(const ACheckpoint& one, std::size_t rank) {
  return one.path() + "/" + checkpoint_shard_name(rank, one.ranks);
}

void flip(const std::string& file, std::size_t at) {
  std::string bytes = content_of(file);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x10);
  put(file, bytes);
}

CheckpointVerdict verdict_of(const ACheckpoint& one, unsigned threads = 2) {
  return verify_checkpoint(one.path(), {.threads = threads});
}

// Checksums of the whole shard and of small chunks, so that there are several.
void use_chunks(ShardRecord& shard, const std::string& path, std::uint64_t chunk_bytes) {
  const std::string bytes = content_of(path + "/" + shard.file);
  shard.chunk_bytes = chunk_bytes;
  shard.chunk_crc32c.clear();
  for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    shard.chunk_crc32c.push_back(crc32c(std::string_view(bytes).substr(at, chunk_bytes)));
  }
}

Manifest commit_in_chunks(const ACheckpoint& one) {
  Manifest manifest = one.manifest_with_shards();
  for (ShardRecord& shard : manifest.shards) use_chunks(shard, one.path(), 8192);
  REQUIRE(commit_checkpoint(one.root, manifest).ok());
  return manifest;
}

}  // namespace

TEST_CASE("checksums of parts combine to that of the whole") {
  const std::string text =
      content_of(MUSTER_SOURCE_DIR "/tests/runtime/checkpoint/verify_test.cpp");
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{777}, text.size()}) {
    const std::string_view whole = text;
    CHECK(crc32c_combine(crc32c(whole.substr(0, cut)), crc32c(whole.substr(cut)),
                         text.size() - cut) == crc32c(whole));
  }
}

TEST_CASE("an undamaged checkpoint is good with any number of threads, and is read whole") {
  Folder folder;
  const ACheckpoint one{.root = folder.path(), .ranks = 3};
  const Manifest manifest = commit_in_chunks(one);
  std::uint64_t bytes = 0;
  for (const ShardRecord& shard : manifest.shards) bytes += shard.bytes;
  for (const unsigned threads : {1u, 2u, 5u}) {
    std::uint64_t told = 0;
    const auto verdict =
        verify_checkpoint(one.path(), {threads, [&](std::uint64_t more) { told += more; }});
    CHECK(verdict.good());
    CHECK(verdict.bytes == bytes);
    CHECK(told == bytes);
  }
}

TEST_CASE("a flipped byte is named with its file and chunk, wherever it is") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  commit_in_chunks(one);
  const std::string file = shard_of(one, 1);
  const std::string whole = content_of(file);
  for (std::size_t at = 0; at < whole.size(); at += 997) {
    flip(file, at);
    const auto verdict = verdict_of(one);
    CAPTURE(at);
    REQUIRE(verdict.damage.size() == 1);
    CHECK(verdict.damage[0].file == checkpoint_shard_name(1, 2));
    CHECK(verdict.damage[0].offset_bytes == at / 8192 * 8192);
    CHECK_THAT(verdict.damage[0].what, ContainsSubstring("do not match their checksum"));
    CHECK(verdict.damage[0].names_range);
    put(file, whole);
  }
  flip(file, 5);
  flip(file, 20000);
  flip(shard_of(one, 0), 5);
  CHECK(verdict_of(one).damage.size() == 3);
}

TEST_CASE("a file that is cut, longer, missing or unreadable is named") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  const std::string file = shard_of(one, 0);
  const std::string whole = content_of(file);
  put(file, whole.substr(0, 5000));
  auto verdict = verdict_of(one);
  REQUIRE(verdict.damage.size() == 1);
  CHECK(verdict.damage[0].offset_bytes == 5000);
  CHECK_THAT(verdict.damage[0].what, ContainsSubstring("ends here"));
  put(file, whole + "x");
  verdict = verdict_of(one);
  REQUIRE(verdict.damage.size() == 1);
  CHECK(verdict.damage[0].offset_bytes == whole.size());
  fs::remove(file);
  verdict = verdict_of(one);
  REQUIRE(verdict.damage.size() == 1);
  CHECK_THAT(verdict.damage[0].what, ContainsSubstring("No such file"));
  fs::create_directory(file);
  CHECK(verdict_of(one).damage.size() == 1);
}

TEST_CASE("a manifest that is damaged, gone or of another checkpoint is named") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  fs::copy(one.path(), folder / "s000000011-g1");
  const auto foreign = verify_checkpoint(folder / "s000000011-g1", {});
  REQUIRE(foreign.damage.size() == 1);
  CHECK_THAT(foreign.damage[0].what, ContainsSubstring("belongs to s000000010-g1"));
  flip(one.path() + "/manifest.json", 100);
  REQUIRE(verdict_of(one).damage.size() == 1);
  CHECK(verdict_of(one).damage[0].file == "manifest.json");
  fs::remove(one.path() + "/manifest.json");
  CHECK_THAT(verdict_of(one).damage.at(0).what, ContainsSubstring("No such file"));
}

TEST_CASE("values that were wrong before their checksum was taken are found by their vitals") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  const auto damage_of = [&](const std::function<void(Manifest&)>& change) {
    Manifest manifest = one.manifest_with_shards();
    change(manifest);
    REQUIRE(commit_checkpoint(folder.path(), manifest).ok());
    const auto verdict = verdict_of(one);
    REQUIRE(verdict.damage.size() == 1);
    return verdict.damage[0].file + ": " + verdict.damage[0].what;
  };
  CHECK_THAT(damage_of([](Manifest& m) { m.shards[0].vitals[1].hash += 1; }),
             ContainsSubstring("exp_avg: not the values") && ContainsSubstring("hash"));
  CHECK_THAT(damage_of([](Manifest& m) { m.shards[1].vitals[2].l2 *= 1.001; }),
             ContainsSubstring("exp_avg_sq") && ContainsSubstring(": l2"));
  CHECK_THAT(damage_of([](Manifest& m) { m.shards[1].vitals[0].absmax *= 2; }),
             ContainsSubstring("master") && ContainsSubstring("absmax"));
  CHECK_THAT(damage_of([](Manifest& m) { m.shards[1].vitals[0].nonfinite = 1; }),
             ContainsSubstring("nonfinite"));
  CHECK_THAT(damage_of([](Manifest& m) { m.state_hash ^= 1; }),
             ContainsSubstring("manifest.json: state_hash"));
  CHECK_THAT(damage_of([](Manifest& m) { m.shards[0].file_crc32c ^= 1; }),
             ContainsSubstring("checksum of the whole file"));
}

TEST_CASE("a shard whose header is of another checkpoint is found") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  for (const std::string change : {"step", "gen", "run_id", "lo", "layout"}) {
    Manifest manifest = one.manifest_with_shards();
    ShardRecord& shard = manifest.shards[1];
    const std::string file = one.path() + "/" + shard.file;
    std::string bytes = content_of(file);
    const std::size_t at = bytes.find("\"" + change + "\":\"") + change.size() + 4;
    bytes[at] = bytes[at] == '1' ? '2' : '1';
    put(file, bytes);
    shard.chunk_crc32c = {crc32c(bytes)};
    shard.file_crc32c = crc32c(bytes);
    REQUIRE(commit_checkpoint(folder.path(), manifest).ok());
    const auto verdict = verdict_of(one);
    CAPTURE(change);
    REQUIRE(verdict.damage.size() == 1);
    CHECK_THAT(verdict.damage[0].what, ContainsSubstring("not that of the manifest") ||
                                           ContainsSubstring("are not those of the manifest"));
  }
}

TEST_CASE("a damaged certificate is named") {
  Folder folder;
  const ACheckpoint one{.root = folder.path()};
  one.commit();
  put(one.path() + "/cert.json", "{}");
  const auto verdict = verdict_of(one);
  REQUIRE(verdict.damage.size() == 1);
  CHECK(verdict.damage[0].file == "cert.json");
}
