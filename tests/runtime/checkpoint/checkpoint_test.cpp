#include "runtime/checkpoint/choose.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/protocol/crc32c.h"
#include "scheduler/text/number.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/file_size_limit.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

TEST_CASE("what was saved by any number of ranks is read back by any other, bit for bit") {
  Folder folder;
  for (const std::size_t ranks : {1, 2, 3, 5, 12}) {
    const ACheckpoint saved{.root = folder.path(), .step = ranks, .ranks = ranks};
    saved.commit();
    const auto manifest = read_manifest(saved.path());
    REQUIRE(manifest.ok());
    const Planes planes = some_planes(a_flat_space(), saved.seed);
    for (const std::size_t readers : {1, 2, 4, 7}) {
      for (std::size_t r = 0; r < readers; ++r) {
        const ElementRange range = owned_elements(manifest.value().flat, r, readers);
        CheckpointReader reader(saved.path(), manifest.value());
        for (std::size_t plane = 0; plane < flat_planes; ++plane) {
          std::vector<float> values(range.size());
          REQUIRE(reader.read(plane, range.lo, values).ok());
          CHECK(std::equal(values.begin(), values.end(), planes[plane].begin() + range.lo));
        }
      }
    }
  }
}

TEST_CASE("values outside the flat space are refused, those at its edges are read") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path()};
  const Manifest manifest = saved.commit();
  const std::uint64_t numel = manifest.flat.numel;
  CheckpointReader reader(saved.path(), manifest);
  std::vector<float> two(2);
  CHECK(reader.read(0, 0, two).ok());
  CHECK(reader.read(flat_planes - 1, numel - 2, two).ok());
  CHECK(reader.read(0, numel, std::span<float>()).ok());
  const std::pair<std::size_t, std::uint64_t> outside[] = {
      {flat_planes, 0}, {flat_planes + 4, 0}, {0, numel - 1}, {0, numel}, {2, numel + 1000}};
  for (const auto& [plane, first] : outside) {
    CAPTURE(plane, first);
    CHECK_THAT(reader.read(plane, first, two).reason(),
               ContainsSubstring("values outside the flat space"));
  }
}

TEST_CASE("parameters stand in their order, each at a multiple of the alignment, and the end too") {
  FlatSpace space;
  CHECK(space.add("one", {1}, true) == 0);
  CHECK(space.numel == 1024);
  CHECK(space.add("full", {32, 32}, false) == 1);
  CHECK(space.numel == 2048);
  CHECK(space.add("more", {1025}, true) == 2);
  CHECK(space.numel == 4096);
  CHECK(space.params[0] == FlatParameter{"one", 0, {1}, true});
  CHECK(space.params[1] == FlatParameter{"full", 1024, {32, 32}, false});
  CHECK(space.params[2] == FlatParameter{"more", 2048, {1025}, true});
  // Whole blocks, as even as they can be, in the order of the ranks.
  CHECK(owned_elements(space, 0, 3) == ElementRange{0, 1024});
  CHECK(owned_elements(space, 1, 3) == ElementRange{1024, 2048});
  CHECK(owned_elements(space, 2, 3) == ElementRange{2048, 4096});
  CHECK(owned_elements(space, 0, 5) == ElementRange{0, 0});
}

TEST_CASE("the state hash does not depend on how many ranks saved the state") {
  Folder folder;
  const auto one = ACheckpoint{.root = folder.path(), .step = 1, .ranks = 1}.commit();
  const auto five = ACheckpoint{.root = folder.path(), .step = 2, .ranks = 5}.commit();
  const auto other = ACheckpoint{.root = folder.path(), .step = 3, .ranks = 5, .seed = 2}.commit();
  CHECK(one.state_hash == five.state_hash);
  CHECK(one.state_hash != other.state_hash);
}

TEST_CASE("a shard is a safetensors file with aligned data, and equal state gives equal bytes") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path()};
  const Manifest manifest = saved.commit();
  const std::string file = content_of(saved.path() + "/" + manifest.shards[0].file);
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  CHECK((header + 8) % 4096 == 0);
  CHECK(file[8] == '{');
  CHECK(header + 8 == manifest.shards[0].data_offset);
  CHECK(file.size() == header + 8 + manifest.shards[0].range.size() * 12);
  CHECK(file.find("\"data_offsets\":[0,") != std::string::npos);
  CHECK(manifest.shards[0].file_crc32c == crc32c(file));

  Folder other;
  const ACheckpoint again{.root = other.path()};
  again.commit();
  CHECK(content_of(again.path() + "/" + manifest.shards[0].file) == file);
}

TEST_CASE("a shard larger than a chunk has a checksum for each chunk") {
  Folder folder;
  const ElementRange range{0, 1024 * 1024};
  std::vector<float> values(range.size(), 1.5f);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[6] = -7;
  const auto record =
      write_shard(folder.path(), {"id", 1, 1, 1}, {"h", 0, 1}, range, {values, values, values});
  REQUIRE(record.ok());
  const std::string file = content_of(folder / record.value().file);
  REQUIRE(record.value().chunk_crc32c.size() == 2);
  CHECK(record.value().chunk_crc32c[0] == crc32c(file.substr(0, shard_chunk_bytes)));
  CHECK(record.value().chunk_crc32c[1] == crc32c(file.substr(shard_chunk_bytes)));
  CHECK(record.value().vitals[0].nonfinite == 1);
  CHECK(record.value().vitals[0].absmax == 7);
  const double squares = (1024.0 * 1024 - 2) * 2.25 + 49;
  CHECK(is_near(record.value().vitals[0].l2, std::sqrt(squares)));
}

TEST_CASE("the vitals of a large shard are those of its values at their places in the flat space") {
  Folder folder;
  const ElementRange range{4096, 4096 + 720 * 1024};  // the last plane lies in two chunks
  const std::vector<float> values = narrow(normal_values(range.size(), 7));
  const auto record =
      write_shard(folder.path(), {"id", 1, 1, 1}, {"h", 0, 1}, range, {values, values, values});
  REQUIRE(record.ok());
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    const TensorStats& vitals = record.value().vitals[plane];
    CHECK(vitals.hash == plane_hash(plane, range.lo, values));
    CHECK(vitals.absmax == tensor_stats(plane, range.lo, values).absmax);
  }
}

TEST_CASE("a manifest survives writing and reading with everything in it") {
  Folder folder;
  const Manifest before = ACheckpoint{.root = folder.path()}.manifest_with_shards();
  const auto read = parse_manifest(format_manifest(before));
  REQUIRE(read.ok());
  const Manifest& after = read.value();
  CHECK(format_manifest(after) == format_manifest(before));
  CHECK(after.flat == before.flat);
  CHECK(after.train.seed == before.train.seed);
  CHECK(after.train.config == before.train.config);
  CHECK(after.train.loss_ema == 2.5);
  CHECK(after.train.skipped_in_a_row == 3);
  CHECK(after.train.best_loss == 2.25);
  CHECK(after.train.best_step == 7);
  CHECK(after.train.far_above_in_a_row == 2);
  CHECK(after.train.sampler.data_crc32c == 0xdeadbeef);
  CHECK(after.lineage == before.lineage);
  CHECK(after.shards[1].vitals == before.shards[1].vitals);
  // People read on which nodes it ran.
  CHECK_THAT(format_manifest(before), ContainsSubstring("\"host\":\"h2\""));
}

TEST_CASE("a manifest of a later version, or with needs that are not known, is refused") {
  Folder folder;
  std::string text = format_manifest(ACheckpoint{.root = folder.path()}.manifest_with_shards());
  text.resize(text.size() - checkpoint_seal_bytes);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return parse_manifest(seal_json(changed + "}"));
  };
  CHECK(with("\"gen\":1", "\"unknown_key\":[1],\"gen\":1").ok());
  CHECK(with("\"version\":1", "\"version\":2").reason() == "version: this reader knows only 1");
  CHECK_THAT(with("\"requires\":[]", "\"requires\":[\"zstd\"]").reason(),
             ContainsSubstring("zstd"));
  CHECK_THAT(with("\"file\":\"shard", "\"file\":\"../shard").reason(),
             ContainsSubstring("not a plain file name"));
  CHECK_THAT(with("\"lo\":0", "\"lo\":1024").reason(), ContainsSubstring("does not match"));
  CHECK(with("\"shape\":[40,50]", "\"shape\":[40,50]").ok());
  for (const char* odd : {"[40.5,50]", "[\"40\",50]", "[-40,50]", "[true,2000]", "[[40]]"}) {
    CHECK(with("\"shape\":[40,50]", "\"shape\":" + std::string(odd)).reason() ==
          "one: shape holds something else than numbers");
  }
  for (const char* odd : {"[0,50]", "[281474976710657]", "[16777216,16777217]"}) {
    CHECK(with("\"shape\":[40,50]", "\"shape\":" + std::string(odd)).reason() ==
          "one: shape is empty or too large");
  }
  CHECK(with(",\"best_loss\"", ",\"an_older_one_has_none\"").value().train.best_loss == 0);
}

TEST_CASE("a file that nests 50,000 deep is told as damaged, not read until the stack is used up") {
  const std::string deep = std::string(50000, '[') + std::string(50000, ']');
  CHECK(parse_manifest(seal_json("{\"version\":1,\"x\":" + deep + "}")).reason() ==
        "nested deeper than 64 levels");
  CHECK(parse_certificate(seal_json("{\"x\":" + deep + "}")).reason() ==
        "nested deeper than 64 levels");
  CHECK(parse_resume_log(seal_json("{\"x\":" + deep + "}")).damaged_lines == 1);
  const std::string text = "{\"x\":\"" + std::string(1000, '[') + "\\\"" + "\"}";
  CHECK(parse_certificate(seal_json(text)).reason() == "format: missing");
}

TEST_CASE("base64 of numbers has one spelling") {
  for (std::size_t count = 0; count < 9; ++count) {
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(0x9E3779B9u * (i + 1));
    const std::string text = base64_of_u32(numbers);
    CHECK(u32_of_base64(text) == numbers);
    CHECK_FALSE(u32_of_base64(text + "="));
    CHECK_FALSE(u32_of_base64(text + "AAAA"));
  }
  CHECK(base64_of_u32(std::vector<std::uint32_t>{0x64636261}) == "YWJjZA==");
  CHECK_FALSE(u32_of_base64("YWJjZB=="));
  CHECK_FALSE(u32_of_base64("YW=jZA=="));
}

TEST_CASE("a commit with a missing shard is refused and leaves nothing that counts") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path()};
  const Manifest manifest = saved.manifest_with_shards();
  fs::remove(saved.path() + "/" + manifest.shards[1].file);
  CHECK(missing_shards(saved.path(), manifest) ==
        std::vector<std::string>{manifest.shards[1].file});
  CHECK_FALSE(commit_checkpoint(folder.path(), manifest).ok());
  CHECK_FALSE(find_newest_checkpoint(folder.path()));
  CHECK_FALSE(fs::exists(folder / "LATEST"));
}

TEST_CASE("a torn last line of the log is ended before the next one is written") {
  Folder folder;
  log_generation(folder.path(), 1, 0);
  put(folder / "resume_log.jsonl", content_of(folder / "resume_log.jsonl") + "{\"gen\":2,\"fo");
  log_generation(folder.path(), 3, 20);
  const ResumeLog log = read_resume_log(folder.path());
  REQUIRE(log.generations.size() == 2);
  CHECK(log.generations[1].generation == 3);
  CHECK(log.generations[1].fork_step == 20);
  CHECK(log.damaged_lines == 1);
}

TEST_CASE("a file whose writer has lost its right at the last moment is not replaced") {
  Folder folder;
  REQUIRE(replace_durably(folder.path(), "x", "old"));
  bool was_written = false;
  const auto refused = replace_durably(folder.path(), "x", "new", [&]() -> Checked<NoValue> {
    was_written = content_of(folder / "x.tmp") == "new";
    return CheckpointFault{"too late"};
  });
  CHECK(refused.reason() == "too late");
  CHECK(was_written);
  CHECK(content_of(folder / "x") == "old");
  CHECK_FALSE(fs::exists(folder / "x.tmp"));
}

TEST_CASE("on a full disk the old file stays, and nothing is left of the new one") {
  Folder folder;
  REQUIRE(replace_durably(folder.path(), "x", "old"));
  {
    const FileSizeLimit full(5);
    CHECK_THAT(replace_durably(folder.path(), "x", "new one").reason(), ContainsSubstring("x.tmp"));
  }
  CHECK(content_of(folder / "x") == "old");
  CHECK_FALSE(fs::exists(folder / "x.tmp"));
  REQUIRE(replace_durably(folder.path(), "x", "new one"));
  CHECK(content_of(folder / "x") == "new one");
}

TEST_CASE("files are written and read all the same by a process without standard input") {
  Folder folder;
  const int before = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  const auto replaced = replace_durably(folder.path(), "x", "text");
  const auto appended = append_line_durably(folder.path(), "log", "line\n");
  const auto synced = sync_checkpoint_directory(folder.path());
  const auto locked = CheckpointLock::take(folder.path(), "lock").ok();
  const auto read = read_checkpoint_text(folder / "x", 100);
  if (before >= 0) {
    ::dup2(before, STDIN_FILENO);
    ::close(before);
  }
  CHECK(replaced.ok());
  CHECK(appended.ok());
  CHECK(synced.ok());
  CHECK(locked);
  REQUIRE(read.ok());
  CHECK(read.value() == "text");
  CHECK(content_of(folder / "log") == "line\n");
}

TEST_CASE("a pipe in the place of a file is refused, not waited for") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path()};
  saved.commit();
  fs::remove(saved.path() + "/manifest.json");
  REQUIRE(::mkfifo((saved.path() + "/manifest.json").c_str(), 0600) == 0);
  CHECK_THAT(read_manifest(saved.path()).reason(), ContainsSubstring("is not a regular file"));
}

TEST_CASE("storage failures are told with the file's name") {
  CHECK_THAT(replace_durably("/nonexistent", "x", "y").reason(),
             ContainsSubstring("/nonexistent/x"));
  CHECK_THAT(append_line_durably("/nonexistent", "x", "y").reason(),
             ContainsSubstring("/nonexistent"));
  CHECK_FALSE(make_checkpoint_directory("/proc/none").ok());
  CHECK_FALSE(sync_checkpoint_directory("/nonexistent").ok());
  CHECK_FALSE(read_checkpoint_text("/proc/self", 100).ok());
  Folder folder;
  put(folder / "large", std::string(101, 'x'));
  CHECK_THAT(read_checkpoint_text(folder / "large", 100).reason(),
             ContainsSubstring("limit of 100"));
}
