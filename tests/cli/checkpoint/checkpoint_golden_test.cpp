// What `muster checkpoint` prints, for people and machines, against the texts beside this file.
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/checkpoint/report.h"
#include "tests/cli/golden.h"

using namespace muster;

namespace {

void compare_with_golden(const std::string& file, const std::string& text) {
  check_golden(text, "tests/cli/golden/" + file);
}

Manifest a_manifest() {
  Manifest manifest;
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.generation = 2;
  manifest.step = 1200;
  manifest.tokens = 1228800;
  manifest.created_ns = 1763701000250000000;
  manifest.code_hash = 1;
  manifest.config_hash = 0xfeedfacecafebeef;
  manifest.flat.add("wte.weight", {256, 8}, true);
  manifest.flat.add("wpe.weight", {16, 8}, true);
  manifest.flat.add("ln_f.weight", {8}, false);
  manifest.flat.add("ln_f.bias", {8}, false);
  ShardRecord shard;
  shard.file = "shard-00000-of-00001.safetensors";
  shard.bytes = 40960;
  shard.data_offset = 4096;
  shard.range = {0, manifest.flat.numel};
  shard.host = "n1";
  shard.chunk_crc32c = {7};
  shard.file_crc32c = 0xabc;
  shard.vitals[0] = {0, 0.5f, 2.25, 0x1234};
  shard.vitals[1] = {3, std::numeric_limits<float>::infinity(), 1, 5};
  manifest.shards = {shard};
  manifest.state_hash = 0x1239;
  manifest.replica = {9, 2, true};
  manifest.train.seed = 18446744073709551615u;
  manifest.train.micro_batches = 8;
  manifest.train.micro_batch = 2;
  manifest.train.leaves = 8;
  manifest.train.sampler = {"windows-feistel-philox", 1, 19200, 100000, 0xdeadbeef};
  manifest.train.lr_step = 1200;
  manifest.train.loss_ema = 2.5;
  manifest.train.config = {{"heads", "2"}, {"lr", "0.001"}};
  manifest.world = 2;
  manifest.nodes = {"n1", "n2"};
  manifest.previous = "s000001100-g2";
  manifest.lineage = {{1, 0}, {2, 600}};
  return manifest;
}

CheckpointLine a_line(std::uint64_t step, const std::string& state, const std::string& reason) {
  CheckpointLine line;
  line.name = {step, step > 600 ? 2u : 1u};
  line.path = "/ckpt/" + checkpoint_directory_name(line.name);
  line.state = state;
  line.reason = reason;
  if (state != "INCOMPLETE")
    line.facts = {40960 * step, 1763701000250000000, 2, 250.0 / double(step)};
  return line;
}

std::vector<CheckpointLine> some_lines() {
  std::vector<CheckpointLine> lines{
      a_line(1300, "INCOMPLETE", "was never committed, or is being written"),
      a_line(1200, "QUARANTINED", "is quarantined: loss"),
      a_line(1100, "VALID", ""),
      a_line(1000, "CORRUPT", "shard-00000-of-00001.safetensors: has 5 bytes, the manifest says 6"),
      a_line(500, "VERIFIED", ""),
      a_line(400, "COMMITTED", "a later generation began before this step\x1b[31m")};
  lines[2].newest = true;
  lines[2].pinned = true;
  lines[4].pinned = true;
  return lines;
}

std::vector<CheckedCheckpoint> some_checked() {
  CheckedCheckpoint writing;
  writing.path = "/ckpt/s000001300-g2";
  writing.unsealed = true;
  CheckedCheckpoint good;
  good.path = "/ckpt/s000001200-g2";
  good.verdict.bytes = 123456789;
  CheckedCheckpoint bad;
  bad.path = "/ckpt/s000001100-g2";
  bad.verdict.bytes = 1000;
  bad.verdict.damage = {{"shard-00001-of-00002.safetensors", 8388608,
                         "bytes 8388608 to 9000000 do not match their checksum (chunk 1)", true},
                        {"cert.json", 0, "the certificate is torn or its checksum is wrong"}};
  return {writing, good, bad};
}

}  // namespace

TEST_CASE("the list of checkpoints is what it was promised to be") {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  compare_with_golden("checkpoint_list.txt", lines_table(some_lines()).text(0, false));
  compare_with_golden("checkpoint_list.json", lines_document(some_lines()).dump(2) + "\n");
}

TEST_CASE("a shown checkpoint has everything that its manifest says") {
  CheckpointLine line = a_line(1200, "VALID", "");
  line.newest = true;
  line.pinned = true;
  line.pin_reason = "for the paper";
  line.evidence = {"200 losses without a jump"};
  compare_with_golden("checkpoint_show.json", manifest_document(a_manifest(), line).dump(2) + "\n");
}

TEST_CASE("what was found by reading all bytes is told for each checkpoint") {
  compare_with_golden("checkpoint_verify.txt", checked_text(some_checked(), false));
  compare_with_golden("checkpoint_verify.json", checked_document(some_checked()).dump(2) + "\n");
}
