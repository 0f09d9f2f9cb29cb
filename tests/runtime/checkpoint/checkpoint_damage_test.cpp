// Damage of every kind to a committed checkpoint: nothing may ever load silently.

#include <filesystem>

#include "runtime/checkpoint/choose.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

// Whether every value can be read, and the state hash is that of the manifest.
bool loads(const std::string& path) {
  const auto manifest = read_manifest(path);
  if (!manifest) return false;
  CheckpointReader reader(path, manifest.value());
  std::uint64_t hash = 0;
  std::vector<float> values(manifest.value().flat.numel);
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    if (!reader.read(plane, 0, values)) return false;
    hash += plane_hash(plane, 0, values);
  }
  return hash == manifest.value().state_hash;
}

std::vector<std::string> files_of(const std::string& path) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every file cut at every 4 KiB boundary is found, and the checkpoint before is used") {
  Folder folder;
  ACheckpoint{.root = folder.path(), .step = 10}.commit();
  const ACheckpoint newest{.root = folder.path(), .step = 20};
  newest.commit();
  for (const std::string& file : files_of(newest.path())) {
    const std::string whole = content_of(file);
    for (std::size_t length = 0; length < whole.size(); length += 4096) {
      put(file, whole.substr(0, length));
      std::vector<RejectedCheckpoint> rejected;
      const auto found = find_newest_checkpoint(folder.path(), &rejected);
      CAPTURE(file, length);
      REQUIRE(found);
      CHECK(found->step == 10);
      REQUIRE(rejected.size() == 1);
      CHECK_FALSE(rejected[0].reason.empty());
    }
    put(file, whole);
  }
  CHECK(find_newest_checkpoint(folder.path())->step == 20);
}

TEST_CASE("no flipped bit in any file loads silently") {
  Folder folder;
  const ACheckpoint saved{.root = folder.path()};
  saved.commit();
  REQUIRE(loads(saved.path()));
  std::uint64_t draw = 0;
  for (const std::string& file : files_of(saved.path())) {
    const std::string whole = content_of(file);
    for (int i = 0; i < 350; ++i) {
      const auto words = random_block(3, RandomPurpose::sample_order, 0, ++draw);
      const std::size_t at = words[0] % whole.size();
      const auto mask = static_cast<char>(1u << words[1] % 8);
      std::string changed = whole;
      changed[at] ^= mask;
      put(file, changed);
      CAPTURE(file, at);
      CHECK_FALSE(loads(saved.path()));
    }
    put(file, whole);
  }
  CHECK(loads(saved.path()));
}

TEST_CASE("no change of a manifest makes its reader do anything but read or refuse") {
  Folder folder;
  const std::string whole =
      format_manifest(ACheckpoint{.root = folder.path()}.manifest_with_shards());
  const std::string body = whole.substr(0, whole.size() - checkpoint_seal_bytes) + "}";
  static constexpr const char* pieces[] = {"-1",   "1e999",   "null",       "[]",
                                           "{}",   "\"\"",    "4294967296", "18446744073709551615",
                                           "true", "\"a/b\"", ",",          "0"};
  int refused = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    std::string changed = body;
    const auto count = 1 + random_block(4, RandomPurpose::sample_order, 1, i)[0] % 3;
    for (std::uint32_t j = 0; j < count; ++j) {
      const auto words = random_block(4, RandomPurpose::sample_order, 2 + j, i);
      const std::size_t at = words[0] % changed.size();
      switch (words[1] % 4) {
        case 0:
          changed[at] ^= static_cast<char>(1u << words[2] % 8);
          break;
        case 1:
          changed.erase(at, 1 + words[2] % 30);
          break;
        case 2:
          changed.insert(at, pieces[words[2] % std::size(pieces)]);
          break;
        // A whole number somewhere becomes another value.
        default: {
          const std::size_t digit = changed.find_first_of("0123456789", at);
          const std::size_t end = changed.find_first_not_of("0123456789", digit);
          if (end != std::string::npos) {
            changed.replace(digit, end - digit, pieces[words[2] % std::size(pieces)]);
          }
        }
      }
      if (changed.empty()) changed = "{}";
    }
    // Sealed anew, so that the checksum does not keep the parser from seeing the change.
    const auto parsed = parse_manifest(seal_json(changed));
    if (parsed) {
      CHECK(parse_manifest(format_manifest(parsed.value())).ok());
    } else {
      ++refused;
      CHECK_FALSE(parsed.reason().empty());
    }
    CHECK_FALSE(parse_manifest(changed).ok());
  }
  CHECK(refused > 1000);
}

TEST_CASE("a manifest of nothing but brackets is refused, however deep") {
  const std::string deep(1000000, '[');
  const std::string body = "{\"format\":\"muster-ckpt\",\"version\":1,\"requires\":[" + deep +
                           std::string(deep.size(), ']') + "]}";
  CHECK_THAT(parse_manifest(seal_json(body)).reason(), ContainsSubstring("nested deeper than"));
}

TEST_CASE("no change of a log makes its reader do anything but read or skip lines") {
  Folder folder;
  log_generation(folder.path(), 1, 0);
  log_generation(folder.path(), 2, 10);
  const std::string whole = content_of(folder / "resume_log.jsonl");
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto words = random_block(5, RandomPurpose::sample_order, 0, i);
    std::string changed = whole;
    changed[words[0] % changed.size()] ^= static_cast<char>(1u << words[1] % 8);
    const ResumeLog log = parse_resume_log(changed);
    CHECK(log.generations.size() < 2);
    CHECK(log.damaged_lines > 0);
  }
}
