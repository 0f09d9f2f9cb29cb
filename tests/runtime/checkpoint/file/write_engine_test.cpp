// The ways in which the bytes of a checkpoint reach the disk.

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "runtime/checkpoint/file/write.h"
#include "runtime/checkpoint/shard.h"
#include "runtime/protocol/crc32c.h"
#include "tests/catch.h"
#include "tests/runtime/a_checkpoint.h"
#include "tests/runtime/file_size_limit.h"
#include "tests/runtime/folder.h"

using namespace muster;
using namespace muster::test;

namespace {

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  return bytes;
}

// Writes `bytes` in pieces of `piece` bytes; empty: it worked.
std::string write_in_pieces(const std::string& path, std::string_view bytes, std::size_t piece,
                            WriteChoice& choice) {
  auto file = FileWrite::begin(path, bytes.size(), choice);
  if (!file) return file.reason();
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    file.value().put(at, bytes.substr(at, piece));
    file.value().tend();
  }
  const auto done = file.value().finish();
  return done ? "" : done.reason();
}

WriteWay any_way() {
  return GENERATE(WriteWay::buffered, WriteWay::direct_threads, WriteWay::direct_ring);
}

}  // namespace

TEST_CASE("every way of writing leaves the same bytes, whatever their length and address") {
  const WriteWay way = any_way();
  const std::size_t length = GENERATE(1, 4095, 4096, 4097, 100000, 40 * 65536, 40 * 65536 + 123);
  const std::size_t shift = GENERATE(0, 8);
  CAPTURE(write_way_name(way), length, shift);
  Folder folder;
  const std::size_t pages = (length + shift + 4095) / 4096;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(4096, pages * 4096)), std::free);
  const std::string expected = some_bytes(length);
  std::copy(expected.begin(), expected.end(), memory.get() + shift);
  WriteChoice choice{way};
  CHECK(write_in_pieces(folder / "file", {memory.get() + shift, length}, 65536, choice) == "");
  CHECK(content_of(folder / "file") == expected);
  CHECK(choice.way == way);
}

TEST_CASE("the first large file tries both ways, and all of it is there") {
  Folder folder;
  const std::string expected = some_bytes(3000001);
  WriteChoice choice;
  choice.trial_from_bytes = 1 << 20;
  CHECK(write_in_pieces(folder / "small", expected.substr(0, 50000), 65536, choice) == "");
  CHECK_FALSE(choice.way);
  CHECK(write_in_pieces(folder / "large", expected, 65536, choice) == "");
  CHECK(content_of(folder / "large") == expected);
  REQUIRE(choice.way);
  CHECK_THAT(choice.reason, ContainsSubstring("buffered ") && ContainsSubstring(" MB/s"));
}

TEST_CASE("a disk that is full is a fault of every way, and none waits for ever") {
  const WriteWay way = any_way();
  Folder folder;
  WriteChoice choice{way};
  const std::string bytes = some_bytes(2000000);
  const FileSizeLimit limit(1 << 20);
  auto file = FileWrite::begin(folder / "file", 4096, choice);
  REQUIRE(file);
  for (std::size_t at = 0; at < bytes.size(); at += 65536) {
    file.value().put(at, std::string_view(bytes).substr(at, 65536));
  }
  const auto done = file.value().finish();
  REQUIRE_FALSE(done);
  CHECK_THAT(done.reason(), ContainsSubstring("File too large"));
  // The next file goes through the page cache: another way may do better.
  CHECK(choice.way == WriteWay::buffered);
}

TEST_CASE("a shard has the same bytes and the same entry, however it is written") {
  const FlatSpace space = a_flat_space();
  const Planes planes = some_planes(space, 5);
  const ElementRange range{0, space.numel};
  Folder folder;
  std::vector<ShardRecord> records;
  for (const WriteWay way : {WriteWay::buffered, WriteWay::direct_threads, WriteWay::direct_ring}) {
    WriteChoice choice{way};
    auto shard = ShardWrite::begin(folder.path(), {std::string(32, 'a'), 1, 1, layout_hash(space)},
                                   {"here", records.size(), 3}, range,
                                   {planes[0], planes[1], planes[2]}, choice);
    REQUIRE(shard);
    for (std::uint64_t filled = 0; filled < space.numel; filled += 999) {
      shard.value().filled(filled * sizeof(float));
    }
    auto record = shard.value().finish();
    REQUIRE(record);
    CHECK_THAT(record.value().engine, ContainsSubstring(write_way_name(way)));
    records.push_back(record.value());
  }
  for (const ShardRecord& record : records) {
    CHECK(content_of(folder / record.file) == content_of(folder / records[0].file));
    CHECK(record.chunk_crc32c == records[0].chunk_crc32c);
    CHECK(record.file_crc32c == crc32c(content_of(folder / record.file)));
    CHECK(record.vitals == records[0].vitals);
    CHECK(record.vitals[1] == tensor_stats(1, 0, planes[1]));
  }
}

TEST_CASE("vitals are those of a plain loop, values that are not finite left out") {
  std::vector<float> values = narrow(normal_values(10007, 3));
  values[17] = std::numeric_limits<float>::quiet_NaN();
  values[5000] = -std::numeric_limits<float>::infinity();
  values[10006] = -99;
  double squares = 0;
  for (const float value : values) {
    if (std::isfinite(value)) squares += double{value} * double{value};
  }
  const TensorStats vitals = tensor_stats(2, 11, values);
  CHECK(vitals.nonfinite == 2);
  CHECK(vitals.absmax == 99);
  CHECK(std::fabs(vitals.l2 / std::sqrt(squares) - 1) < 1e-12);
  CHECK(vitals.hash == plane_hash(2, 11, values));
  CHECK(vitals.hash == plane_hash(2, 11, std::span(values).first(5001)) +
                           plane_hash(2, 5012, std::span(values).subspan(5001)));
}
